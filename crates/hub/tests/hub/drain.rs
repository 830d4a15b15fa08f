//! The hub stops.

use serde_json::json;
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::{
    agent::Agent,
    caller::Caller,
    service,
    world::{World, soon},
};

const NAME: &str = "echo.default.cluster1";

async fn with_stream(drain_ms: u64) -> (World, Agent, Caller, Caller) {
    let drain = std::time::Duration::from_millis(drain_ms);
    let world = World::start_with(|config| config.times.drain = drain).await;
    world.reviews.token("t", "dev@example.com");
    world.reviews.allow("dev@example.com", NAME);
    world.expose(NAME, &json!({}));
    let agent = Agent::connect(&world, "cluster1").await;
    agent.serve("echo.default:7", service::echo(&world.tasks).await, "{}");
    let mut caller = Caller::new(&world).await;
    assert_eq!(caller.tunnel(&format!("{NAME}:7"), "t").await.status, 200);
    assert_eq!(caller.read(6).await, "hello\n");
    let idle = Caller::new(&world).await;
    (world, agent, caller, idle)
}

#[tokio::test]
async fn open_streams_finish_and_nothing_new_begins() {
    let (world, agent, mut caller, mut idle) = with_stream(60_000).await;
    world.stop.cancel();
    soon("the agent hears of it", agent.session.draining()).await;
    assert_eq!(idle.read_to_end().await, b"", "idle callers are let go");
    assert!(
        TcpStream::connect(world.address).await.is_err(),
        "the port is closed"
    );
    caller.send("abc").await;
    assert_eq!(caller.read(3).await, "abc");
    caller.tls.shutdown().await.unwrap();
    assert_eq!(caller.read_to_end().await, b"bye\n");
    soon("the end of the session", agent.session.closed()).await;
}

#[tokio::test]
async fn what_is_open_at_the_deadline_is_cut() {
    let (world, _agent, mut caller, _idle) = with_stream(200).await;
    world.stop.cancel();
    assert_eq!(caller.read_to_end().await, b"");
}
