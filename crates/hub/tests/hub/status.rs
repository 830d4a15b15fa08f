//! What the hub tells of its sessions, and to whom.

use strait_types::{HubStatus, STATUS_PATH};

use crate::{agent::Agent, answer::Answer, caller::Caller, world::World};

async fn ask(world: &World, token: &str) -> Answer {
    let mut caller = Caller::new(world).await;
    let head = format!("GET {STATUS_PATH} HTTP/1.1\nhost: hub.test\nauthorization: Bearer {token}");
    caller.ask(&head).await
}

#[tokio::test]
async fn who_may_list_the_members_sees_the_sessions() {
    let world = World::start().await;
    world.reviews.token("admin", "admin@example.com");
    world.reviews.allow("admin@example.com", "managedclusters");
    let _agents = [
        Agent::connect(&world, "cluster2").await,
        Agent::connect(&world, "cluster1").await,
    ];
    let answer = ask(&world, "admin").await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let status: HubStatus = serde_json::from_str(&answer.body).unwrap();
    let clusters: Vec<&str> = status.sessions.iter().map(|s| s.cluster.as_str()).collect();
    assert_eq!(clusters, ["cluster1", "cluster2"]);
    let session = &status.sessions[0];
    assert_eq!(
        (&*session.software, session.draining),
        ("strait/9.9.9", false)
    );
    assert!(session.certificate_ends > session.since);
}

#[tokio::test]
async fn nobody_else_does() {
    let world = World::start().await;
    world.reviews.token("dev", "dev@example.com");
    for (token, status, code) in [
        ("dev", 403, "not-allowed"),
        ("none", 401, "unauthenticated"),
    ] {
        let answer = ask(&world, token).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code));
        assert!(!answer.body.contains("cluster1"), "{}", answer.body);
    }
}
