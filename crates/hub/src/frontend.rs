//! Callers: one connection each, HTTP/1.1 over TLS, or in clear at the local socket.
//!
//! - `CONNECT host:port` is a stream of bytes to that port.
//! - `GET http://host/` (absolute form) is a request to a forward proxy.
//! - Any other request goes to the service that its `Host` names; the name that the TLS handshake
//!   asked for chooses the certificate and nothing else.
//!
//! Every request is authorised by itself, also on one connection.

mod body;
mod connect;
mod forward;
mod join;
mod route;
mod service_connection;
mod session;
mod status;

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use strait_runtime::Tasks;
use strait_types::{CarrierKind, Refusal};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};
use tokio_util::sync::CancellationToken;

use crate::{
    audit::{AuditLine, Via},
    caller::{Caller, Credential},
    config::{Limits, Times},
    credential::{self, Given},
    decisions::Decisions,
    join::Joins,
    metrics::Metrics,
    problem::{self, Role},
    reach::Reach,
    slots::Slot,
    upstream::Upstream,
};
use body::Body;
use route::Route;
use service_connection::Idle;
pub(crate) use session::Wrapped;

/// What every connection of callers needs.
#[derive(Debug)]
pub(crate) struct Frontend {
    pub(crate) reach: Reach,
    pub(crate) decisions: Arc<Decisions>,
    pub(crate) upstream: Upstream,
    pub(crate) joins: Arc<Joins>,
    pub(crate) metrics: Metrics,
    /// Host names and addresses of the hub itself.
    pub(crate) own_names: Vec<String>,
    /// What this hub is called.
    pub(crate) name: String,
    pub(crate) limits: Limits,
    pub(crate) times: Times,
    /// Streams that outlive their request.
    pub(crate) tasks: Tasks,
    /// Takes connections to the hub's port that came in a WebSocket.
    pub(crate) wrapped: mpsc::Sender<Wrapped>,
}

/// One caller's connection.
#[derive(Debug)]
struct Connection {
    frontend: Arc<Frontend>,
    source: SocketAddr,
    /// What the connection came in.
    carrier: CarrierKind,
    /// What the connection itself shows of who is calling.
    shows: Option<Credential>,
    place: Arc<Slot>,
    /// Cancelled when the request under way has lost its right, read or not.
    abort: CancellationToken,
    idle: Idle,
}

// === impl Frontend ===

impl Frontend {
    /// Serves one connection until it ends, or until the present request is done once the hub is
    /// asked to stop. A caller who has not said who they are may lose their place to another one.
    pub(crate) async fn serve<I>(
        self: Arc<Self>,
        io: I,
        from: (SocketAddr, CarrierKind),
        shows: Option<Credential>,
        place: Slot,
    ) where
        I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (source, carrier) = from;
        let stop = self.reach.stop.clone();
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(self.times.head)
            .max_header_size(self.limits.head_bytes)
            .max_buf_size(self.limits.head_bytes.max(16 << 10));
        let (place, abort) = (Arc::new(place), CancellationToken::new());
        let connection = Arc::new(Connection {
            frontend: self,
            source,
            carrier,
            shows,
            place: Arc::clone(&place),
            abort: abort.clone(),
            idle: Idle::default(),
        });
        let answer = service_fn(move |request| {
            let connection = Arc::clone(&connection);
            async move { Ok::<_, Infallible>(connection.answer(request).await) }
        });
        let serving = builder
            .serve_connection(TokioIo::new(io), answer)
            .with_upgrades();
        let mut serving = std::pin::pin!(serving);
        let ended = tokio::select! {
            ended = serving.as_mut() => ended,
            () = place.lost() => {
                tracing::debug!(%source, "a silent caller made room for another one");
                return;
            }
            () = abort.cancelled() => return,
            () = stop.cancelled() => {
                serving.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = serving => ended,
                    () = abort.cancelled() => return,
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, %source, "a caller's connection ended");
        }
    }
}

impl Frontend {
    fn is_own(&self, host: &str) -> bool {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let mut own = self.own_names.iter();
        own.any(|name| name.eq_ignore_ascii_case(host.trim_end_matches('.')))
    }
}

// === impl Connection ===

impl Connection {
    async fn answer(self: &Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        let own = |host: &str| self.frontend.is_own(host);
        match route::route(&request, own) {
            Ok(Route::Join) => Box::pin(self.join(request)).await,
            Ok(Route::Status) => Box::pin(self.status(request)).await,
            Ok(Route::Session) => self.session(request),
            Ok(Route::Connect { host, port }) => Box::pin(self.connect(request, host, port)).await,
            Ok(Route::Forward { host, port }) => {
                Box::pin(self.forward(request, Via::ForwardProxy, host, port)).await
            }
            Ok(Route::ByHost { host, port }) => {
                Box::pin(self.forward(request, Via::HttpsByHost, host, port)).await
            }
            Err((via, refusal)) => {
                let name = place(request.uri());
                let audit = AuditLine::begin(&self.frontend.metrics, self.source, via, &name);
                refuse(audit, &refusal, via)
            }
        }
    }

    /// Who sends this request, and the header with their credential.
    async fn identify(
        &self,
        via: Via,
        request: &Request<Incoming>,
    ) -> Result<(Arc<Caller>, Option<http::HeaderName>), Refusal> {
        let given = credential::given(via, request.headers(), self.shows.is_some())?;
        let (credential, header) = match (given, &self.shows) {
            (Given::Token(token, header), _) => (Credential::Token(token), Some(header)),
            (Given::Connection, Some(shown)) => (shown.clone(), None),
            (Given::Connection | Given::Nothing, _) => return Err(anonymous(via)),
        };
        let caller = self
            .frontend
            .decisions
            .identify(credential, self.source.ip())
            .await?;
        self.place.vouch();
        Ok((Arc::new(caller), header))
    }
}

fn anonymous(via: Via) -> Refusal {
    let header = if via.is_proxy() {
        "Proxy-Authorization"
    } else {
        "Authorization"
    };
    Refusal::new(
        strait_types::RefusalCode::Unauthenticated,
        "nobody said who is asking",
    )
    .with_hint(format!(
        "send a bearer token in `{header}`, or come with a client certificate"
    ))
}

/// Where a request goes, without user, path and query, which may hold secrets.
fn place(uri: &http::Uri) -> String {
    let host = uri.host().unwrap_or_default();
    uri.port_u16()
        .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Writes the audit line and makes the answer.
fn refuse(audit: AuditLine, refusal: &Refusal, via: Via) -> Response<Body> {
    audit.refused(refusal);
    let role = if via.is_proxy() {
        Role::Proxy
    } else {
        Role::Origin
    };
    whole(problem::render(refusal, role))
}

/// An answer that is complete already.
fn whole(response: Response<Bytes>) -> Response<Body> {
    response.map(|bytes| Body::whole(Full::new(bytes)))
}

/// The W3C trace context of a request, if there is one that can be one.
fn trace_context(request: &Request<Incoming>) -> String {
    let parent = request
        .headers()
        .get("traceparent")
        .and_then(|value| value.to_str().ok());
    parent
        .filter(|text| text.len() <= 64)
        .unwrap_or_default()
        .to_owned()
}
