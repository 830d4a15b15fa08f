//! HTTP CONNECT.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{
    agent::Agent,
    caller::Caller,
    service,
    world::{World, soon},
};

const DETAIL: &str = r#"{"port":7,"name":"echo"}"#;

/// A hub with an agent that serves an echo service, and a token that may connect to it.
async fn echo_world() -> (World, Agent) {
    let world = World::start().await;
    world.reviews.token("t", "dev@example.com");
    world
        .reviews
        .allow("dev@example.com", "echo.default.cluster1");
    world.expose("echo.default.cluster1", &json!({}));
    let agent = Agent::connect(&world, "cluster1").await;
    agent.serve("echo.default:7", service::echo(&world.tasks).await, DETAIL);
    (world, agent)
}

#[tokio::test]
async fn bytes_go_both_ways_and_half_closes_are_kept() {
    let (world, agent) = echo_world().await;
    let mut caller = Caller::new(&world).await;
    assert_eq!(
        caller.tunnel("echo.default.cluster1:7", "t").await.status,
        200
    );
    assert_eq!(caller.read(6).await, "hello\n", "the service speaks first");
    caller.send("abc").await;
    assert_eq!(caller.read(3).await, "abc");
    caller.tls.shutdown().await.unwrap();
    assert_eq!(caller.read_to_end().await, b"bye\n");
    let (target, who, generation) = agent.opened().remove(0);
    assert_eq!(
        (target.as_str(), who.as_str()),
        ("tcp:echo.default:7", "dev@example.com")
    );
    assert!(generation > 0);
}

#[tokio::test]
async fn every_form_of_a_name_leads_to_the_service() {
    let (world, agent) = echo_world().await;
    let uid = world.expose("other.default.cluster1", &json!({}));
    world
        .reviews
        .allow("dev@example.com", "other.default.cluster1");
    agent.serve("other.default:7", service::echo(&world.tasks).await, DETAIL);
    for name in [
        "echo.default.cluster1",
        "Echo.Default.Cluster1.",
        "echo.default.cluster1.hub.test",
        "echo--default--cluster1.hub.test",
        &uid,
    ] {
        let mut caller = Caller::new(&world).await;
        assert_eq!(
            caller.tunnel(&format!("{name}:7"), "t").await.status,
            200,
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_client_certificate_is_as_good_as_a_token() {
    let (world, _agent) = echo_world().await;
    let identity = world.caller_identity("dev@example.com", None);
    let mut caller = Caller::connect(&world, "hub.test", Some(&identity)).await;
    let head = "CONNECT echo.default.cluster1:7 HTTP/1.1\nhost: x\n\n".replace('\n', "\r\n");
    caller.send(&head).await;
    assert_eq!(caller.head().await.status, 200);
    assert_eq!(caller.read(6).await, "hello\n");
}

#[tokio::test]
async fn a_token_may_come_as_a_password() {
    let (world, _agent) = echo_world().await;
    let mut caller = Caller::new(&world).await;
    // `user:t` in base64.
    let head = "CONNECT echo.default.cluster1:7 HTTP/1.1\nhost: x\n\
                proxy-authorization: Basic dXNlcjp0\n\n"
        .replace('\n', "\r\n");
    caller.send(&head).await;
    assert_eq!(caller.head().await.status, 200);
}

#[tokio::test]
async fn bytes_that_follow_the_request_at_once_arrive() {
    let (world, _agent) = echo_world().await;
    let mut caller = Caller::new(&world).await;
    let head = "CONNECT echo.default.cluster1:7 HTTP/1.1\nhost: x\n\
                proxy-authorization: Bearer t\n\nearly"
        .replace('\n', "\r\n");
    caller.send(&head).await;
    assert_eq!(caller.head().await.status, 200);
    assert_eq!(caller.read(11).await, "hello\nearly");
}

#[tokio::test]
async fn a_caller_that_does_not_read_stops_only_its_own_stream() {
    let (world, agent) = echo_world().await;
    world.expose("flood.default.cluster1", &json!({}));
    world
        .reviews
        .allow("dev@example.com", "flood.default.cluster1");
    agent.serve(
        "flood.default:7",
        service::endless(&world.tasks).await,
        DETAIL,
    );
    let mut stuck = Caller::new(&world).await;
    assert_eq!(
        stuck.tunnel("flood.default.cluster1:7", "t").await.status,
        200
    );
    for _ in 0..20 {
        let mut caller = Caller::new(&world).await;
        assert_eq!(
            caller.tunnel("echo.default.cluster1:7", "t").await.status,
            200
        );
        assert_eq!(caller.read(6).await, "hello\n");
    }
    assert!(
        stuck.read(100_000).await.bytes().all(|b| b == b'x'),
        "and goes on when it reads"
    );
}

#[tokio::test]
async fn several_sessions_of_one_cluster_take_each_others_place() {
    let (world, first) = echo_world().await;
    let second = Agent::connect(&world, "cluster1").await;
    second.serve("echo.default:7", service::echo(&world.tasks).await, DETAIL);
    for agent in [first, second] {
        let mut caller = Caller::new(&world).await;
        assert_eq!(
            caller.tunnel("echo.default.cluster1:7", "t").await.status,
            200
        );
        agent.session.drain(std::time::Duration::from_secs(1));
        soon("the drain", agent.session.draining()).await;
        caller.send("still here").await;
        assert_eq!(
            caller.read(16).await,
            "hello\nstill here",
            "what is open stays open"
        );
        if agent.opened().is_empty() {
            break;
        }
    }
}

#[tokio::test]
async fn nothing_is_lost_or_added_in_bulk() {
    let (world, _agent) = echo_world().await;
    let mut caller = Caller::new(&world).await;
    assert_eq!(
        caller.tunnel("echo.default.cluster1:7", "t").await.status,
        200
    );
    let sent: Vec<u8> = (0..4_000_000u32)
        .flat_map(|n| n.to_le_bytes())
        .take(8 << 20)
        .collect();
    let expected = [b"hello\n", &sent[..], b"bye\n"].concat();
    let (mut read, mut write) = tokio::io::split(caller.tls);
    let upload = async {
        write.write_all(&sent).await.unwrap();
        write.shutdown().await.unwrap();
    };
    let mut received = Vec::new();
    let (_, download) = soon("8 MiB there and back", async {
        tokio::join!(upload, read.read_to_end(&mut received))
    })
    .await;
    download.unwrap();
    assert!(
        received == expected,
        "{} of {} bytes",
        received.len(),
        expected.len()
    );
}
