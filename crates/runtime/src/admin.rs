//! Health, readiness, metrics and the meant configuration, on a port of their own.
//!
//! `/livez` answers as long as the process runs. `/readyz` lists every condition that a component
//! registered and answers 503 while one does not hold. `/metrics` is OpenMetrics text. `/config`
//! is the configuration as the process understood it, secrets left out. `/log` is what is logged,
//! and a PUT changes it; that only who is on the same machine, or in the same pod, may do.

use std::{collections::BTreeMap, convert::Infallible, fmt::Write, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt, Collected, Full, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use prometheus_client::{encoding::text::encode, registry::Registry};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::{LogFilter, Tasks};

/// What `/metrics` is served as.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The longest log filter, in bytes.
const MAX_FILTER: usize = 4096;

/// Named conditions that must all hold before a process is ready.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<Mutex<BTreeMap<&'static str, Result<(), String>>>>);

/// One condition of a [`Readiness`]. Dropped, it does not hold any more.
#[derive(Debug)]
#[must_use = "dropping it says that the condition does not hold"]
pub struct Condition {
    all: Readiness,
    name: &'static str,
}

/// The server of the admin port.
#[derive(Debug)]
pub struct Admin {
    listener: TcpListener,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    readiness: Readiness,
    registry: Registry,
    config: String,
    log: LogFilter,
}

// === impl Readiness ===

impl Readiness {
    /// Adds a condition, which does not hold until it is told so.
    pub fn condition(&self, name: &'static str) -> Condition {
        self.0.lock().insert(name, Err("not yet".to_owned()));
        Condition {
            all: self.clone(),
            name,
        }
    }

    /// Whether every condition holds.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.0.lock().values().all(Result::is_ok)
    }

    fn report(&self) -> String {
        let mut report = String::new();
        for (name, state) in &*self.0.lock() {
            let _ = match state {
                Ok(()) => writeln!(report, "[+] {name}"),
                Err(why) => writeln!(report, "[-] {name}: {why}"),
            };
        }
        report
    }
}

// === impl Condition ===

impl Condition {
    /// It holds.
    pub fn holds(&self) {
        self.all.0.lock().insert(self.name, Ok(()));
    }

    /// It does not, for this reason.
    pub fn fails(&self, why: impl Into<String>) {
        self.all.0.lock().insert(self.name, Err(why.into()));
    }
}

impl Drop for Condition {
    fn drop(&mut self) {
        self.all.0.lock().insert(self.name, Err("ended".to_owned()));
    }
}

// === impl Admin ===

impl Admin {
    /// Binds the admin port. `config` is what `/config` shows; leave secrets out of it.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn bind(
        addr: SocketAddr,
        readiness: Readiness,
        registry: Registry,
        config: String,
        log: LogFilter,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind(addr).await?;
        Ok(Self {
            listener,
            shared: Arc::new(Shared {
                readiness,
                registry,
                config,
                log,
            }),
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the operating system does not say.
    pub fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        let connections = Tasks::new(stop.clone());
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                accepted = self.listener.accept() => match accepted {
                    Ok((tcp, peer)) => {
                        let local = peer.ip().to_canonical().is_loopback();
                        connections.spawn_one(serve(tcp, local, self.shared.clone(), stop.clone()));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "the admin port could not accept a connection");
                        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                    }
                },
            }
        }
    }
}

async fn serve(tcp: TcpStream, local: bool, shared: Arc<Shared>, stop: CancellationToken) {
    let answer = service_fn(move |request: Request<Incoming>| {
        let shared = Arc::clone(&shared);
        async move {
            let response = match (request.method(), request.uri().path()) {
                (&Method::PUT, "/log") if local => set_log(request, &shared.log).await,
                (&Method::PUT, "/log") => text(
                    StatusCode::FORBIDDEN,
                    "only from the same machine; `kubectl port-forward` is\n".to_owned(),
                ),
                (method, path) => respond(method, path, &shared),
            };
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(tcp), answer);
    tokio::select! {
        () = stop.cancelled() => {}
        _ = connection => {}
    }
}

async fn set_log(request: Request<Incoming>, log: &LogFilter) -> Response<Full<Bytes>> {
    let body = Limited::new(request.into_body(), MAX_FILTER)
        .collect()
        .await;
    let body = body.map(Collected::to_bytes).unwrap_or_default();
    let filter = String::from_utf8_lossy(&body);
    match log.set(filter.trim()) {
        Ok(()) => {
            tracing::info!(filter = filter.trim(), "another log filter is in force");
            text(StatusCode::OK, format!("{}\n", log.text()))
        }
        Err(error) => {
            let why = std::error::Error::source(&error).map(|why| format!(": {why}"));
            text(
                StatusCode::BAD_REQUEST,
                format!("{error}{}\n", why.unwrap_or_default()),
            )
        }
    }
}

fn respond(method: &Method, path: &str, shared: &Shared) -> Response<Full<Bytes>> {
    if method != Method::GET {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n".to_owned());
    }
    match path {
        "/livez" | "/healthz" => text(StatusCode::OK, "ok\n".to_owned()),
        "/readyz" => {
            let ready = shared.readiness.is_ready();
            let status = if ready {
                StatusCode::OK
            } else {
                StatusCode::SERVICE_UNAVAILABLE
            };
            text(status, shared.readiness.report())
        }
        "/metrics" => metrics(&shared.registry),
        "/config" => text(StatusCode::OK, shared.config.clone()),
        "/log" => text(StatusCode::OK, format!("{}\n", shared.log.text())),
        _ => text(
            StatusCode::NOT_FOUND,
            "/livez /readyz /metrics /config /log\n".to_owned(),
        ),
    }
}

fn metrics(registry: &Registry) -> Response<Full<Bytes>> {
    let mut body = String::new();
    if encode(&mut body, registry).is_err() {
        return text(
            StatusCode::INTERNAL_SERVER_ERROR,
            "metrics cannot be written\n".to_owned(),
        );
    }
    with_type(StatusCode::OK, OPENMETRICS, body)
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    with_type(status, "text/plain; charset=utf-8", body)
}

fn with_type(status: StatusCode, media: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, http::HeaderValue::from_static(media));
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn get(addr: SocketAddr, path: &str) -> String {
        ask(addr, "GET", path, "").await
    }

    async fn ask(addr: SocketAddr, method: &str, path: &str, body: &str) -> String {
        let mut tcp = TcpStream::connect(addr).await.unwrap();
        let len = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len}\r\n\r\n{body}"
        );
        tcp.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        tcp.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn readiness_names_what_is_missing() {
        let readiness = Readiness::default();
        let (log, _layer) = crate::telemetry::tests::filter("info");
        let tunnel = readiness.condition("tunnel");
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        let admin = Admin::bind(
            local,
            readiness,
            Registry::default(),
            "port: 1\n".to_owned(),
            log,
        );
        let admin = admin.await.unwrap();
        let addr = admin.local_addr().unwrap();
        let tasks = Tasks::default();
        tasks.spawn("admin", |stop| admin.run(stop));

        let before = get(addr, "/readyz").await;
        assert!(before.starts_with("HTTP/1.1 503") && before.contains("[-] tunnel: not yet"));
        tunnel.holds();
        assert!(get(addr, "/readyz").await.starts_with("HTTP/1.1 200"));
        assert!(get(addr, "/metrics").await.ends_with("# EOF\n"));
        assert!(get(addr, "/config").await.ends_with("port: 1\n"));
        assert!(get(addr, "/log").await.ends_with("info\n"));
        let set = ask(addr, "PUT", "/log", "debug").await;
        assert!(
            set.starts_with("HTTP/1.1 200") && set.ends_with("debug\n"),
            "{set}"
        );
        let wrong = ask(addr, "PUT", "/log", "a=b=c").await;
        assert!(
            wrong.starts_with("HTTP/1.1 400") && wrong.contains("`a=b=c`"),
            "{wrong}"
        );
        assert!(get(addr, "/log").await.ends_with("debug\n"));
        drop(tunnel);
        assert!(get(addr, "/readyz").await.contains("[-] tunnel: ended"));
        assert!(get(addr, "/livez").await.starts_with("HTTP/1.1 200"));
    }
}
