//! What is refused, and how each front end says so.

use std::time::Duration;

use serde_json::json;
use strait_types::RefusalCode;

use crate::{
    agent::{Agent, Route},
    answer::Answer,
    caller::Caller,
    service,
    world::World,
};

const TOKEN: &str = "t";

async fn world() -> (World, Agent) {
    let world = World::start_with(|config| config.times.dial = Duration::from_millis(300)).await;
    world.reviews.token(TOKEN, "dev@example.com");
    for name in [
        "web.default.cluster1",
        "web.default.cluster2",
        "one.default.cluster1",
    ] {
        world.expose(name, &json!({}));
        world.reviews.allow("dev@example.com", name);
    }
    let agent = Agent::connect(&world, "cluster1").await;
    (world, agent)
}

async fn connect(world: &World, to: &str) -> Answer {
    Caller::new(world).await.tunnel(to, TOKEN).await
}

async fn by_host(world: &World, host: &str) -> Answer {
    let mut caller = Caller::new(world).await;
    caller
        .ask(&format!(
            "GET / HTTP/1.1\nhost: {host}\nauthorization: Bearer {TOKEN}"
        ))
        .await
}

/// Both front ends refuse with this status and code; returns the hint.
async fn refused(world: &World, name: &str, status: u16, code: &str) -> String {
    let connect = connect(world, &format!("{name}:443")).await;
    let by_host = by_host(world, name).await;
    for answer in [&connect, &by_host] {
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (status, code),
            "{}",
            answer.body
        );
        assert_eq!(answer.header("retry-after").is_some(), status == 503);
    }
    by_host.hint()
}

#[tokio::test]
async fn names_that_lead_nowhere() {
    let (world, _agent) = world().await;
    refused(&world, "web.default.nowhere", 404, "cluster-not-found").await;
    let hint = refused(&world, "wbe.default.cluster1", 404, "entrypoint-not-found").await;
    assert!(hint.contains("web.default.cluster1"), "{hint}");
}

#[tokio::test]
async fn a_name_that_two_claim_is_given_to_neither() {
    let (world, _agent) = world().await;
    let uid = world.expose("web.default.cluster1", &json!({}));
    let hint = refused(&world, "web.default.cluster1", 409, "ambiguous-name").await;
    assert!(hint.contains(&uid) || hint.contains("uid"), "{hint}");
}

#[tokio::test]
async fn the_hint_tells_nothing_that_the_caller_may_not_reach() {
    let (world, _agent) = world().await;
    world.expose("secret.default.cluster1", &json!({}));
    let hint = refused(
        &world,
        "secrte.default.cluster1",
        404,
        "entrypoint-not-found",
    )
    .await;
    assert!(!hint.contains("secret.default"), "{hint}");
}

#[tokio::test]
async fn who_may_not_connect() {
    let (world, agent) = world().await;
    world.expose("other.default.cluster1", &json!({}));
    let hint = refused(&world, "other.default.cluster1", 403, "not-allowed").await;
    assert!(hint.contains("clusterproxyentrypoints"), "{hint}");
    assert_eq!(agent.opened(), [], "nothing reaches the member");
}

#[tokio::test]
async fn who_is_listed_in_the_entrypoint_needs_no_role() {
    let (world, agent) = world().await;
    let subjects = json!({ "subjects": [{ "kind": "User", "name": "dev@example.com" }] });
    world.expose("listed.default.cluster1", &subjects);
    let (address, _) = service::http(&world.tasks).await;
    agent.serve("listed.default:*", address, r#"{"port":80}"#);
    assert_eq!(by_host(&world, "listed.default.cluster1").await.status, 200);
}

#[tokio::test]
async fn a_cluster_without_an_agent() {
    let (world, _agent) = world().await;
    refused(&world, "web.default.cluster2", 503, "agent-not-connected").await;
}

#[tokio::test]
async fn what_the_agent_says() {
    let (world, agent) = world().await;
    for (code, status) in [
        (RefusalCode::AgentRefused, 403),
        (RefusalCode::ServiceNotFound, 404),
        (RefusalCode::NoEndpoints, 503),
        (RefusalCode::ConnectionRefused, 502),
        (RefusalCode::DialTimeout, 504),
    ] {
        for port in ["443", "*"] {
            agent.route(
                &format!("web.default:{port}"),
                Route::Refuse(code, "because"),
            );
        }
        refused(&world, "web.default.cluster1", status, code.as_str()).await;
        assert_eq!(
            by_host(&world, "web.default.cluster1").await.json()["detail"],
            "because"
        );
    }
}

#[tokio::test]
async fn an_agent_that_does_not_answer_in_time() {
    let (world, agent) = world().await;
    for port in ["443", "*"] {
        agent.route(&format!("web.default:{port}"), Route::Silence);
    }
    refused(&world, "web.default.cluster1", 504, "dial-timeout").await;
}

#[tokio::test]
async fn a_port_that_is_not_listed() {
    let (world, agent) = world().await;
    world.expose(
        "ports.default.cluster1",
        &json!({ "ports": ["https", "8080"] }),
    );
    world
        .reviews
        .allow("dev@example.com", "ports.default.cluster1");
    let (address, _) = service::http(&world.tasks).await;
    let detail = |port: u16, name: &str| format!(r#"{{"port":{port},"name":"{name}"}}"#);
    agent.serve("ports.default:443", address, &detail(443, "https"));
    agent.serve("ports.default:9090", address, &detail(9090, "metrics"));
    agent.serve("ports.default:*", address, &detail(9090, "metrics"));
    assert_eq!(
        connect(&world, "ports.default.cluster1:443").await.status,
        200,
        "by its number"
    );
    let answer = connect(&world, "ports.default.cluster1:9090").await;
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (404, "port-not-exposed")
    );
    assert!(answer.hint().contains("https, 8080"), "{}", answer.hint());
    let answer = by_host(&world, "ports.default.cluster1").await;
    assert_eq!(
        answer.code(),
        "port-not-exposed",
        "whatever the agent chooses"
    );
    world.expose("numbers.default.cluster1", &json!({ "ports": ["8080"] }));
    world
        .reviews
        .allow("dev@example.com", "numbers.default.cluster1");
    let answer = connect(&world, "numbers.default.cluster1:9090").await;
    assert_eq!(answer.code(), "port-not-exposed");
    assert!(
        !agent
            .opened()
            .iter()
            .any(|(target, ..)| target.starts_with("tcp:numbers"))
    );
}

#[tokio::test]
async fn nobody_in_particular() {
    let (world, _agent) = world().await;
    let answer = Caller::new(&world)
        .await
        .tunnel("web.default.cluster1:443", "wrong")
        .await;
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (407, "unauthenticated")
    );
    assert!(answer.header("proxy-authenticate").is_some());
    let mut caller = Caller::new(&world).await;
    let answer = caller
        .ask("GET / HTTP/1.1\nhost: web.default.cluster1")
        .await;
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (401, "unauthenticated")
    );
    assert!(answer.header("www-authenticate").is_some());
    let answer = caller.ask("GET / HTTP/1.1\nhost: no.such.name").await;
    assert_eq!(
        answer.code(),
        "unauthenticated",
        "names are told to those who are known"
    );
}

#[tokio::test]
async fn an_api_server_that_is_down_allows_nobody() {
    let (world, _agent) = world().await;
    world.reviews.down(true);
    refused(&world, "web.default.cluster1", 503, "unavailable").await;
}

#[tokio::test]
async fn requests_that_are_none() {
    let (world, _agent) = world().await;
    let answer = connect(&world, "web.default.cluster1:0").await;
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (400, "bad-request")
    );
    let mut caller = Caller::new(&world).await;
    assert_eq!(caller.ask("GET / HTTP/1.1").await.code(), "bad-request");
    let huge = format!(
        "GET / HTTP/1.1\r\nhost: x\r\nx-huge: {}\r\n\r\n",
        "x".repeat(100_000)
    );
    let mut caller = Caller::new(&world).await;
    caller.send(&huge).await;
    assert_eq!(caller.head().await.status, 431);
}

#[tokio::test]
async fn more_streams_than_one_caller_may_have() {
    let world = World::start_with(|config| config.limits.streams_per_caller = 1).await;
    world.reviews.token(TOKEN, "dev@example.com");
    world.reviews.token("other", "ops@example.com");
    world.expose("echo.default.cluster1", &json!({}));
    for user in ["dev@example.com", "ops@example.com"] {
        world.reviews.allow(user, "echo.default.cluster1");
    }
    let agent = Agent::connect(&world, "cluster1").await;
    agent.serve("echo.default:7", service::echo(&world.tasks).await, "{}");
    let mut first = Caller::new(&world).await;
    assert_eq!(
        first.tunnel("echo.default.cluster1:7", TOKEN).await.status,
        200
    );
    let answer = connect(&world, "echo.default.cluster1:7").await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "overloaded"));
    let mut other = Caller::new(&world).await;
    assert_eq!(
        other
            .tunnel("echo.default.cluster1:7", "other")
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn a_service_that_closes_without_an_answer() {
    let (world, agent) = world().await;
    agent.serve("web.default:*", service::nobody().await, r#"{"port":80}"#);
    // Speaks, but not HTTP.
    agent.serve(
        "one.default:*",
        service::echo(&world.tasks).await,
        r#"{"port":80}"#,
    );
    let answer = by_host(&world, "one.default.cluster1").await;
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (502, "dial-failed")
    );
    assert!(answer.hint().contains("spec.protocol"), "{}", answer.hint());
}

#[tokio::test]
async fn decisions_are_asked_for_once_in_a_while() {
    let world = World::start_with(|config| {
        config.times.decision = Duration::from_secs(60);
        config.times.recheck = Duration::from_secs(60);
    })
    .await;
    world.reviews.token(TOKEN, "dev@example.com");
    world
        .reviews
        .allow("dev@example.com", "web.default.cluster1");
    world.expose("web.default.cluster1", &json!({}));
    let agent = Agent::connect(&world, "cluster1").await;
    let (address, _) = service::http(&world.tasks).await;
    agent.serve("web.default:*", address, r#"{"port":80}"#);
    for _ in 0..5 {
        assert_eq!(by_host(&world, "web.default.cluster1").await.status, 200);
    }
    assert_eq!(
        world.reviews.asked(),
        2,
        "one review of the token, one of the right"
    );
}

#[tokio::test]
async fn wrong_tokens_do_not_flood_the_api_server() {
    let (world, _agent) = world().await;
    let strangers = (0..60).map(|number| {
        let world = &world;
        async move {
            let token = format!("wrong-{number}");
            let mut caller = Caller::new(world).await;
            caller
                .tunnel("web.default.cluster1:80", &token)
                .await
                .status
        }
    });
    let statuses = futures::future::join_all(strangers).await;
    assert!(statuses.iter().all(|status| *status == 407), "{statuses:?}");
    let most = world.reviews.most_at_once();
    assert!((1..=16).contains(&most), "{most} at once");
}

#[tokio::test]
async fn an_agent_speaks_for_itself_alone() {
    let (world, agent) = world().await;
    for code in [
        RefusalCode::Unauthenticated,
        RefusalCode::NotAllowed,
        RefusalCode::Internal,
        RefusalCode::Revoked,
    ] {
        agent.route("web.default:443", Route::Refuse(code, "because"));
        let answer = connect(&world, "web.default.cluster1:443").await;
        assert_eq!(answer.code(), "agent-refused", "{code}");
    }
}

#[tokio::test]
async fn a_frozen_session_does_not_use_up_the_time_of_the_others() {
    let world = World::start_with(|config| config.times.dial = Duration::from_secs(3)).await;
    world.reviews.token(TOKEN, "dev@example.com");
    world.expose("web.default.cluster1", &json!({}));
    world
        .reviews
        .allow("dev@example.com", "web.default.cluster1");
    let (well, frozen) = (
        Agent::connect(&world, "cluster1").await,
        Agent::connect(&world, "cluster1").await,
    );
    let echo = service::echo(&world.tasks).await;
    well.serve("web.default:443", echo, r#"{"port":443}"#);
    frozen.route("web.default:443", Route::Silence);
    for _ in 0..2 {
        let answer = connect(&world, "web.default.cluster1:443").await;
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
}

#[tokio::test]
async fn a_cluster_that_is_not_accepted_is_named_with_the_field() {
    let (world, _agent) = world().await;
    world.member("cluster1", false);
    let answer = connect(&world, "web.default.cluster1:443").await;
    assert_eq!(answer.code(), "agent-not-connected");
    let detail = answer.json()["detail"].to_string();
    assert!(detail.contains("spec.hubAcceptsClient"), "{detail}");
}

#[tokio::test]
async fn only_the_hubs_own_names_have_its_paths() {
    let (world, _agent) = world().await;
    for host in [
        "web.default.cluster1",
        "nobody.knows.this",
        "hub.test.cluster1",
    ] {
        let mut caller = Caller::new(&world).await;
        let head = format!("GET /.strait/v1/join HTTP/1.1\nhost: {host}");
        let answer = caller.ask(&head).await;
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (401, "unauthenticated"),
            "{host}"
        );
    }
}
