//! Open streams end when the right to them does.

use serde_json::json;
use strait_api::{Subject, SubjectKind};
use strait_pki::Ca;
use strait_runtime::clock;
use tokio::io::AsyncWriteExt;

use crate::{
    agent::{self, Agent},
    caller::Caller,
    service,
    world::{DAY, World, eventually, soon, trust_agents_of},
};

const NAME: &str = "echo.default.cluster1";

async fn open_stream() -> (World, Agent, Caller) {
    let world = World::start().await;
    world.reviews.token("t", "dev@example.com");
    world.reviews.allow("dev@example.com", NAME);
    world.expose(NAME, &json!({}));
    let agent = Agent::connect(&world, "cluster1").await;
    agent.serve("echo.default:7", service::echo(&world.tasks).await, "{}");
    let mut caller = Caller::new(&world).await;
    assert_eq!(caller.tunnel(&format!("{NAME}:7"), "t").await.status, 200);
    assert_eq!(caller.read(6).await, "hello\n");
    (world, agent, caller)
}

#[tokio::test]
async fn a_right_that_is_taken_away_cuts_what_is_open() {
    let (world, _agent, mut caller) = open_stream().await;
    world.reviews.forbid("dev@example.com", NAME);
    assert_eq!(caller.read_to_end().await, b"");
    let answer = Caller::new(&world)
        .await
        .tunnel(&format!("{NAME}:7"), "t")
        .await;
    assert_eq!(answer.code(), "not-allowed");
}

#[tokio::test]
async fn a_subject_that_is_taken_off_the_entrypoint_is_cut() {
    let (world, agent) = {
        let (world, agent, _) = open_stream().await;
        (world, agent)
    };
    world.reviews.token("g", "guest@example.com");
    let guest = || Subject {
        kind: SubjectKind::User,
        name: "guest@example.com".to_owned(),
        namespace: None,
    };
    world.edit(NAME, |spec| spec.subjects = vec![guest()]);
    let mut caller = Caller::new(&world).await;
    assert_eq!(caller.tunnel(&format!("{NAME}:7"), "g").await.status, 200);
    assert_eq!(caller.read(6).await, "hello\n");
    world.edit(NAME, |spec| spec.subjects.clear());
    assert_eq!(caller.read_to_end().await, b"");
    drop(agent);
}

#[tokio::test]
async fn a_token_that_is_withdrawn_cuts_what_is_open() {
    let (world, _agent, mut caller) = open_stream().await;
    world.reviews.forget_token("t");
    assert_eq!(caller.read_to_end().await, b"");
}

#[tokio::test]
async fn an_entrypoint_that_is_removed_cuts_what_is_open() {
    let (world, mut agent, mut caller) = open_stream().await;
    assert_eq!(agent.table(1).await.services[0].service, "echo");
    world.hide(NAME);
    assert_eq!(caller.read_to_end().await, b"");
    assert_eq!(
        agent.table(0).await.services,
        [],
        "the agent is told as well"
    );
    let answer = Caller::new(&world)
        .await
        .tunnel(&format!("{NAME}:7"), "t")
        .await;
    assert_eq!(answer.code(), "entrypoint-not-found");
}

#[tokio::test]
async fn an_entrypoint_that_exposes_other_ports_cuts_what_is_open() {
    let (world, _agent, mut caller) = open_stream().await;
    world.hide(NAME);
    world.expose(NAME, &json!({ "ports": ["8"] }));
    assert_eq!(caller.read_to_end().await, b"");
}

#[tokio::test]
async fn an_api_server_that_is_down_cuts_nothing() {
    let (world, _agent, mut caller) = open_stream().await;
    world.reviews.down(true);
    let before = world.reviews.asked();
    eventually("a few reviews", || world.reviews.asked() > before + 5).await;
    caller.send("abc").await;
    assert_eq!(caller.read(3).await, "abc");
}

#[tokio::test]
async fn a_response_under_way_is_cut_too() {
    let (world, agent, _caller) = open_stream().await;
    world.expose("web.default.cluster1", &json!({}));
    world
        .reviews
        .allow("dev@example.com", "web.default.cluster1");
    let (address, _) = service::http(&world.tasks).await;
    agent.serve("web.default:*", address, r#"{"port":80}"#);
    let mut caller = Caller::new(&world).await;
    caller
        .send(
            "GET /upgrade HTTP/1.1\r\nhost: web.default.cluster1\r\nauthorization: Bearer t\r\n\
             connection: upgrade\r\nupgrade: websocket\r\n\r\n",
        )
        .await;
    assert_eq!(caller.head().await.status, 101);
    // And one whose body the service waits for.
    let mut upload = Caller::new(&world).await;
    upload
        .send(
            "POST / HTTP/1.1\r\nhost: web.default.cluster1\r\nauthorization: Bearer t\r\n\
             content-length: 10\r\n\r\nabc",
        )
        .await;
    eventually("both reach the agent", || agent.opened().len() == 3).await;
    world
        .reviews
        .forbid("dev@example.com", "web.default.cluster1");
    assert_eq!(caller.read_to_end().await, b"");
    assert_eq!(upload.answer().await.code(), "revoked");
}

#[tokio::test]
async fn a_member_that_is_not_accepted_any_more_loses_its_session() {
    let (world, agent, mut caller) = open_stream().await;
    world.member("cluster1", false);
    soon("the end of the session", agent.session.closed()).await;
    assert_eq!(caller.read_to_end().await, b"");
    let identity = agent::identity(&world.agent_ca, "cluster1");
    let again = Agent::try_connect(&world, &identity).await.unwrap();
    let end = soon("the refusal", again.session.closed()).await;
    assert!(end.to_string().contains("hubAcceptsClient"), "{end}");
}

#[tokio::test]
async fn a_member_that_is_removed_loses_its_session() {
    let (world, agent, _caller) = open_stream().await;
    world.remove_member("cluster1");
    let end = soon("the end of the session", agent.session.closed()).await;
    assert!(
        end.to_string().contains("not in the hub's inventory"),
        "{end}"
    );
}

#[tokio::test]
async fn an_authority_that_does_not_count_any_more_takes_its_agents_along() {
    let (world, agent, _caller) = open_stream().await;
    let next = Ca::generate("next", DAY, clock::timestamp()).unwrap();
    trust_agents_of(&world, &next);
    soon("the end of the session", agent.session.closed()).await;
    let old = agent::identity(&world.agent_ca, "cluster1");
    assert!(Agent::try_connect(&world, &old).await.is_err());
    assert!(
        Agent::try_connect(&world, &agent::identity(&next, "cluster1"))
            .await
            .is_ok()
    );
}

/// Somebody who may have one stream, and a second token that gets it once the first one is gone.
async fn only_one_stream(service: std::net::SocketAddr, world: &World) -> Agent {
    for token in ["t", "later"] {
        world.reviews.token(token, "dev@example.com");
    }
    world.reviews.allow("dev@example.com", NAME);
    world.expose(NAME, &json!({ "protocol": "http", "ports": [80] }));
    let agent = Agent::connect(world, "cluster1").await;
    agent.serve("echo.default:80", service, r#"{"port":80}"#);
    agent
}

async fn frugal() -> World {
    World::start_with(|config| config.limits.streams_per_caller = 1).await
}

/// The first stream's place is free again, though its caller never read.
async fn its_place_is_free(world: &World) {
    let connected = async {
        loop {
            let mut caller = Caller::new(world).await;
            let answer = caller.tunnel(&format!("{NAME}:80"), "later").await;
            if answer.status == 200 {
                return;
            }
            assert_eq!(answer.code(), "overloaded");
        }
    };
    soon("the place of the stream that was cut", connected).await;
}

#[tokio::test]
async fn a_caller_who_reads_nothing_is_cut_all_the_same() {
    let world = frugal().await;
    let flood = service::endless(&world.tasks).await;
    let _agent = only_one_stream(flood, &world).await;
    let mut stuck = Caller::new(&world).await;
    assert_eq!(stuck.tunnel(&format!("{NAME}:80"), "t").await.status, 200);
    world.reviews.forget_token("t");
    its_place_is_free(&world).await;
}

#[tokio::test]
async fn an_answer_that_nobody_reads_is_cut_all_the_same() {
    let world = frugal().await;
    let flood = service::raw(&world.tasks, |mut tcp| async move {
        service::read_head(&mut tcp).await;
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 1000000000000\r\n\r\n";
        let mut sent = tcp.write_all(head.as_bytes()).await;
        while sent.is_ok() {
            sent = tcp.write_all(&[b'x'; 8192]).await;
        }
    })
    .await;
    let _agent = only_one_stream(flood, &world).await;
    let mut stuck = Caller::new(&world).await;
    stuck
        .send(&format!(
            "GET / HTTP/1.1\r\nhost: {NAME}\r\nauthorization: Bearer t\r\n\r\n"
        ))
        .await;
    assert_eq!(stuck.head().await.status, 200);
    world.reviews.forget_token("t");
    its_place_is_free(&world).await;
}

#[tokio::test]
async fn an_upload_ends_with_its_answer() {
    let world = frugal().await;
    let hasty = service::raw(&world.tasks, |mut tcp| async move {
        service::read_head(&mut tcp).await;
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nno";
        let _ = tcp.write_all(answer.as_bytes()).await;
        // Its end shows that the hub has closed the connection.
        let _ = tokio::io::copy(&mut tcp, &mut tokio::io::sink()).await;
    })
    .await;
    let _agent = only_one_stream(hasty, &world).await;
    let mut caller = Caller::new(&world).await;
    caller
        .send(&format!(
            "POST / HTTP/1.1\r\nhost: {NAME}\r\nauthorization: Bearer t\r\n\
             content-length: 1000000000\r\n\r\nsome"
        ))
        .await;
    let answer = caller.answer().await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "no"));
    its_place_is_free(&world).await;
}
