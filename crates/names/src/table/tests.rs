use proptest::prelude::*;
use strait_types::RefusalCode;

use super::*;
use crate::Alias;

type Line<'a> = (&'a str, &'a str, &'a str, &'a str);

const LINES: &[Line<'_>] = &[
    ("cluster1", "search", "default", "uid-1"),
    ("cluster1", "search", "search", "uid-2"),
    ("cluster2", "foo", "default", "uid-3"),
    ("cluster1", "kubernetes", "default", "uid-4"),
];

fn cluster(name: &str) -> ClusterName {
    name.parse().unwrap()
}

fn table(lines: &[Line<'_>], aliases: &[(&str, &str)]) -> NameTable<()> {
    let members = ["cluster1", "cluster2", "lab"].map(cluster);
    let mut builder = NameTable::builder("hub.test", members);
    for (member, service, namespace, uid) in lines {
        let declared = Declared {
            object: format!("{service}.{namespace}.{member}"),
            uid: (*uid).to_owned(),
            service: (*service).to_owned(),
            namespace: (*namespace).to_owned(),
            ports: vec![],
        };
        builder.entry(&cluster(member), &declared, ()).unwrap();
    }
    for (host, service) in aliases {
        builder.alias(&Alias {
            host: (*host).to_owned(),
            service: service.parse().unwrap(),
            source: "spec.serviceResolvers[0]".to_owned(),
        });
    }
    builder.build()
}

fn uid<'a>(table: &'a NameTable<()>, host: &str) -> Option<&'a str> {
    let uid = table.resolve(host).ok().map(Entry::uid);
    assert_eq!(table.leads(host), uid.is_some(), "{host}");
    uid
}

fn refusal(table: &NameTable<()>, host: &str) -> Refusal {
    let miss = *table.resolve(host).unwrap_err();
    let all: Vec<_> = miss.candidates().collect();
    miss.with_hint(&all)
}

#[test]
fn a_label_that_may_be_of_another_member_leads_nowhere() {
    let members = ["b", "a--b"].map(cluster);
    let mut builder = NameTable::builder("hub.test", members);
    let declared = Declared {
        object: "svc".to_owned(),
        uid: "uid-1".to_owned(),
        service: "svc".to_owned(),
        namespace: "ns--a".to_owned(),
        ports: vec![],
    };
    builder.entry(&cluster("b"), &declared, ()).unwrap();
    let table = builder.build();
    let refused = refusal(&table, "svc--ns--a--b.hub.test");
    assert_eq!(refused.code, RefusalCode::AmbiguousName);
    assert_eq!(uid(&table, "svc.ns--a.b"), Some("uid-1"));
}

#[test]
fn every_form_of_a_name_leads_to_its_entry() {
    let table = table(LINES, &[("mysvc.cluster2", "foo.default.cluster2")]);
    for (host, expected) in [
        ("search.default.cluster1", "uid-1"),
        ("SEARCH.Default.cluster1.", "uid-1"),
        ("search.search.cluster1", "uid-2"),
        ("search.search.cluster1.hub.test", "uid-2"),
        ("search--default--cluster1", "uid-1"),
        ("search--default--cluster1.hub.test", "uid-1"),
        ("uid-3", "uid-3"),
        ("uid-3.hub.test", "uid-3"),
        ("mySvc.cluster2", "uid-3"),
        ("mysvc.cluster2.hub.test", "uid-3"),
        ("cluster1", "uid-4"),
    ] {
        assert_eq!(uid(&table, host), Some(expected), "{host}");
    }
}

#[test]
fn a_wrong_name_is_refused_with_the_nearest_right_one() {
    let table = table(LINES, &[("mysvc.cluster2", "foo.default.cluster2")]);
    for (host, code, message, hint) in [
        (
            "foo.default.cluster1",
            RefusalCode::EntrypointNotFound,
            "cluster1 has no entrypoint for service `foo` in namespace `default`",
            "did you mean `foo.default.cluster2`?",
        ),
        (
            "serch.default.cluster1",
            RefusalCode::EntrypointNotFound,
            "cluster1 has no entrypoint for service `serch` in namespace `default`",
            "did you mean `search.default.cluster1`?",
        ),
        (
            "search.default.cluster3",
            RefusalCode::ClusterNotFound,
            "no cluster is called `cluster3`",
            "did you mean `search.default.cluster1`?",
        ),
        (
            "a.b.elsewhere",
            RefusalCode::ClusterNotFound,
            "no cluster is called `elsewhere`",
            "`strait clusters` lists the clusters",
        ),
        (
            "lab",
            RefusalCode::EntrypointNotFound,
            "the API server of lab is not exposed",
            "",
        ),
        (
            "example.com",
            RefusalCode::EntrypointNotFound,
            "`example.com` is no name of this hub",
            "names have the form `service.namespace.cluster`",
        ),
        (
            "a b",
            RefusalCode::BadRequest,
            "`a b` is no host name",
            "names have the form `service.namespace.cluster`",
        ),
    ] {
        let refusal = refusal(&table, host);
        assert_eq!(
            (refusal.code, refusal.message.as_str()),
            (code, message),
            "{host}"
        );
        assert_eq!(refusal.hint.as_deref().unwrap_or_default(), hint, "{host}");
    }
}

#[test]
fn a_refusal_names_no_entrypoint_to_those_who_may_not_know_it() {
    let table = table(LINES, &[]);
    let miss = *table.resolve("serch.default.cluster1").unwrap_err();
    assert_eq!(miss.refusal().hint, None);
    assert_eq!(miss.with_hint(&[]).hint, None);
}

#[test]
fn a_canonical_name_wins_over_an_alias() {
    let table = table(
        LINES,
        &[("search.default.cluster1", "foo.default.cluster2")],
    );
    assert_eq!(uid(&table, "search.default.cluster1"), Some("uid-1"));
}

#[test]
fn a_name_that_two_claim_is_refused_with_their_uids() {
    let twice = [LINES, &[("cluster1", "search", "default", "uid-9")]].concat();
    let by_entries = refusal(&table(&twice, &[]), "search.default.cluster1");
    assert_eq!(by_entries.code, RefusalCode::AmbiguousName);
    let hint = by_entries.hint.unwrap();
    assert!(hint.contains("uid-1") && hint.contains("uid-9"), "{hint}");

    let aliases = [
        ("both.test", "search.default.cluster1"),
        ("both.test", "foo.default.cluster2"),
    ];
    assert_eq!(
        refusal(&table(LINES, &aliases), "both.test").code,
        RefusalCode::AmbiguousName
    );

    // `a--b.c.cluster1` and `a.b--c.cluster1` look alike as one label.
    let labels = table(
        &[
            ("cluster1", "a--b", "c", "u1"),
            ("cluster1", "a", "b--c", "u2"),
        ],
        &[],
    );
    assert_eq!(
        refusal(&labels, "a--b--c--cluster1").code,
        RefusalCode::AmbiguousName
    );
    assert_eq!(uid(&labels, "a--b.c.cluster1"), Some("u1"));
}

#[test]
fn an_agent_is_told_each_service_once_with_all_its_ports() {
    let mut builder = NameTable::builder("", [cluster("cluster1")]);
    for (object, ports) in [("a", &["80"][..]), ("b", &["https", "80"])] {
        let declared = Declared {
            object: object.to_owned(),
            uid: object.to_owned(),
            service: "web".to_owned(),
            namespace: "default".to_owned(),
            ports: ports.iter().map(|port| (*port).to_owned()).collect(),
        };
        builder.entry(&cluster("cluster1"), &declared, ()).unwrap();
    }
    let exposed = builder.build().exposed(&cluster("cluster1"));
    assert_eq!(exposed.len(), 1);
    assert_eq!(exposed[0].ports, ["80", "https"]);
}

#[test]
fn a_wrong_declaration_is_refused_by_its_field() {
    let mut builder = NameTable::builder("", [cluster("cluster1")]);
    let good = Declared {
        object: "x".to_owned(),
        uid: "u".to_owned(),
        service: "web".to_owned(),
        namespace: "default".to_owned(),
        ports: vec!["80".to_owned()],
    };
    let mut refused = |declared: Declared| {
        let error = builder
            .entry(&cluster("cluster1"), &declared, ())
            .unwrap_err();
        error.to_string()
    };
    let service = refused(Declared {
        service: "a.b".to_owned(),
        ..good.clone()
    });
    assert_eq!(
        service,
        "spec.service: `a.b` is no name that Kubernetes takes"
    );
    let namespace = refused(Declared {
        namespace: String::new(),
        ..good.clone()
    });
    assert_eq!(
        namespace,
        "spec.namespace: `` is no name that Kubernetes takes"
    );
    let ports = vec!["80".to_owned(), "0".to_owned()];
    assert!(refused(Declared { ports, ..good }).starts_with("spec.ports[1]: `0`"));
}

#[test]
fn host_names_are_those_that_lead_to_the_entry() {
    let table = table(LINES, &[("mysvc.cluster2", "foo.default.cluster2")]);
    let entry = table.resolve("foo.default.cluster2").unwrap();
    assert_eq!(
        table.hostnames(entry),
        [
            "foo.default.cluster2",
            "foo.default.cluster2.hub.test",
            "foo--default--cluster2.hub.test",
            "mysvc.cluster2",
            "mysvc.cluster2.hub.test",
        ]
    );
}

proptest! {
    #[test]
    fn resolving_never_panics_and_never_reaches_another_cluster(
        lines in prop::collection::vec(("cluster[12]", "[a-c-]{1,4}", "[a-c-]{1,4}"), 0..8),
        host in "[a-c.-]{0,9}(--|\\.)?(cluster[123])?",
    ) {
        let mut builder = NameTable::builder("hub.test", ["cluster1", "cluster2"].map(cluster));
        for (index, (member, service, namespace)) in lines.iter().enumerate() {
            let declared = Declared {
                object: index.to_string(),
                uid: format!("uid-{index}"),
                service: service.clone(),
                namespace: namespace.clone(),
                ports: vec![],
            };
            let _ = builder.entry(&cluster(member), &declared, ());
        }
        let table = builder.build();
        if let Ok(entry) = table.resolve(&host) {
            let one_label = entry::one_label(entry.service());
            prop_assert!(entry.service().to_string() == host || one_label == host);
        }
    }
}
