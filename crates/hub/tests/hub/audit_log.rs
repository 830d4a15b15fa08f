//! One line for each stream.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{Layer, layer::Context, layer::SubscriberExt};

use crate::{
    agent::Agent,
    caller::Caller,
    service,
    world::{World, eventually},
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
            self.0.lock().push(line);
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

// One thread, so that the subscriber of this thread sees every task.
#[tokio::test]
async fn every_stream_and_every_refusal_leaves_one_line() {
    let lines = Lines::default();
    let _guard =
        tracing::subscriber::set_default(tracing_subscriber::registry().with(lines.clone()));
    let world = World::start().await;
    world.reviews.token("s3cret", "dev@example.com");
    for name in ["echo.default.cluster1", "web.default.cluster1"] {
        world.reviews.allow("dev@example.com", name);
        world.expose(name, &json!({}));
    }
    let agent = Agent::connect(&world, "cluster1").await;
    agent.serve("echo.default:7", service::echo(&world.tasks).await, "{}");
    let (address, _) = service::http(&world.tasks).await;
    agent.serve("web.default:*", address, r#"{"port":80}"#);

    let mut caller = Caller::new(&world).await;
    caller.tunnel("echo.default.cluster1:7", "s3cret").await;
    caller.send("abc").await;
    assert_eq!(caller.read(9).await, "hello\nabc");
    caller.tls.shutdown().await.unwrap();
    caller.read_to_end().await;
    let line = lines.nth(0).await;
    for (field, value) in [
        ("caller", "dev@example.com"),
        ("via", "connect"),
        ("name", "echo.default.cluster1:7"),
        ("entrypoint", "echo.default.cluster1"),
        ("cluster", "cluster1"),
        ("decision", "allowed"),
        ("code", "complete"),
        ("sent", "3"),
        ("received", "13"),
    ] {
        assert_eq!(line[field], value, "{field}");
    }
    assert!(line["source"].starts_with("127.0.0.1:") && line.contains_key("duration_ms"));

    let mut caller = Caller::new(&world).await;
    let head = "GET / HTTP/1.1\nhost: web.default.cluster1\nauthorization: Bearer s3cret";
    caller.ask(head).await;
    let line = lines.nth(1).await;
    assert_eq!(
        (line["via"].as_str(), line["code"].as_str()),
        ("https-by-host", "complete")
    );
    assert!(line["sent"].parse::<u64>().unwrap() > 10);

    caller
        .ask("GET / HTTP/1.1\nhost: nope.default.cluster1\nauthorization: Bearer s3cret")
        .await;
    let line = lines.nth(2).await;
    assert_eq!(line["decision"], "refused");
    assert_eq!(line["code"], "entrypoint-not-found");
    assert_eq!(line["name"], "nope.default.cluster1");

    caller
        .ask("GET / HTTP/1.1\nhost: web.default.cluster1\nauthorization: Bearer wr0ng")
        .await;
    let line = lines.nth(3).await;
    assert_eq!(
        (line["caller"].as_str(), line["code"].as_str()),
        ("", "unauthenticated")
    );
    let everything = format!("{:?}", lines.0.lock());
    assert!(!everything.contains("s3cret") && !everything.contains("wr0ng"));
}
