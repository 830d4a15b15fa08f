use super::*;
use crate::object::tests::{assert_sound, find};

#[test]
fn the_objects_of_a_hub_are_sound() {
    assert_sound(&install().objects(), Part::Hub);
}

#[test]
fn the_same_input_gives_the_same_objects() {
    assert_eq!(install().objects(), install().objects());
}

#[test]
fn hub_and_controller_have_accounts_and_rights_of_their_own() {
    let objects = install().objects();
    for name in ["strait-hub", "strait-controller"] {
        find(&objects, Kind::ServiceAccount, name);
        let deployment = find(&objects, Kind::Deployment, name).value();
        assert_eq!(
            deployment["spec"]["template"]["spec"]["serviceAccountName"],
            name
        );
    }
    let hub = find(&objects, Kind::ClusterRole, "strait-hub").value();
    for forbidden in ["secrets", "namespaces", "customresourcedefinitions"] {
        assert!(!hub.to_string().contains(forbidden), "{forbidden}");
    }
}

#[test]
fn a_host_port_is_opened_and_given_up_before_it_is_taken_again() {
    let with = HubInstall {
        host_port: Some(8443),
        ..install()
    };
    for (install, host_port, surge) in [(install(), json!(null), 1), (with, json!(8443), 0)] {
        let objects = install.objects();
        let spec = &find(&objects, Kind::Deployment, "strait-hub").value()["spec"];
        let port = &spec["template"]["spec"]["containers"][0]["ports"][0];
        assert_eq!(port["containerPort"], 8443);
        assert_eq!(port["hostPort"], host_port);
        assert_eq!(spec["strategy"]["rollingUpdate"]["maxSurge"], surge);
    }
}

#[test]
fn who_administers_a_namespace_administers_its_entrypoints() {
    let objects = install().objects();
    let edit = find(&objects, Kind::ClusterRole, "strait-entrypoints-edit").value();
    for role in ["admin", "edit"] {
        let label = format!("rbac.authorization.k8s.io/aggregate-to-{role}");
        assert_eq!(edit["metadata"]["labels"][label], "true");
    }
    assert!(
        !edit["rules"].to_string().contains("connect"),
        "who writes entrypoints says who may connect, by `spec.subjects`, and may not by the role itself"
    );
    let view = find(&objects, Kind::ClusterRole, "strait-entrypoints-view").value();
    assert_eq!(
        view["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"],
        "true"
    );
}

#[test]
fn addresses_and_domain_reach_both_roles() {
    let objects = install().objects();
    for name in ["hub", "controller"] {
        let deployment = find(&objects, Kind::Deployment, &format!("strait-{name}")).value();
        assert_eq!(
            deployment["spec"]["template"]["spec"]["containers"][0]["args"],
            json!([
                name,
                "--address=hub.example.com:8443",
                "--domain=demo.localhost"
            ])
        );
    }
}

#[test]
fn several_replicas_have_a_disruption_budget() {
    let install = HubInstall {
        replicas: 2,
        ..install()
    };
    find(&install.objects(), Kind::PodDisruptionBudget, "strait-hub");
}

fn install() -> HubInstall {
    HubInstall {
        image: "strait.dev/strait:1.2.3".to_owned(),
        version: "1.2.3".to_owned(),
        addresses: vec!["hub.example.com:8443".to_owned()],
        domain: "demo.localhost".to_owned(),
        trust_domain: String::new(),
        replicas: 1,
        service_type: ServiceType::LoadBalancer,
        host_port: None,
    }
}
