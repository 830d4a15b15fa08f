use super::*;
use crate::object::tests::{assert_sound, find};

#[test]
fn the_objects_of_a_member_are_sound() {
    assert_sound(&install().objects(), Part::Agent);
    assert_sound(&[install().join_secret("secret")], Part::Agent);
}

#[test]
fn the_agent_may_not_create_or_read_other_secrets() {
    let objects = install().objects();
    let role = find(&objects, Kind::Role, "strait-agent");
    for rule in role.value()["rules"].as_array().unwrap() {
        assert!(rule["resourceNames"].is_array(), "{rule}");
    }
    let everywhere = find(&objects, Kind::ClusterRole, "strait-agent").value();
    assert!(!everywhere.to_string().contains("secrets"), "{everywhere}");
}

#[test]
fn the_allow_list_reaches_the_agent() {
    let objects = install().objects();
    let deployment = find(&objects, Kind::Deployment, "strait-agent").value();
    assert_eq!(
        deployment["spec"]["template"]["spec"]["containers"][0]["args"],
        json!(["agent", "--allow=default/*"])
    );
}

#[test]
fn a_token_does_not_show_in_debug_output() {
    let secret = install().join_secret("hunter2");
    assert!(!format!("{secret:?}").contains("hunter2"));
    assert_eq!(secret.value()["stringData"]["token"], "hunter2");
}

#[test]
fn the_identity_is_applied_without_data_so_that_a_second_join_keeps_it() {
    let objects = install().objects();
    let identity = find(&objects, Kind::Secret, AGENT_IDENTITY_SECRET).value();
    assert!(identity.get("data").is_none() && identity.get("stringData").is_none());
}

#[test]
fn only_several_replicas_have_a_disruption_budget() {
    let budget = |replicas| {
        let install = AgentInstall {
            replicas,
            ..install()
        };
        install
            .objects()
            .iter()
            .any(|o| o.kind() == Kind::PodDisruptionBudget)
    };
    assert_eq!((budget(1), budget(2)), (false, true));
}

fn install() -> AgentInstall {
    AgentInstall {
        image: "strait.dev/strait:1.2.3".to_owned(),
        version: "1.2.3".to_owned(),
        cluster: "cluster1".to_owned(),
        replicas: 1,
        allow: vec!["default/*".to_owned()],
    }
}
