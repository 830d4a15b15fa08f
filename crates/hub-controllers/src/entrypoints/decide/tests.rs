use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::{
    api::apps::v1::{Deployment, DeploymentStatus},
    apimachinery::pkg::apis::meta::v1::Time,
};
use serde_json::{Value, json};
use strait_api::{
    ClusterProxyEntrypoint, ClusterProxyEntrypointSpec, Condition, ConditionStatus,
    ManagedProxyConfiguration, Subject, SubjectKind,
};

use super::*;

/// The list of the published discussion.
fn seed() -> Value {
    json!({ "services": [
        { "name": "search", "namespace": "default", "cluster": "cluster1" },
        { "name": "search", "namespace": "search", "cluster": "cluster1" },
        { "name": "foo", "namespace": "default", "cluster": "cluster2" },
    ]})
}

fn configuration(name: &str, spec: Value) -> ManagedProxyConfiguration {
    let mut configuration =
        ManagedProxyConfiguration::new(name, serde_json::from_value(spec).unwrap());
    configuration.metadata.uid = Some(format!("uid-{name}"));
    configuration.metadata.generation = Some(3);
    configuration
}

fn by_hand(cluster: &str, name: &str, service: &str, namespace: &str) -> ClusterProxyEntrypoint {
    let spec = ClusterProxyEntrypointSpec {
        service: service.to_owned(),
        namespace: namespace.to_owned(),
        ..ClusterProxyEntrypointSpec::default()
    };
    let mut entrypoint = ClusterProxyEntrypoint::new(name, spec);
    entrypoint.metadata.namespace = Some(cluster.to_owned());
    entrypoint.metadata.uid = Some(format!("uid-{cluster}-{name}"));
    entrypoint
}

fn seen(spec: Value, entrypoints: Vec<ClusterProxyEntrypoint>) -> Seen {
    let names = ["cluster1", "cluster2"];
    Seen {
        domain: "hub.test".to_owned(),
        configurations: vec![Arc::new(configuration("cluster-proxy", spec))],
        unreadable: vec![],
        members: names.iter().map(|name| name.parse().unwrap()).collect(),
        namespaces: names.iter().map(ToString::to_string).collect(),
        entrypoints: entrypoints.into_iter().map(Arc::new).collect(),
        hub: None,
        authorities: vec![("strait-hub-ca", None)],
        now: Timestamp::UNIX_EPOCH,
    }
}

/// The world after the decision was applied, with another time on the clock.
fn applied(mut seen: Seen, decision: &Decision) -> Seen {
    let gone = |e: &Arc<ClusterProxyEntrypoint>| {
        decision
            .delete
            .iter()
            .any(|d| e.uid().as_deref() == Some(&d.uid))
    };
    seen.entrypoints.retain(|e| !gone(e));
    for made in &decision.make {
        let mut object: ClusterProxyEntrypoint = serde_json::from_value(made.to_json()).unwrap();
        object.metadata.uid = Some(format!("uid-{}", made.name()));
        seen.entrypoints.retain(|e| e.name_any() != made.name());
        seen.entrypoints.push(Arc::new(object));
    }
    for (namespace, name, status) in &decision.tell {
        for entrypoint in &mut seen.entrypoints {
            if entrypoint.namespace().as_ref() == Some(namespace) && entrypoint.name_any() == *name
            {
                Arc::make_mut(entrypoint).status = Some(status.clone());
            }
        }
    }
    for (name, _, status) in &decision.report {
        for configuration in &mut seen.configurations {
            if configuration.name_any() == *name {
                Arc::make_mut(configuration).status = Some(status.clone());
            }
        }
    }
    seen.now = Timestamp::from_second(seen.now.as_second() + 60).unwrap();
    seen
}

/// The world when nothing is left to do.
fn settled(mut seen: Seen) -> Seen {
    for _ in 0..5 {
        let decision = decide(&seen);
        if decision == Decision::default() {
            return seen;
        }
        seen = applied(seen, &decision);
    }
    panic!("still something to do: {:?}", decide(&seen));
}

fn places(seen: &Seen) -> BTreeSet<String> {
    seen.entrypoints
        .iter()
        .map(|e| format!("{}/{}", e.namespace().unwrap(), e.name_any()))
        .collect()
}

fn condition(conditions: &[Condition], kind: &str) -> (ConditionStatus, String, String) {
    let found = conditions.iter().find(|c| c.r#type == kind).unwrap();
    (found.status, found.reason.clone(), found.message.clone())
}

fn resolved(seen: &Seen) -> (ConditionStatus, String, String) {
    let status = seen.configurations[0].status.as_ref().unwrap();
    condition(&status.conditions, "ServicesResolved")
}

fn accepted(seen: &Seen, name: &str) -> (ConditionStatus, String, String) {
    let entrypoint = seen
        .entrypoints
        .iter()
        .find(|e| e.name_any() == name)
        .unwrap();
    condition(&entrypoint.status.as_ref().unwrap().conditions, "Accepted")
}

#[test]
fn the_published_list_makes_its_three_entrypoints_and_then_nothing_is_written() {
    let seen = settled(seen(seed(), vec![]));
    assert_eq!(
        places(&seen),
        BTreeSet::from([
            "cluster1/search.default.cluster1".to_owned(),
            "cluster1/search.search.cluster1".to_owned(),
            "cluster2/foo.default.cluster2".to_owned(),
        ])
    );
    let entrypoint = seen
        .entrypoints
        .iter()
        .find(|e| e.name_any() == "foo.default.cluster2");
    let entrypoint = entrypoint.unwrap();
    let owner = &entrypoint.owner_references()[0];
    assert_eq!(
        (owner.kind.as_str(), owner.uid.as_str()),
        ("ManagedProxyConfiguration", "uid-cluster-proxy")
    );
    assert_eq!(
        entrypoint.annotations()["strait.dev/source"],
        "spec.services[2]"
    );
    let status = entrypoint.status.as_ref().unwrap();
    assert_eq!(
        status.url.as_deref(),
        Some("https://uid-foo.default.cluster2/")
    );
    assert_eq!(
        status.hostnames,
        [
            "foo.default.cluster2",
            "foo.default.cluster2.hub.test",
            "foo--default--cluster2.hub.test",
        ]
    );
    assert_eq!(
        accepted(&seen, "foo.default.cluster2").0,
        ConditionStatus::True
    );
    let (status, reason, message) = resolved(&seen);
    assert_eq!(
        (status, reason.as_str()),
        (ConditionStatus::True, "Resolved")
    );
    assert_eq!(message, "3 entrypoints and 0 further host names");
    assert_eq!(
        seen.configurations[0]
            .status
            .as_ref()
            .unwrap()
            .last_observed_generation,
        Some(3)
    );
}

#[test]
fn what_is_not_named_any_more_goes_and_what_was_made_by_hand_stays() {
    let mut seen = settled(seen(
        seed(),
        vec![by_hand("cluster1", "mine", "own", "default")],
    ));
    seen.configurations = vec![Arc::new(configuration(
        "cluster-proxy",
        json!({ "services": [] }),
    ))];
    assert_eq!(decide(&seen).delete.len(), 3);
    assert_eq!(
        places(&settled(seen)),
        BTreeSet::from(["cluster1/mine".to_owned()])
    );
}

#[test]
fn without_its_configuration_nothing_stays_exposed() {
    let mut seen = settled(seen(seed(), vec![]));
    seen.configurations.clear();
    assert_eq!(decide(&seen).delete.len(), 3);
    let other = configuration("another", seed());
    seen.configurations = vec![Arc::new(other)];
    let seen = settled(seen);
    assert_eq!(places(&seen), BTreeSet::new());
    assert_eq!(resolved(&seen).1, "NotInUse");
}

#[test]
fn what_a_former_configuration_made_is_made_anew() {
    let mut seen = settled(seen(seed(), vec![]));
    let mut anew = configuration("cluster-proxy", seed());
    anew.metadata.uid = Some("another".to_owned());
    seen.configurations = vec![Arc::new(anew)];
    let decision = decide(&seen);
    assert_eq!((decision.delete.len(), decision.make.len()), (3, 0));
    let seen = settled(seen);
    let owners = seen.entrypoints.iter().map(|e| &e.owner_references()[0]);
    assert!(owners.into_iter().all(|owner| owner.uid == "another"));
    assert_eq!(places(&seen).len(), 3);
}

#[test]
fn a_field_that_cannot_be_read_takes_nothing_away() {
    let mut seen = settled(seen(seed(), vec![]));
    let broken = configuration("cluster-proxy", json!({ "services": "search" }));
    seen.configurations = vec![Arc::new(broken)];
    let seen = settled(seen);
    assert_eq!(places(&seen).len(), 3);
    let (status, reason, message) = resolved(&seen);
    assert_eq!(
        (status, reason.as_str()),
        (ConditionStatus::False, "WrongType")
    );
    assert!(message.starts_with("spec.services: "), "{message}");
}

#[test]
fn an_object_that_cannot_be_read_takes_nothing_away() {
    let mut seen = settled(seen(seed(), vec![]));
    seen.configurations.clear();
    seen.unreadable = vec!["ManagedCluster cluster1".to_owned()];
    assert_eq!(decide(&seen).delete, []);
}

#[test]
fn a_wrong_entry_is_told_by_its_field_and_the_others_work() {
    let spec = json!({ "services": [
        { "name": "a", "namespace": "default", "cluster": "cluster9" },
        { "name": "b.c", "namespace": "default", "cluster": "cluster1" },
        { "name": "d", "namespace": "default", "cluster": "cluster1" },
    ]});
    let seen = settled(seen(spec, vec![]));
    assert_eq!(
        places(&seen),
        BTreeSet::from(["cluster1/d.default.cluster1".to_owned()])
    );
    let (status, reason, message) = resolved(&seen);
    assert_eq!(
        (status, reason.as_str()),
        (ConditionStatus::False, "UnknownCluster")
    );
    for field in ["spec.services[0].cluster: ", "; spec.services[1].name: "] {
        assert!(message.contains(field), "{message}");
    }
}

#[test]
fn a_cluster_that_joins_later_gets_its_entrypoint_when_it_has_a_namespace() {
    let spec = json!({ "services": [{ "name": "a", "namespace": "default", "cluster": "late" }] });
    let mut seen = settled(seen(spec, vec![]));
    assert_eq!(places(&seen), BTreeSet::new());
    seen.members.insert("late".parse().unwrap());
    let mut seen = settled(seen);
    assert_eq!(places(&seen), BTreeSet::new());
    seen.namespaces.insert("late".to_owned());
    let seen = settled(seen);
    assert_eq!(
        places(&seen),
        BTreeSet::from(["late/a.default.late".to_owned()])
    );
    assert_eq!(resolved(&seen).0, ConditionStatus::True);
}

#[test]
fn an_entrypoint_by_hand_stands_in_for_an_entry_and_is_told() {
    for name in ["search.default.cluster1", "mine"] {
        let hand = by_hand("cluster1", name, "search", "default");
        let seen = settled(seen(seed(), vec![hand.clone()]));
        assert_eq!(places(&seen).len(), 3, "{name}");
        assert_eq!(
            seen.entrypoints
                .iter()
                .find(|e| e.name_any() == name)
                .unwrap()
                .metadata,
            hand.metadata
        );
        let (status, _, message) = resolved(&seen);
        assert_eq!(status, ConditionStatus::True);
        assert_eq!(
            message,
            "3 entrypoints, 1 of them made by hand, and 0 further host names"
        );
    }
}

#[test]
fn an_entrypoint_by_hand_under_the_name_of_another_service_is_told() {
    let hand = by_hand("cluster1", "search.default.cluster1", "other", "default");
    let seen = settled(seen(seed(), vec![hand]));
    assert_eq!(places(&seen).len(), 3);
    let (status, reason, message) = resolved(&seen);
    assert_eq!(
        (status, reason.as_str()),
        (ConditionStatus::False, "MadeByHand")
    );
    assert!(message.starts_with("spec.services[0]: "), "{message}");
    assert!(message.contains("exposes other.default"), "{message}");
}

#[test]
fn a_second_entrypoint_of_a_service_is_told_at_both() {
    let hands = ["mine", "yours"].map(|name| by_hand("cluster1", name, "search", "default"));
    let seen = settled(seen(json!({}), hands.into()));
    for (name, other) in [("mine", "yours"), ("yours", "mine")] {
        let (status, reason, message) = accepted(&seen, name);
        assert_eq!(
            (status, reason.as_str()),
            (ConditionStatus::False, "Ambiguous")
        );
        for object in [name, other] {
            assert!(message.contains(&format!("`{object}`")), "{message}");
        }
    }
}

#[test]
fn an_entrypoint_by_hand_stands_in_also_when_it_comes_later() {
    let mut world = settled(seen(seed(), vec![]));
    let mut wrong = by_hand("cluster1", "mine", "search", "default");
    wrong.spec.ports = vec!["no port".to_owned()];
    world.entrypoints.push(Arc::new(wrong));
    let mut world = settled(world);
    assert_eq!(
        accepted(&world, "search.default.cluster1").0,
        ConditionStatus::True
    );
    assert_eq!(accepted(&world, "mine").1, "InvalidPort");
    world.entrypoints.retain(|e| e.name_any() != "mine");
    let good = by_hand("cluster1", "mine", "search", "default");
    world.entrypoints.push(Arc::new(good));
    let world = settled(world);
    assert!(!places(&world).contains("cluster1/search.default.cluster1"));
    assert_eq!(accepted(&world, "mine").0, ConditionStatus::True);
    assert_eq!(resolved(&world).0, ConditionStatus::True);
}

#[test]
fn an_entry_that_turns_wrong_keeps_what_it_had_made() {
    let good = |entry: Value| json!({ "services": [entry] });
    let entry = json!({ "name": "search", "namespace": "default", "cluster": "cluster1" });
    for (field, value, told) in [
        ("port", json!(443), "spec.services[0].port: "),
        ("namespace", json!(7), "spec.services[0].namespace: "),
        ("name", json!("a.b"), "spec.services[0].name: "),
    ] {
        let mut world = settled(seen(good(entry.clone()), vec![]));
        let mut wrong = entry.clone();
        wrong[field] = value;
        world.configurations = vec![Arc::new(configuration("cluster-proxy", good(wrong)))];
        let mut world = settled(world);
        assert_eq!(places(&world).len(), 1, "{told}");
        assert!(
            resolved(&world).2.starts_with(told),
            "{}",
            resolved(&world).2
        );
        // What is taken out goes.
        world.configurations = vec![Arc::new(configuration("cluster-proxy", json!({})))];
        assert_eq!(places(&settled(world)).len(), 0);
    }
    let map = |value: Value| json!({ "services": { "search": value, "other": "foo.default.svc" } });
    let mut world = settled(seen(map(json!("search.default.svc")), vec![]));
    world.configurations = vec![Arc::new(configuration("cluster-proxy", map(json!(7))))];
    assert_eq!(places(&settled(world)).len(), 4);
}

#[test]
fn a_field_in_doubt_holds_back_nothing_but_its_own() {
    let both = |services: Value, resolvers: Value| json!({ "services": services, "serviceResolvers": resolvers });
    let services = json!([{ "name": "search", "namespace": "default", "cluster": "cluster1" }]);
    let resolvers =
        json!([{ "hostnameTemplate": "a.$cluster", "namespace": "default", "name": "a" }]);
    let mut world = settled(seen(both(services, resolvers), vec![]));
    assert_eq!(places(&world).len(), 3);
    let spec = both(json!([]), json!({}));
    world.configurations = vec![Arc::new(configuration("cluster-proxy", spec))];
    assert_eq!(
        places(&settled(world)),
        ["cluster1/a.default.cluster1", "cluster2/a.default.cluster2"]
            .map(str::to_owned)
            .into()
    );
}

#[test]
fn what_cannot_be_made_or_read_is_told() {
    let mut world = seen(seed(), vec![]);
    world.namespaces.remove("cluster2");
    world.unreadable = vec!["ManagedCluster lab".to_owned()];
    let (status, reason, message) = resolved(&settled(world));
    assert_eq!(
        (status, reason.as_str()),
        (ConditionStatus::False, "NamespaceMissing")
    );
    assert!(
        message.contains("cluster2") && message.contains("ManagedCluster lab"),
        "{message}"
    );
}

#[test]
fn an_entrypoint_that_is_wrong_names_its_field() {
    let mut bad_port = by_hand("cluster1", "port", "a", "default");
    bad_port.spec.ports = vec!["80".to_owned(), "0".to_owned()];
    let mut nobody = by_hand("cluster1", "nobody", "e", "default");
    nobody.spec.subjects = vec![Subject {
        kind: SubjectKind::ServiceAccount,
        name: "ci".to_owned(),
        namespace: None,
    }];
    let seen = settled(seen(
        json!({}),
        vec![
            bad_port,
            nobody,
            by_hand("cluster1", "service", "a.b", "default"),
            by_hand("cluster1", "namespace", "c", ""),
            by_hand("tools", "cluster", "d", "default"),
        ],
    ));
    for (name, reason, field) in [
        ("port", "InvalidPort", "spec.ports[1]: "),
        ("service", "InvalidService", "spec.service: "),
        ("namespace", "InvalidNamespace", "spec.namespace: "),
        ("cluster", "UnknownCluster", "metadata.namespace: "),
    ] {
        let (status, told, message) = accepted(&seen, name);
        assert_eq!((status, told.as_str()), (ConditionStatus::False, reason));
        assert!(message.starts_with(field), "{message}");
    }
    let (status, _, message) = accepted(&seen, "nobody");
    assert_eq!(status, ConditionStatus::True);
    assert!(message.contains("spec.subjects[0].namespace"), "{message}");
}

#[test]
fn what_users_change_of_their_own_stays_and_what_is_ours_comes_back() {
    let mut seen = settled(seen(seed(), vec![]));
    let mine = Arc::make_mut(&mut seen.entrypoints[0]);
    mine.spec.ports = vec!["443".to_owned()];
    let mut seen = settled(seen);
    assert_eq!(seen.entrypoints[0].spec.ports, ["443"]);
    Arc::make_mut(&mut seen.entrypoints[0]).spec.service = "other".to_owned();
    let make = decide(&seen).make;
    assert_eq!(make.len(), 1);
    assert!(make[0].exists, "what its users wrote in it stays");
}

#[test]
fn an_object_that_is_being_deleted_is_left_to_go() {
    let mut seen = settled(seen(seed(), vec![]));
    let leaving = Arc::make_mut(&mut seen.entrypoints[0]);
    leaving.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    assert_eq!(decide(&seen), Decision::default());
}

#[test]
fn aliases_are_among_the_host_names() {
    let spec = json!({ "services": { "search": "search.namespace.svc" } });
    let seen = settled(seen(spec, vec![]));
    let entrypoint = &seen.entrypoints[0];
    let hostnames = &entrypoint.status.as_ref().unwrap().hostnames;
    assert!(
        hostnames.contains(&"cluster1-search".to_owned()),
        "{hostnames:?}"
    );
    assert!(
        hostnames.contains(&"cluster1-search.hub.test".to_owned()),
        "{hostnames:?}"
    );
}

#[test]
fn images_and_the_hubs_deployment_are_told_as_they_are() {
    let mut seen = seen(
        json!({ "proxyServer": { "image": "quay.io/x/cluster-proxy:latest" }, "proxyAgent": {} }),
        vec![],
    );
    seen.hub = Some(Arc::new(Deployment {
        status: Some(DeploymentStatus {
            ready_replicas: Some(2),
            ..DeploymentStatus::default()
        }),
        ..Deployment::default()
    }));
    let seen = settled(seen);
    let conditions = &seen.configurations[0].status.as_ref().unwrap().conditions;
    let (status, reason, message) = condition(conditions, "ImagesHonoured");
    assert_eq!(
        (status, reason.as_str()),
        (ConditionStatus::False, "ForeignImage")
    );
    assert!(message.starts_with("spec.proxyServer.image: "), "{message}");
    assert_eq!(
        condition(conditions, "ProxyServerDeployed"),
        (
            ConditionStatus::True,
            "SuccessfullyDeployed".to_owned(),
            "Replicas: 2".to_owned()
        )
    );
    let (status, reason, message) = condition(conditions, "CertificatesValid");
    assert_eq!(
        (status, reason.as_str()),
        (ConditionStatus::False, "Missing")
    );
    assert!(message.starts_with("Secret strait-hub-ca: "), "{message}");
}

#[test]
fn a_tls_block_that_cannot_work_is_named_by_its_field() {
    let good = strait_pki::Ca::generate(
        "x",
        jiff::SignedDuration::from_hours(1),
        Timestamp::UNIX_EPOCH,
    )
    .unwrap();
    for (tls, field) in [
        (
            json!({ "serverName": "a b" }),
            Some("spec.tls.serverName: "),
        ),
        (json!({ "serverName": "" }), Some("spec.tls.serverName: ")),
        (
            json!({ "caBundle": "garbage" }),
            Some("spec.tls.caBundle: "),
        ),
        (json!({ "caBundle": "" }), Some("spec.tls.caBundle: ")),
        (json!({ "serverName": "search.example.com" }), None),
        (json!({ "caBundle": good.certificate_pem() }), None),
    ] {
        let mut mine = by_hand("cluster1", "mine", "own", "default");
        mine.spec.tls = serde_json::from_value(tls.clone()).unwrap();
        let other = by_hand("cluster1", "other", "other", "default");
        let seen = settled(seen(json!({}), vec![mine, other]));
        let (status, reason, message) = accepted(&seen, "mine");
        match field {
            Some(field) => {
                assert_eq!(
                    (status, reason.as_str()),
                    (ConditionStatus::False, "InvalidTls")
                );
                assert!(message.starts_with(field), "{tls}: {message}");
            }
            None => assert_eq!(status, ConditionStatus::True, "{tls}: {message}"),
        }
        assert_eq!(accepted(&seen, "other").0, ConditionStatus::True);
    }
}
