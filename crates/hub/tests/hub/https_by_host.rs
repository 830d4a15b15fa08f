//! HTTPS under a service's name, and requests to a forward proxy.

use std::sync::{Arc, atomic::Ordering};

use serde_json::{Value, json};
use strait_pki::Ca;
use strait_runtime::clock;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::Notify,
};

use crate::{
    agent::Agent,
    caller::Caller,
    service,
    world::{DAY, World, soon},
};

const HTTP: &str = r#"{"port":80,"name":"http"}"#;
const HTTPS: &str = r#"{"port":443,"name":"https"}"#;

async fn world_with(spec: &Value) -> (World, Agent) {
    let world = World::start().await;
    world.reviews.token("t", "dev@example.com");
    world
        .reviews
        .allow("dev@example.com", "web.default.cluster1");
    world.expose("web.default.cluster1", spec);
    let agent = Agent::connect(&world, "cluster1").await;
    (world, agent)
}

#[tokio::test]
async fn a_service_answers_under_each_of_its_names() {
    let (world, agent) = world_with(&json!({})).await;
    let uid = world.expose("uid.default.cluster1", &json!({}));
    world
        .reviews
        .allow("dev@example.com", "uid.default.cluster1");
    let (address, _) = service::http(&world.tasks).await;
    agent.serve("web.default:*", address, HTTP);
    agent.serve("uid.default:*", address, HTTP);
    for name in [
        "web.default.cluster1",
        "web.default.cluster1.hub.test",
        "web--default--cluster1.hub.test",
        &uid,
    ] {
        // The handshake verifies the certificate against this very name.
        let mut caller = Caller::connect(&world, name, None).await;
        let head = format!("GET /a%2Fb?c=d HTTP/1.1\nhost: {name}:8443\nauthorization: Bearer t");
        let answer = caller.ask(&head).await;
        assert_eq!(answer.status, 200, "{name}: {}", answer.body);
        assert_eq!(
            answer.json()["uri"],
            "/a%2Fb?c=d",
            "not decoded, not cleaned"
        );
        assert_eq!(answer.json()["headers"]["host"], format!("{name}:8443"));
        assert_eq!(answer.header("x-service"), Some("yes"));
        assert_eq!(
            answer.header("strait-code"),
            None,
            "no service speaks with the hub's voice"
        );
    }
}

#[tokio::test]
async fn the_hubs_credential_stays_at_the_hub_and_the_services_own_passes() {
    let (world, agent) = world_with(&json!({})).await;
    let (address, _) = service::http(&world.tasks).await;
    agent.serve("web.default:*", address, HTTP);
    let name = "web.default.cluster1";

    let mut caller = Caller::connect(&world, name, None).await;
    let head =
        format!("GET / HTTP/1.1\nhost: {name}\nauthorization: Bearer t\nx-forwarded-for: 1.2.3.4");
    let seen = caller.ask(&head).await.json();
    assert_eq!(seen["headers"].get("authorization"), None);
    assert_eq!(seen["headers"]["x-forwarded-for"], "127.0.0.1");
    assert_eq!(seen["headers"]["x-forwarded-proto"], "https");

    let head = format!(
        "GET / HTTP/1.1\nhost: {name}\nproxy-authorization: Bearer t\nauthorization: Basic own"
    );
    let seen = caller.ask(&head).await.json();
    assert_eq!(seen["headers"]["authorization"], "Basic own");
    assert_eq!(seen["headers"].get("proxy-authorization"), None);

    let identity = world.caller_identity("dev@example.com", None);
    let mut caller = Caller::connect(&world, name, Some(&identity)).await;
    let head = format!("GET / HTTP/1.1\nhost: {name}\nauthorization: Bearer own");
    assert_eq!(
        caller.ask(&head).await.json()["headers"]["authorization"],
        "Bearer own"
    );
}

#[tokio::test]
async fn requests_with_bodies_share_one_connection_to_the_service() {
    let (world, agent) = world_with(&json!({})).await;
    let (address, connections) = service::http(&world.tasks).await;
    agent.serve("web.default:*", address, HTTP);
    let name = "web.default.cluster1";
    let mut caller = Caller::connect(&world, name, None).await;
    for _ in 0..3 {
        let head = format!("POST / HTTP/1.1\r\nhost: {name}\r\nauthorization: Bearer t\r\n");
        caller
            .send(&format!("{head}content-length: 5\r\n\r\nhello"))
            .await;
        assert_eq!(caller.answer().await.json()["body"], "hello");
        caller
            .send(&format!(
                "{head}transfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"
            ))
            .await;
        assert_eq!(caller.answer().await.json()["body"], "abc");
    }
    assert_eq!(connections.load(Ordering::Relaxed), 1);
    assert_eq!(agent.opened().len(), 1);
}

#[tokio::test]
async fn an_ambiguous_length_smuggles_nothing() {
    let (world, agent) = world_with(&json!({})).await;
    let (address, _) = service::http(&world.tasks).await;
    agent.serve("web.default:*", address, HTTP);
    let name = "web.default.cluster1";
    let auth = format!("host: {name}\r\nauthorization: Bearer t\r\n");
    for lengths in [
        "content-length: 44\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 44\r\n",
    ] {
        let mut caller = Caller::connect(&world, name, None).await;
        caller
            .send(&format!(
                "POST /a HTTP/1.1\r\n{auth}{lengths}\r\n1\r\nx\r\n0\r\n\r\n"
            ))
            .await;
        let answer = caller.answer().await;
        if answer.status == 200 {
            assert_eq!(answer.json()["body"], "x");
            assert_eq!(answer.json()["headers"].get("content-length"), None);
        } else {
            assert_eq!(answer.status, 400);
        }
    }
    for bad in [
        "content-length: 1\r\ncontent-length: 2\r\n",
        "transfer-encoding: xchunked\r\n",
    ] {
        let mut caller = Caller::connect(&world, name, None).await;
        caller
            .send(&format!("POST /a HTTP/1.1\r\n{auth}{bad}\r\nab"))
            .await;
        assert_eq!(caller.head().await.status, 400, "{bad}");
    }
}

#[tokio::test]
async fn trailers_pass_both_ways() {
    let (world, agent) = world_with(&json!({})).await;
    let (told, mut heard) = tokio::sync::mpsc::channel(1);
    let address = service::raw(&world.tasks, move |mut tcp| {
        let told = told.clone();
        async move {
            let mut request = service::read_head(&mut tcp).await;
            while !request.ends_with("x-sum: 7\r\n\r\n") {
                request.push(char::from(tcp.read_u8().await.unwrap()));
            }
            told.send(request).await.unwrap();
            let answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n\
                          3\r\nabc\r\n0\r\nx-sum: 9\r\n\r\n";
            tcp.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    agent.serve("web.default:*", address.await, HTTP);
    let mut caller = Caller::connect(&world, "web.default.cluster1", None).await;
    let request = "POST / HTTP/1.1\r\nhost: web.default.cluster1\r\nauthorization: Bearer t\r\n\
                   te: trailers\r\nconnection: close, te\r\ntrailer: x-sum\r\n\
                   transfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nx-sum: 7\r\n\r\n";
    caller.send(request).await;
    let request = soon("the request", heard.recv()).await.unwrap();
    assert!(request.contains("te: trailers\r\n"), "{request}");
    let answer = String::from_utf8(caller.read_to_end().await).unwrap();
    assert!(answer.ends_with("\r\n0\r\nx-sum: 9\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn a_websocket_passes() {
    let (world, agent) = world_with(&json!({})).await;
    let (address, _) = service::http(&world.tasks).await;
    agent.serve("web.default:*", address, HTTP);
    let name = "web.default.cluster1";
    let mut caller = Caller::connect(&world, name, None).await;
    let head = format!(
        "GET /upgrade HTTP/1.1\nhost: {name}\nauthorization: Bearer t\n\
         connection: keep-alive, Upgrade\nupgrade: websocket"
    );
    let answer = caller.ask(&head).await;
    assert_eq!(
        (answer.status, answer.header("upgrade")),
        (101, Some("websocket"))
    );
    caller.send("ping").await;
    assert_eq!(caller.read(4).await, "PING");
    caller.send("pong").await;
    assert_eq!(caller.read(4).await, "PONG");
}

#[tokio::test]
async fn tls_to_the_service_is_as_the_entrypoint_says() {
    let ca = Ca::generate("member", DAY, clock::timestamp()).unwrap();
    let pem = ca.certificate_pem();
    for (tls, certificate, expected) in [
        (json!({ "caBundle": pem }), "web.default.svc", Ok(())),
        (
            json!({ "caBundle": pem, "serverName": "odd.test" }),
            "odd.test",
            Ok(()),
        ),
        (
            json!({ "insecureSkipVerify": true }),
            "anything.test",
            Ok(()),
        ),
        (
            json!({ "caBundle": pem }),
            "odd.test",
            Err("spec.tls.serverName"),
        ),
        (json!({}), "web.default.svc", Err("spec.tls.caBundle")),
        (
            json!({ "caBundle": "nonsense" }),
            "web.default.svc",
            Err("spec.tls.caBundle"),
        ),
    ] {
        let (world, agent) = world_with(&json!({ "tls": tls })).await;
        let address = service::https(&world.tasks, &ca, certificate).await;
        agent.serve("web.default:*", address, HTTPS);
        let mut caller = Caller::connect(&world, "web.default.cluster1", None).await;
        let head = "GET / HTTP/1.1\nhost: web.default.cluster1\nauthorization: Bearer t";
        let answer = caller.ask(head).await;
        match expected {
            Ok(()) => assert_eq!(answer.status, 200, "{tls} {}", answer.body),
            Err(field) => {
                assert_eq!(
                    (answer.status, answer.code().as_str()),
                    (502, "tls-failed"),
                    "{tls}"
                );
                assert!(answer.hint().contains(field), "{}", answer.hint());
            }
        }
    }
}

#[tokio::test]
async fn what_the_port_is_called_says_whether_it_speaks_tls() {
    let (world, agent) = world_with(&json!({})).await;
    let ca = Ca::generate("member", DAY, clock::timestamp()).unwrap();
    agent.serve(
        "web.default:*",
        service::https(&world.tasks, &ca, "x.test").await,
        HTTPS,
    );
    let mut caller = Caller::connect(&world, "web.default.cluster1", None).await;
    let head = "GET / HTTP/1.1\nhost: web.default.cluster1\nauthorization: Bearer t";
    assert_eq!(
        caller.ask(head).await.code(),
        "tls-failed",
        "verified, and of nobody known"
    );

    let (world, agent) = world_with(&json!({ "protocol": "http" })).await;
    let (address, _) = service::http(&world.tasks).await;
    agent.serve("web.default:*http", address, HTTPS);
    let mut caller = Caller::connect(&world, "web.default.cluster1", None).await;
    assert_eq!(
        caller.ask(head).await.status,
        200,
        "the entrypoint knows better"
    );
}

#[tokio::test]
async fn a_forward_proxy_goes_where_the_first_line_says() {
    let (world, agent) = world_with(&json!({})).await;
    let (address, _) = service::http(&world.tasks).await;
    agent.serve("web.default:80", address, HTTP);
    agent.serve("web.default:8080", address, r#"{"port":8080}"#);
    let mut caller = Caller::new(&world).await;
    for (authority, host) in [
        ("web.default.cluster1", "lies"),
        ("web.default.cluster1:8080", "web.default.cluster1"),
    ] {
        let head = format!(
            "GET http://{authority}/x HTTP/1.1\nhost: {host}\n\
             proxy-authorization: Bearer t\nauthorization: Bearer own\nproxy-connection: keep-alive"
        );
        let answer = caller.ask(&head).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let seen = answer.json();
        assert_eq!(
            (&seen["uri"], &seen["headers"]["host"]),
            (&json!("/x"), &json!(authority))
        );
        assert_eq!(seen["headers"]["authorization"], "Bearer own");
        assert_eq!(seen["headers"].get("proxy-connection"), None);
    }
    let refused = caller
        .ask("GET http://web.default.cluster1/ HTTP/1.1\nauthorization: Bearer t")
        .await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (407, "unauthenticated")
    );
}

#[tokio::test]
async fn two_callers_on_one_connection_are_two_callers() {
    let (world, agent) = world_with(&json!({})).await;
    world.reviews.token("other", "viewer@example.com");
    let (address, _) = service::http(&world.tasks).await;
    agent.serve("web.default:*", address, HTTP);
    let mut caller = Caller::connect(&world, "web.default.cluster1", None).await;
    let head = |token| {
        format!("GET / HTTP/1.1\nhost: web.default.cluster1\nauthorization: Bearer {token}")
    };
    assert_eq!(caller.ask(&head("t")).await.status, 200);
    assert_eq!(caller.ask(&head("other")).await.code(), "not-allowed");
    assert_eq!(caller.ask(&head("t")).await.status, 200);
}

#[tokio::test]
async fn an_entrypoint_of_bytes_is_not_http() {
    let (world, _agent) = world_with(&json!({ "protocol": "tcp" })).await;
    let mut caller = Caller::connect(&world, "web.default.cluster1", None).await;
    let head = "GET / HTTP/1.1\nhost: web.default.cluster1\nauthorization: Bearer t";
    let answer = caller.ask(head).await;
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (400, "bad-request")
    );
    assert!(answer.hint().contains("CONNECT"));
}

#[tokio::test]
async fn a_service_that_closes_its_connection_is_connected_to_again() {
    let (world, agent) = world_with(&json!({})).await;
    let address = service::raw(&world.tasks, |mut tcp| async move {
        service::read_head(&mut tcp).await;
        // Does not say that it will close.
        tcp.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            .await
            .unwrap();
    })
    .await;
    agent.serve("web.default:*", address, HTTP);
    let mut caller = Caller::connect(&world, "web.default.cluster1", None).await;
    let head = "GET / HTTP/1.1\nhost: web.default.cluster1\nauthorization: Bearer t";
    for _ in 0..5 {
        let answer = caller.ask(head).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, "ok"));
    }
}

#[tokio::test]
async fn an_answer_is_passed_on_as_it_comes() {
    let (world, agent) = world_with(&json!({})).await;
    let go = Arc::new(Notify::new());
    let went = Arc::clone(&go);
    let address = service::raw(&world.tasks, move |mut tcp| {
        let go = Arc::clone(&went);
        async move {
            service::read_head(&mut tcp).await;
            let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n";
            tcp.write_all(head).await.unwrap();
            go.notified().await;
            tcp.write_all(b"3\r\ndef\r\n0\r\n\r\n").await.unwrap();
        }
    })
    .await;
    agent.serve("web.default:*", address, HTTP);
    let mut caller = Caller::connect(&world, "web.default.cluster1", None).await;
    let head = "GET / HTTP/1.1\r\nhost: web.default.cluster1\r\nauthorization: Bearer t\r\n\r\n";
    caller.send(head).await;
    assert_eq!(
        caller.head().await.header("transfer-encoding"),
        Some("chunked")
    );
    assert_eq!(caller.read(8).await, "3\r\nabc\r\n");
    go.notify_one();
    assert_eq!(caller.read(13).await, "3\r\ndef\r\n0\r\n\r\n");
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_not_made_to_look_complete() {
    let (world, agent) = world_with(&json!({})).await;
    let address = service::raw(&world.tasks, |mut tcp| async move {
        service::read_head(&mut tcp).await;
        tcp.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n")
            .await
            .unwrap();
    })
    .await;
    agent.serve("web.default:*", address, HTTP);
    let mut caller = Caller::connect(&world, "web.default.cluster1", None).await;
    let head = "GET / HTTP/1.1\r\nhost: web.default.cluster1\r\nauthorization: Bearer t\r\n\r\n";
    caller.send(head).await;
    assert_eq!(caller.head().await.status, 200);
    let rest = caller.read_to_end().await;
    assert!(!rest.ends_with(b"0\r\n\r\n"), "{rest:?}");
}
