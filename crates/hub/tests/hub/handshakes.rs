//! Connections that never become one.

use std::{net::SocketAddr, time::Duration};

use strait_pki::Ca;
use strait_runtime::clock;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};

use crate::{
    agent::{self, Agent},
    caller::Caller,
    world::{DAY, World, soon},
};

async fn read_all(mut tcp: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = soon("the end of the connection", tcp.read_to_end(&mut bytes)).await;
    bytes
}

#[tokio::test]
async fn what_is_no_tls_is_closed() {
    let world = World::start().await;
    let mut tcp = TcpStream::connect(world.address).await.unwrap();
    tcp.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    assert!(!read_all(tcp).await.starts_with(b"HTTP"));
    Caller::new(&world).await;
}

#[tokio::test]
async fn a_handshake_that_takes_too_long_is_given_up() {
    let world =
        World::start_with(|config| config.times.handshake = Duration::from_millis(200)).await;
    let silent = TcpStream::connect(world.address).await.unwrap();
    let mut slow = TcpStream::connect(world.address).await.unwrap();
    slow.write_all(&[22, 3, 1, 2, 0, 1]).await.unwrap();
    read_all(silent).await;
    read_all(slow).await;
}

#[tokio::test]
async fn too_many_half_open_handshakes_do_not_stop_the_others() {
    let world = World::start_with(|config| {
        config.limits.handshakes = 8;
        config.times.handshake = Duration::from_secs(60);
    })
    .await;
    let mut silent = vec![];
    for number in 0..40 {
        silent.push(from([127, 0, 0, 1 + number % 8], &world).await);
    }
    Caller::new(&world).await;
    Agent::connect(&world, "cluster1").await;
    // The one that is longest there had to go.
    read_all(silent.remove(0)).await;
}

#[tokio::test]
async fn callers_who_say_nothing_make_room_for_those_who_do() {
    let world = World::start_with(|config| config.limits.connections = 8).await;
    world.reviews.token("good", "dev");
    let mut known = Caller::new(&world).await;
    let asked = "GET / HTTP/1.1\r\nhost: a.b.c\r\nauthorization: Bearer good\r\n\r\n";
    known.send(asked).await;
    assert_eq!(known.answer().await.status, 404);
    let mut silent = vec![];
    for _ in 0..20 {
        silent.push(Caller::new(&world).await);
    }
    let mut newcomer = Caller::new(&world).await;
    for caller in [&mut newcomer, &mut known] {
        caller.send(asked).await;
        assert_eq!(caller.answer().await.status, 404);
    }
    silent.remove(0).read_to_end().await;
}

/// A connection from this address.
async fn from(source: [u8; 4], world: &World) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((source, 0))).unwrap();
    socket.connect(world.address).await.unwrap()
}

#[tokio::test]
async fn an_agent_is_who_its_certificate_says() {
    let world = World::start().await;
    let stranger = Ca::generate("stranger", DAY, clock::timestamp()).unwrap();
    for ca in [&stranger, &world.callers_ca, &world.hub_ca] {
        let identity = agent::identity(ca, "cluster1");
        assert!(Agent::try_connect(&world, &identity).await.is_err());
    }
    // Right authority, but no cluster's name in it.
    let (issued, key) = world
        .agent_ca
        .issue_caller("cluster1", None, DAY, clock::timestamp())
        .unwrap();
    let nameless =
        strait_pki::Identity::from_pem(issued.chain_pem.as_bytes(), key.reveal().as_bytes())
            .unwrap();
    assert!(Agent::try_connect(&world, &nameless).await.is_err());
}

#[tokio::test]
async fn an_agents_certificate_is_no_callers() {
    let world = World::start().await;
    let identity = agent::identity(&world.agent_ca, "cluster1");
    let mut caller = Caller::connect(&world, "hub.test", Some(&identity)).await;
    let _ = caller
        .tls
        .write_all(b"GET / HTTP/1.1\r\nhost: a.b.c\r\n\r\n")
        .await;
    assert_eq!(caller.read_to_end().await, b"", "the handshake failed");
}
