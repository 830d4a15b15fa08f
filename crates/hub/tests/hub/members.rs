//! What the hub says of members.

use std::time::Duration;

use serde_json::json;
use strait_hub::MemberReport;

use crate::{
    agent::Agent,
    caller::Caller,
    service,
    world::{SOON, World, eventually, soon},
};

#[tokio::test]
async fn a_member_is_reachable_when_a_probe_has_come_back() {
    let world = World::start_with(|config| config.times.probe = Duration::from_millis(50)).await;
    let agent = Agent::connect(&world, "cluster1").await;
    let report = || world.members.report_of("cluster1");
    eventually("reachable", || report() == Some(MemberReport::Reachable)).await;
    agent.probes(false);
    eventually("unreachable", || {
        matches!(report(), Some(MemberReport::ProbeFailed(_)))
    })
    .await;
    agent.probes(true);
    eventually("reachable again", || {
        report() == Some(MemberReport::Reachable)
    })
    .await;
    agent.session.close(strait_tunnel::CloseCode::Normal);
    eventually("not connected", || {
        matches!(report(), Some(MemberReport::NotConnected(_)))
    })
    .await;
    assert_eq!(
        world.members.report_of("cluster2"),
        None,
        "it may be connected to another hub"
    );
}

#[tokio::test]
async fn the_end_of_an_old_session_does_not_end_a_new_one() {
    let world = World::start_with(|config| config.times.probe = Duration::from_millis(50)).await;
    let old = Agent::connect(&world, "cluster1").await;
    let new = Agent::connect(&world, "cluster1").await;
    old.session.close(strait_tunnel::CloseCode::Normal);
    old.session.closed().await;
    let report = || world.members.report_of("cluster1");
    eventually("reachable", || report() == Some(MemberReport::Reachable)).await;
    new.probes(false);
    eventually("the new one counts", || {
        matches!(report(), Some(MemberReport::ProbeFailed(_)))
    })
    .await;
}

#[tokio::test]
async fn each_agent_learns_what_of_its_cluster_is_exposed() {
    let world = World::start().await;
    let mut agent = Agent::connect(&world, "cluster1").await;
    let first = agent.table(0).await;
    world.expose("b.default.cluster1", &json!({ "ports": ["80", "https"] }));
    world.expose("a.default.cluster1", &json!({}));
    world.expose("c.default.cluster2", &json!({}));
    let table = agent.table(2).await;
    assert!(table.generation > first.generation);
    let names: Vec<_> = table
        .services
        .iter()
        .map(|s| (s.service.as_str(), s.ports.len()))
        .collect();
    assert_eq!(names, [("a", 0), ("b", 2)]);
}

#[tokio::test]
async fn who_comes_while_an_agent_is_replaced_waits_for_the_next_one() {
    let world = World::start_with(|config| config.times.comeback = SOON).await;
    world.reviews.token("t", "dev");
    world.expose("echo.default.cluster1", &json!({}));
    world.reviews.allow("dev", "echo.default.cluster1");
    let echo = service::echo(&world.tasks).await;
    let arrive = || async {
        let agent = Agent::connect(&world, "cluster1").await;
        agent.serve("echo.default:7", echo, r#"{"port":7}"#);
        agent
    };
    let ask = || async {
        let mut caller = Caller::new(&world).await;
        caller.tunnel("echo.default.cluster1:7", "t").await.status
    };
    // The hub has just begun, so an agent is expected.
    let (status, first) = tokio::join!(ask(), arrive());
    assert_eq!(status, 200);
    // It shuts down.
    first.session.drain(SOON);
    let (status, second) = tokio::join!(ask(), arrive());
    assert_eq!(status, 200);
    // It is gone.
    second.session.close(strait_tunnel::CloseCode::Normal);
    soon("the end", first.session.closed()).await;
    let (status, _third) = tokio::join!(ask(), arrive());
    assert_eq!(status, 200);
}
