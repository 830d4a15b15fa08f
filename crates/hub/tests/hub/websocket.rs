//! Agents whose network lets nothing but HTTP/1.1 through.

use std::sync::Arc;

use strait_pki::{Bundle, ServerTrust, client_config};
use strait_types::{HubStatus, SESSION_PATH, SESSION_PROTOCOL, STATUS_PATH};
use strait_websocket::WebSocket;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{
    agent::{self, Agent},
    caller::Caller,
    world::{World, soon},
};

/// A WebSocket to the hub, which asks for no credentials: what is in it does.
async fn websocket(world: &World) -> WebSocket<TlsStream<tokio::net::TcpStream>> {
    let outer = Caller::new(world).await.tls;
    let dialed = strait_websocket::dial(outer, "hub.test", SESSION_PATH, SESSION_PROTOCOL);
    soon("a WebSocket", dialed).await.unwrap()
}

#[tokio::test]
async fn a_session_stands_in_a_websocket_as_well() {
    let world = World::start().await;
    world.reviews.token("admin", "admin@example.com");
    world.reviews.allow("admin@example.com", "managedclusters");
    let identity = agent::identity(&world.agent_ca, "cluster1");
    let socket = websocket(&world).await;
    let agent = Agent::over(&world, &identity, socket).await.unwrap();
    let mut caller = Caller::new(&world).await;
    let head = format!("GET {STATUS_PATH} HTTP/1.1\nhost: hub.test\nauthorization: Bearer admin");
    let status: HubStatus = serde_json::from_str(&caller.ask(&head).await.body).unwrap();
    assert_eq!(status.sessions[0].carrier, "websocket");
    drop(agent);
}

#[tokio::test]
async fn what_is_in_the_websocket_has_to_prove_itself() {
    let world = World::start().await;
    let stranger =
        strait_pki::Ca::generate("x", crate::world::DAY, strait_runtime::clock::timestamp());
    let identity = agent::identity(&stranger.unwrap(), "cluster1");
    let socket = websocket(&world).await;
    assert!(Agent::over(&world, &identity, socket).await.is_err());
    let mut garbage = websocket(&world).await;
    garbage.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    garbage.flush().await.unwrap();
    let mut heard = vec![];
    let _ = soon("the end", garbage.read_to_end(&mut heard)).await;
    assert!(!heard.starts_with(b"HTTP"), "nothing is served in clear");
}

#[tokio::test]
async fn there_is_no_websocket_in_a_websocket() {
    let world = World::start().await;
    let roots = Bundle::from_pem(world.hub_ca.certificate_pem().as_bytes()).unwrap();
    let config = client_config(&ServerTrust::Roots(Arc::clone(roots.roots())), None).unwrap();
    let name = rustls_pki_types::ServerName::try_from("hub.test").unwrap();
    let inner = TlsConnector::from(Arc::new(config)).connect(name, websocket(&world).await);
    let inner = soon("a handshake", inner).await.unwrap();
    let again = strait_websocket::dial(inner, "hub.test", SESSION_PATH, SESSION_PROTOCOL);
    let refused = soon("an answer", again).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the answer to the WebSocket request is 400 Bad Request"
    );
}
