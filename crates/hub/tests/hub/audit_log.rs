//! One line for each stream.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::Notify,
};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{Layer, layer::Context, layer::SubscriberExt};

use crate::{
    agent::Agent,
    caller::Caller,
    service,
    world::{World, eventually, soon},
};

type Line = BTreeMap<String, String>;

/// Keeps the lines of the audit log.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<Line>>>);

struct Fields<'a>(&'a mut Line);

// === impl Lines ===

impl Lines {
    async fn nth(&self, number: usize) -> Line {
        eventually("a line", || self.0.lock().len() > number).await;
        self.0.lock()[number].clone()
    }
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == "strait::audit" {
            let mut line = Line::new();
            event.record(&mut Fields(&mut line));
            // Other tests of this process leave lines, too.
            if line
                .get("name")
                .is_some_and(|name| name.starts_with("audit-"))
            {
                self.0.lock().push(line);
            }
        }
    }
}

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.insert(
            field.name().to_owned(),
            format!("{value:?}").trim_matches('"').to_owned(),
        );
    }
}

#[tokio::test]
async fn every_stream_and_every_refusal_leaves_one_line() {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::registry().with(lines.clone());
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let (world, agent) = audited_world().await;

    let mut caller = Caller::new(&world).await;
    caller
        .tunnel("audit-echo.default.cluster1:7", "s3cret")
        .await;
    caller.send("abc").await;
    assert_eq!(caller.read(9).await, "hello\nabc");
    caller.tls.shutdown().await.unwrap();
    caller.read_to_end().await;
    let line = lines.nth(0).await;
    let expected = [
        ("caller", "dev@example.com"),
        ("via", "connect"),
        ("name", "audit-echo.default.cluster1:7"),
        ("entrypoint", "audit-echo.default.cluster1"),
        ("cluster", "cluster1"),
        ("decision", "allowed"),
        ("code", "complete"),
        ("sent", "3"),
        ("received", "13"),
    ];
    for (field, value) in expected {
        assert_eq!(line[field], value, "{field}");
    }
    assert!(line["source"].starts_with("127.0.0.1:") && line.contains_key("duration_ms"));

    let mut caller = Caller::new(&world).await;
    let head = |host, token| {
        format!("GET / HTTP/1.1\nhost: {host}.default.cluster1\nauthorization: Bearer {token}")
    };
    caller.ask(&head("audit-web", "s3cret")).await;
    let line = lines.nth(1).await;
    assert_eq!(
        (line["via"].as_str(), line["code"].as_str()),
        ("https-by-host", "complete")
    );
    assert!(line["sent"].parse::<u64>().unwrap() > 10);

    caller.ask(&head("audit-nope", "s3cret")).await;
    let line = lines.nth(2).await;
    assert_eq!(line["decision"], "refused");
    assert_eq!(line["code"], "entrypoint-not-found");
    assert_eq!(line["name"], "audit-nope.default.cluster1");

    caller.ask(&head("audit-web", "wr0ng")).await;
    let line = lines.nth(3).await;
    assert_eq!(
        (line["caller"].as_str(), line["code"].as_str()),
        ("", "unauthenticated")
    );
    what_nobody_answers_has_its_bytes(&world, &agent, &lines).await;
    nothing_of_a_url_but_its_host_is_told(&world, &lines).await;
    who_broke_a_websocket_is_told(&world, &agent, &lines).await;

    let everything = format!("{:?}", lines.0.lock());
    assert!(!everything.contains("s3cret") && !everything.contains("wr0ng"));
}

async fn what_nobody_answers_has_its_bytes(world: &World, agent: &Agent, lines: &Lines) {
    let mute = Arc::new(Notify::new());
    let heard = Arc::clone(&mute);
    let silent = service::raw(&world.tasks, move |mut tcp| {
        let heard = Arc::clone(&heard);
        async move {
            service::read_head(&mut tcp).await;
            let mut body = vec![0; 100_000];
            let _ = tcp.read_exact(&mut body).await;
            heard.notify_one();
            let _ = tokio::io::copy(&mut tcp, &mut tokio::io::sink()).await;
        }
    });
    agent.serve("audit-mute.default:*", silent.await, r#"{"port":80}"#);
    let mut caller = Caller::new(world).await;
    let post = "POST / HTTP/1.1\r\nhost: audit-mute.default.cluster1\r\n\
                authorization: Bearer s3cret\r\ncontent-length: 1000000\r\n\r\n";
    caller.send(post).await;
    caller.send(&"x".repeat(100_000)).await;
    soon("the upload", mute.notified()).await;
    drop(caller);
    let line = lines.nth(4).await;
    assert_eq!(line["code"], "bad-request");
    assert!(line["sent"].parse::<u64>().unwrap() >= 100_000, "{line:?}");
}

async fn nothing_of_a_url_but_its_host_is_told(world: &World, lines: &Lines) {
    let mut caller = Caller::new(world).await;
    let head = "GET http://u:s3cret@audit-url.default.cluster1/?t=s3cret HTTP/1.1\nhost: x";
    assert_eq!(caller.ask(head).await.status, 400);
    assert_eq!(lines.nth(5).await["name"], "audit-url.default.cluster1");
}

async fn who_broke_a_websocket_is_told(world: &World, agent: &Agent, lines: &Lines) {
    let breaking = service::raw(&world.tasks, |mut tcp| async move {
        service::read_head(&mut tcp).await;
        let switched = "HTTP/1.1 101 S\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
        tcp.write_all(switched.as_bytes()).await.unwrap();
        let mut word = [0; 5];
        tcp.read_exact(&mut word).await.unwrap();
        if &word == b"break" {
            // With unread bytes, it is reset and not finished.
            tcp.set_zero_linger().unwrap();
        } else {
            let _ = tokio::io::copy(&mut tcp, &mut tokio::io::sink()).await;
        }
    });
    agent.serve("audit-mute.default:*", breaking.await, r#"{"port":80}"#);
    for (number, word, code) in [(6, "break", "target-gone"), (7, "leave", "caller-gone")] {
        let mut caller = Caller::new(world).await;
        let head = "GET / HTTP/1.1\nhost: audit-mute.default.cluster1\n\
                    authorization: Bearer s3cret\nconnection: upgrade\nupgrade: websocket";
        assert_eq!(caller.ask(head).await.status, 101);
        caller.send(word).await;
        if word == "break" {
            caller.read_to_end().await;
        }
        drop(caller);
        assert_eq!(lines.nth(number).await["code"], code);
    }
}

async fn audited_world() -> (World, Agent) {
    let world = World::start().await;
    world.reviews.token("s3cret", "dev@example.com");
    for name in [
        "audit-echo.default.cluster1",
        "audit-web.default.cluster1",
        "audit-mute.default.cluster1",
    ] {
        world.reviews.allow("dev@example.com", name);
        world.expose(name, &json!({}));
    }
    let agent = Agent::connect(&world, "cluster1").await;
    agent.serve(
        "audit-echo.default:7",
        service::echo(&world.tasks).await,
        "{}",
    );
    let (address, _) = service::http(&world.tasks).await;
    agent.serve("audit-web.default:*", address, r#"{"port":80}"#);
    (world, agent)
}
