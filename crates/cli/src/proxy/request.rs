//! What the proxy does with one request: CONNECT, or a request in absolute form.

use std::{convert::Infallible, error::Error};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri,
    header::{
        CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION,
        TRANSFER_ENCODING, UPGRADE,
    },
    uri::{Authority, Scheme},
};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::{body::Incoming, client::conn::http1, upgrade::Upgraded};
use hyper_util::rt::TokioIo;
use strait_runtime::{ResetOnDrop, Tasks};
use strait_types::RefusalCode;
use tokio::{
    io::{AsyncWriteExt, copy_bidirectional},
    net::TcpStream,
};

use super::{
    hub::{Hub, HubError, Opened},
    until,
};

type Body = BoxBody<Bytes, hyper::Error>;

/// Headers that end at a proxy (RFC 9110, 7.6.1), but for those that an upgrade needs.
const HOP_BY_HOP: [HeaderName; 4] = [
    PROXY_AUTHORIZATION,
    PROXY_AUTHENTICATE,
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("keep-alive"),
];

/// Answers one request of a local client.
pub(super) async fn answer(
    request: Request<Incoming>,
    hub: &Hub,
    tasks: &Tasks,
) -> Result<Response<Body>, Infallible> {
    let answered = if request.method() == Method::CONNECT {
        connect(request, hub, tasks).await
    } else {
        absolute(request, hub, tasks).await
    };
    Ok(answered.unwrap_or_else(|error| failed(&error)))
}

async fn connect(
    request: Request<Incoming>,
    hub: &Hub,
    tasks: &Tasks,
) -> Result<Response<Body>, HubError> {
    let Some(authority) = request.uri().authority().filter(|a| a.port().is_some()) else {
        return Ok(bad_request("CONNECT needs HOST:PORT"));
    };
    match hub.open(authority.as_str(), tasks).await? {
        Opened::Refused(refusal) => Ok(passed_on(refusal)),
        Opened::Stream(stream) => {
            let client = hyper::upgrade::on(request);
            let stop = tasks.stop().clone();
            tasks.spawn_one(until(stop, async move {
                if let Ok(client) = client.await {
                    splice(client, stream).await;
                }
            }));
            Ok(Response::new(empty()))
        }
    }
}

async fn absolute(
    mut request: Request<Incoming>,
    hub: &Hub,
    tasks: &Tasks,
) -> Result<Response<Body>, HubError> {
    let Some(authority) = target(request.uri()) else {
        return Ok(bad_request(
            "this is a proxy for http://SERVICE.NAMESPACE.CLUSTER/ and for CONNECT",
        ));
    };
    let stream = match hub.open(&authority, tasks).await? {
        Opened::Refused(refusal) => return Ok(passed_on(refusal)),
        Opened::Stream(stream) => stream,
    };
    let (mut sender, connection) = http1::handshake(TokioIo::new(TokioIo::new(stream)))
        .await
        .map_err(HubError::Closed)?;
    tasks.spawn_one(until(tasks.stop().clone(), async move {
        // Its end, good or bad, shows in the answer.
        let _ = connection.with_upgrades().await;
    }));
    to_origin_form(&mut request);
    let client = request
        .headers()
        .contains_key(UPGRADE)
        .then(|| hyper::upgrade::on(&mut request));
    let mut response = sender
        .send_request(request)
        .await
        .map_err(HubError::Closed)?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS
        && let Some(client) = client
    {
        let service = hyper::upgrade::on(&mut response);
        tasks.spawn_one(until(tasks.stop().clone(), async move {
            if let (Ok(client), Ok(service)) = (client.await, service.await) {
                splice(client, service).await;
            }
        }));
    } else {
        response.headers_mut().remove(CONNECTION);
    }
    strip(response.headers_mut());
    Ok(response.map(BodyExt::boxed))
}

/// `host:port` of a request in absolute form; `None` for anything else.
fn target(uri: &Uri) -> Option<String> {
    let authority = uri
        .authority()
        .filter(|_| uri.scheme() == Some(&Scheme::HTTP))?;
    let port = authority.port_u16().unwrap_or(80);
    Some(format!("{}:{port}", authority.host()))
}

/// From `GET http://host/path` to `GET /path` with `Host`, as the service expects it.
fn to_origin_form(request: &mut Request<Incoming>) {
    let host = request
        .uri()
        .authority()
        .map(Authority::as_str)
        .map(HeaderValue::from_str);
    if let Some(Ok(host)) = host {
        request.headers_mut().insert(HOST, host);
    }
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", |path| path.as_str());
    *request.uri_mut() = path.parse().unwrap_or_default();
    strip(request.headers_mut());
    if !request.headers().contains_key(UPGRADE) {
        request.headers_mut().remove(CONNECTION);
    }
}

fn strip(headers: &mut HeaderMap) {
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

async fn splice(client: Upgraded, service: Upgraded) {
    let mut service = TokioIo::new(service);
    // How it ended both ends see for themselves: a stream that breaks at the hub breaks here, too.
    let _ = match client.downcast::<TokioIo<TcpStream>>() {
        Ok(parts) => {
            let mut client = ResetOnDrop::new(parts.io.into_inner());
            match service.write_all(&parts.read_buf).await {
                Ok(()) => copy_bidirectional(&mut client, &mut service).await,
                Err(error) => Err(error),
            }
        }
        Err(client) => copy_bidirectional(&mut TokioIo::new(client), &mut service).await,
    };
}

/// The hub's refusal with its own body, as the answer to the local client.
fn passed_on(refusal: Response<Bytes>) -> Response<Body> {
    let mut response = refusal.map(full);
    strip(response.headers_mut());
    for name in [CONNECTION, TRANSFER_ENCODING, CONTENT_LENGTH] {
        response.headers_mut().remove(name);
    }
    // The local client has no credentials to offer: asking it for some would be misleading.
    if response.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED {
        *response.status_mut() = StatusCode::BAD_GATEWAY;
    }
    response
}

fn failed(error: &HubError) -> Response<Body> {
    let mut detail = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        detail.push_str(": ");
        detail.push_str(&cause.to_string());
        source = cause.source();
    }
    problem(StatusCode::BAD_GATEWAY, RefusalCode::Unavailable, &detail)
}

fn bad_request(detail: &str) -> Response<Body> {
    problem(StatusCode::BAD_REQUEST, RefusalCode::BadRequest, detail)
}

fn problem(status: StatusCode, code: RefusalCode, detail: &str) -> Response<Body> {
    let body = serde_json::json!({
        "title": status.canonical_reason(),
        "status": status.as_u16(),
        "code": code.as_str(),
        "detail": detail,
    });
    let mut response = Response::new(full(Bytes::from(format!("{body:#}\n"))));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/problem+json"),
    );
    headers.insert("strait-code", HeaderValue::from_static(code.as_str()));
    response
}

fn full(bytes: Bytes) -> Body {
    Full::new(bytes)
        .map_err(|never: Infallible| match never {})
        .boxed()
}

fn empty() -> Body {
    full(Bytes::new())
}
