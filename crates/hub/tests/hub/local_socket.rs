//! Programs on the hub's own machine.

use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};

use crate::{
    agent::Agent,
    service,
    world::{World, soon},
};

const NAME: &str = "echo.default.cluster1";
const OTHER: &str = "other.default.cluster1";

/// Sends a CONNECT and reads the head of the answer.
async fn connect(socket: &mut UnixStream, name: &str, more: &str) -> String {
    let head = format!("CONNECT {name}:7 HTTP/1.1\r\nhost: {name}\r\n{more}\r\n");
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut answer = vec![];
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(soon("an answer", socket.read_u8()).await.unwrap());
    }
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn callers_at_the_local_socket_are_one_user_with_that_users_rights() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hub.sock");
    let world = World::start_with(|config| config.local_socket = Some(path.clone())).await;
    for name in [NAME, OTHER] {
        world.expose(name, &json!({}));
    }
    world.reviews.allow("strait:local", NAME);
    let agent = Agent::connect(&world, "cluster1").await;
    agent.serve("echo.default:7", service::echo(&world.tasks).await, "{}");

    let mut socket = UnixStream::connect(&path).await.unwrap();
    let refused = connect(&mut socket, OTHER, "").await;
    let told = refused.starts_with("HTTP/1.1 403") && refused.contains("strait-code: not-allowed");
    assert!(told, "{refused}");
    let mut socket = UnixStream::connect(&path).await.unwrap();
    let opened = connect(&mut socket, NAME, "").await;
    assert!(opened.starts_with("HTTP/1.1 200"), "{opened}");
    let mut greeting = [0; 6];
    soon("a greeting", socket.read_exact(&mut greeting))
        .await
        .unwrap();
    assert_eq!(&greeting, b"hello\n");

    let mut wrong = UnixStream::connect(&path).await.unwrap();
    let refused = connect(&mut wrong, NAME, "proxy-authorization: Bearer wrong\r\n").await;
    assert!(
        refused.starts_with("HTTP/1.1 407"),
        "a token that is shown counts: {refused}"
    );

    world.reviews.forbid("strait:local", NAME);
    let mut rest = vec![];
    let _ = soon("the end of the stream", socket.read_to_end(&mut rest)).await;
    assert_eq!(rest, b"");
}
