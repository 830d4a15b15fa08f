use proptest::prelude::*;
use serde_json::json;

use super::*;

fn members(names: &[&str]) -> BTreeSet<ClusterName> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

fn both() -> BTreeSet<ClusterName> {
    members(&["cluster1", "cluster2"])
}

fn services(exposure: &Exposure) -> Vec<String> {
    exposure
        .entrypoints
        .iter()
        .map(|wanted| wanted.service.to_string())
        .collect()
}

fn problems(exposure: &Exposure) -> Vec<(String, ProblemReason)> {
    exposure
        .problems
        .iter()
        .map(|p| (p.field.clone(), p.reason))
        .collect()
}

#[test]
fn the_list_form_exposes_what_it_names() {
    let list = json!([
        {"name": "search", "namespace": "default", "cluster": "cluster1"},
        {"name": "search", "namespace": "search", "cluster": "cluster1"},
        {"name": "foo", "namespace": "default", "cluster": "cluster2"}
    ]);
    let exposure = expand(Some(&list), None, &both());
    assert_eq!(
        services(&exposure),
        [
            "search.default.cluster1",
            "search.search.cluster1",
            "foo.default.cluster2"
        ]
    );
    assert_eq!(exposure.entrypoints[1].source, "spec.services[1]");
    assert_eq!(exposure.problems, []);
}

#[test]
fn the_map_form_exposes_for_every_member_under_the_old_host_name() {
    let map = json!({"search": "search.namespace.svc", "ui": "ui.namespace.svc.cluster.local"});
    let exposure = expand(Some(&map), None, &both());
    assert_eq!(exposure.entrypoints.len(), 4);
    let alias = exposure
        .aliases
        .iter()
        .find(|alias| alias.host == "cluster1-search")
        .unwrap();
    assert_eq!(alias.service.to_string(), "search.namespace.cluster1");
    assert_eq!(exposure.problems, []);
}

#[test]
fn resolvers_make_a_host_name_for_every_member() {
    let resolvers = json!([
        {"hostnameTemplate": "$cluster", "namespace": "default", "name": "kubernetes"},
        {"hostnameTemplate": "mySvc.$cluster", "namespace": "default", "name": "my-svc"}
    ]);
    let exposure = expand(None, Some(&resolvers), &both());
    let hosts: Vec<_> = exposure
        .aliases
        .iter()
        .map(|alias| alias.host.as_str())
        .collect();
    assert_eq!(
        hosts,
        ["cluster1", "cluster2", "mysvc.cluster1", "mysvc.cluster2"]
    );
    assert_eq!(exposure.problems, []);
}

#[test]
fn a_wrong_entry_spoils_only_itself_and_is_named_by_its_field() {
    let list = json!([
        {"name": "a.b", "namespace": "default", "cluster": "cluster1"},
        {"name": "search", "namespace": "default", "cluster": "cluster9"},
        {"name": "search", "namespace": "default"},
        {"name": "search", "namespce": "x", "namespace": "default", "cluster": "cluster1"},
        "search",
        {"name": 7, "namespace": "default", "cluster": "cluster1"},
        {"name": "good", "namespace": "default", "cluster": "cluster1"},
        {"name": "good", "namespace": "default", "cluster": "cluster1"}
    ]);
    let resolvers = json!([
        {"hostnameTemplate": "fixed.name", "namespace": "default", "name": "web"},
        {"hostnameTemplate": "a b.$cluster", "namespace": "default", "name": "web"},
        {"hostnameTemplate": "web.$cluster", "namespace": "default", "name": "web"},
        {"hostnameTemplate": "web.$cluster", "namespace": "other", "name": "web"}
    ]);
    let exposure = expand(Some(&list), Some(&resolvers), &both());
    assert_eq!(
        services(&exposure),
        [
            "good.default.cluster1",
            "web.default.cluster1",
            "web.default.cluster2"
        ]
    );
    use ProblemReason as Why;
    let expected = [
        ("spec.services[0].name", Why::InvalidName),
        ("spec.services[1].cluster", Why::UnknownCluster),
        ("spec.services[2].cluster", Why::MissingField),
        ("spec.services[3].namespce", Why::UnknownField),
        ("spec.services[4]", Why::WrongType),
        ("spec.services[5].name", Why::WrongType),
        ("spec.services[7]", Why::Collision),
        (
            "spec.serviceResolvers[0].hostnameTemplate",
            Why::TemplateWithoutCluster,
        ),
        (
            "spec.serviceResolvers[1].hostnameTemplate",
            Why::InvalidHostname,
        ),
        ("spec.serviceResolvers[3].hostnameTemplate", Why::Collision),
    ];
    let expected: Vec<_> = expected.map(|(field, why)| (field.to_owned(), why)).into();
    assert_eq!(problems(&exposure), expected);
    let near = &exposure.problems[1].message;
    assert!(near.contains("did you mean `cluster1`?"), "{near}");
}

#[test]
fn an_unknown_cluster_works_as_soon_as_it_is_a_member() {
    let list = json!([{"name": "search", "namespace": "default", "cluster": "late"}]);
    assert_eq!(expand(Some(&list), None, &both()).entrypoints, []);
    let later = expand(Some(&list), None, &members(&["late"]));
    assert_eq!(
        (services(&later), later.problems),
        (vec!["search.default.late".to_owned()], vec![])
    );
}

#[test]
fn a_host_name_of_another_cluster_cannot_be_claimed() {
    let resolvers = json!([
        {"hostnameTemplate": "search.$cluster.cluster2", "namespace": "default", "name": "web"}
    ]);
    let exposure = expand(None, Some(&resolvers), &both());
    assert!(
        exposure
            .aliases
            .iter()
            .all(|alias| alias.service.cluster().as_str() == "cluster2")
    );
    assert_eq!(exposure.problems.len(), 1);
}

#[test]
fn services_of_another_type_are_one_problem() {
    let exposure = expand(Some(&json!("search")), Some(&json!({})), &both());
    assert_eq!(
        problems(&exposure),
        [
            ("spec.services".to_owned(), ProblemReason::WrongType),
            ("spec.serviceResolvers".to_owned(), ProblemReason::WrongType),
        ]
    );
}

proptest! {
    #[test]
    fn no_text_panics(texts in prop::collection::vec(".{0,70}", 6)) {
        let list = json!([{"name": texts[0], "namespace": texts[1], "cluster": texts[2]}]);
        let resolvers = json!([
            {"hostnameTemplate": texts[3], "namespace": texts[4], "name": texts[5]}
        ]);
        let _ = expand(Some(&list), Some(&resolvers), &both());
        let mut map = serde_json::Map::new();
        map.insert(texts[0].clone(), json!(texts[1]));
        let _ = expand(Some(&Value::Object(map)), None, &both());
    }
}
