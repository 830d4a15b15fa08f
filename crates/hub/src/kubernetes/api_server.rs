//! A scripted API server for the tests of this module.

use std::sync::Arc;

use http::{Request, Response};
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// What was asked: method, path with query, body.
pub(super) type Asked = (String, String, Value);

/// A client whose server answers with `answer`, and what it was asked.
pub(super) fn scripted(
    answer: impl Fn(&str, &str) -> (u16, Value) + Clone + Send + Sync + 'static,
) -> (Client, Arc<Mutex<Vec<Asked>>>) {
    let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
    let seen = Arc::clone(&asked);
    let server = tower::service_fn(move |request: Request<Body>| {
        let (answer, seen) = (answer.clone(), Arc::clone(&seen));
        async move {
            let (method, path) = (request.method().to_string(), request.uri().to_string());
            let body = request.into_body().collect().await?.to_bytes();
            let (status, value) = answer(&method, &path);
            let body = serde_json::from_slice(&body).unwrap_or_default();
            seen.lock().push((method, path, body));
            let response = Response::builder().status(status);
            Ok::<_, kube::Error>(
                response
                    .body(Body::from(value.to_string().into_bytes()))
                    .unwrap(),
            )
        }
    });
    (Client::new(server, "default"), asked)
}

/// The `Status` that an API server answers with when it refuses.
pub(super) fn refusal(code: u16, reason: &str) -> (u16, Value) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "message": reason, "reason": reason, "code": code,
    });
    (code, status)
}
