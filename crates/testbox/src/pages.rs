//! The pages of the HTTP server.
//!
//! `/` says who answers; `/headers` what came in, as JSON; `/bytes?n=` so many bytes;
//! `/stream` a line each 100 ms without end (`?n=` ends it); `/ws` echoes WebSocket messages;
//! `/status/CODE` answers with the code; a POST to `/sum` answers with count and digest.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{SinkExt, StreamExt, stream};
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::TokioIo;
use sha2::{Digest, Sha256};
use tokio_tungstenite::{
    WebSocketStream, tungstenite::handshake::derive_accept_key, tungstenite::protocol::Role,
};

use crate::digest::{byte_at, hex};

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Answers one request.
pub(crate) async fn answer(request: Request<Incoming>, name: Arc<str>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let n = number(request.uri().query());
    match path.as_str() {
        "/" => text(StatusCode::OK, format!("{name}\n")),
        "/headers" => headers(&request),
        "/bytes" => bytes(n.unwrap_or(0)),
        "/stream" => lines(n),
        "/sum" => sum(request).await,
        "/ws" => websocket(request),
        other => match other
            .strip_prefix("/status/")
            .and_then(|code| code.parse().ok())
        {
            Some(code) => text(code, format!("{code}\n")),
            None => text(StatusCode::NOT_FOUND, "no such page\n".to_owned()),
        },
    }
}

fn number(query: Option<&str>) -> Option<u64> {
    query?
        .split('&')
        .find_map(|pair| pair.strip_prefix("n="))?
        .parse()
        .ok()
}

fn text(status: StatusCode, body: String) -> Response<Body> {
    let mut response = Response::new(Full::from(body).boxed_unsync());
    *response.status_mut() = status;
    response
}

fn headers(request: &Request<Incoming>) -> Response<Body> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, value) in request.headers() {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        all.entry(key.to_string()).or_default().push(value);
    }
    all.insert(
        ":version".to_owned(),
        vec![format!("{:?}", request.version())],
    );
    text(StatusCode::OK, serde_json::json!(all).to_string())
}

fn bytes(count: u64) -> Response<Body> {
    const CHUNK: u64 = 64 * 1024;
    let chunks = (0..count.div_ceil(CHUNK)).map(move |index| {
        let from = index * CHUNK;
        let chunk: Bytes = (from..(from + CHUNK).min(count)).map(byte_at).collect();
        Ok(Frame::data(chunk))
    });
    Response::new(StreamBody::new(stream::iter(chunks)).boxed_unsync())
}

fn lines(count: Option<u64>) -> Response<Body> {
    let lines = stream::unfold(0u64, move |index| async move {
        if count.is_some_and(|count| index >= count) {
            return None;
        }
        if index > 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Some((
            Ok(Frame::data(Bytes::from(format!("data: {index}\n\n")))),
            index + 1,
        ))
    });
    let mut response = Response::new(StreamBody::new(lines).boxed_unsync());
    let kind = http::HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

async fn sum(request: Request<Incoming>) -> Response<Body> {
    let mut hash = Sha256::new();
    let mut count = 0;
    let mut body = request.into_body();
    while let Some(Ok(frame)) = body.frame().await {
        if let Ok(data) = frame.into_data() {
            count += data.len();
            hash.update(&data);
        }
    }
    text(
        StatusCode::OK,
        format!("{count} {}\n", hex(&hash.finalize())),
    )
}

fn websocket(mut request: Request<Incoming>) -> Response<Body> {
    let Some(key) = request.headers().get(header::SEC_WEBSOCKET_KEY) else {
        return text(StatusCode::BAD_REQUEST, "no WebSocket request\n".to_owned());
    };
    let accept = derive_accept_key(key.as_bytes());
    let upgrade = hyper::upgrade::on(&mut request);
    #[expect(
        clippy::disallowed_methods,
        reason = "ends with the process, which is a test's"
    )]
    tokio::spawn(async move {
        let Ok(upgraded) = upgrade.await else { return };
        let io = TokioIo::new(upgraded);
        let mut socket = WebSocketStream::from_raw_socket(io, Role::Server, None).await;
        while let Some(Ok(message)) = socket.next().await {
            let data = message.is_text() || message.is_binary();
            if data && socket.send(message).await.is_err() {
                return;
            }
        }
    });
    let mut response = text(StatusCode::SWITCHING_PROTOCOLS, String::new());
    let fields = [
        (header::CONNECTION, "upgrade"),
        (header::UPGRADE, "websocket"),
        (header::SEC_WEBSOCKET_ACCEPT, accept.as_str()),
    ];
    for (key, value) in fields {
        if let Ok(value) = value.parse() {
            response.headers_mut().insert(key, value);
        }
    }
    response
}
