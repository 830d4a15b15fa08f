//! The one port: accepts, finishes handshakes beside the accepting, and says whose turn it is.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use rustls::server::Acceptor;
use socket2::{SockRef, TcpKeepalive};
use strait_pki::{ALPN_SESSION, PkiError};
use strait_runtime::{ReadAhead, Tasks};
use strait_tunnel::Carrier;
use strait_types::CarrierKind;
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream, UnixStream},
    sync::mpsc,
};
use tokio_rustls::{LazyConfigAcceptor, server::TlsStream};
use tokio_util::sync::CancellationToken;

use crate::{
    agents::{Agents, Arrival},
    caller::{Credential, User},
    config::Times,
    frontend::{Frontend, Wrapped},
    local_socket::{self, LocalSocket},
    metrics::Metrics,
    slots::{Slot, Slots},
    tls_configs::TlsConfigs,
};

/// How long to wait when the system gives no connection, for instance for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// When a silent caller is asked whether it is still there, how often, how many times.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(60), Duration::from_secs(15), 4);

/// The hub's port.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) tcp: TcpListener,
    /// Where programs on the same machine come in.
    pub(crate) local: Option<LocalSocket>,
    /// Connections that came in a WebSocket.
    pub(crate) wrapped: mpsc::Receiver<Wrapped>,
    pub(crate) doors: Arc<Doors>,
}

/// What a new connection needs.
#[derive(Debug)]
pub(crate) struct Doors {
    pub(crate) tls: TlsConfigs,
    pub(crate) agents: Arc<Agents>,
    pub(crate) frontend: Arc<Frontend>,
    /// Connections whose handshake is not over.
    pub(crate) handshakes: Arc<Slots>,
    /// Connections of callers that are not streams: between two requests, or in one.
    pub(crate) callers: Arc<Slots>,
    /// The same of those at the local socket.
    pub(crate) locals: Arc<Slots>,
    pub(crate) metrics: Metrics,
    pub(crate) times: Times,
}

/// Why a connection came to nothing.
#[derive(Debug, thiserror::Error)]
enum HandshakeError {
    #[error("the TLS handshake failed")]
    Tls(#[source] io::Error),
    #[error("no TLS configuration")]
    Config(#[from] PkiError),
    #[error("the TLS handshake took too long")]
    TooSlow,
    #[error("others wanted a handshake, and this one had taken longest")]
    Displaced,
}

// === impl Listener ===

impl Listener {
    /// Accepts until `stop`. Connections belong to `connections`.
    pub(crate) async fn run(mut self, stop: CancellationToken, connections: &Tasks) {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                accepted = self.tcp.accept() => match accepted {
                    Ok((tcp, source)) => {
                        if let Err(error) = prepare(&tcp) {
                            tracing::debug!(%error, %source, "socket options");
                        }
                        // A socket that takes both families shows IPv4 callers as mapped addresses.
                        let source = SocketAddr::new(source.ip().to_canonical(), source.port());
                        self.doors.take(tcp, (source, CarrierKind::Tls), connections);
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a connection could not be accepted");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
                accepted = accept_local(self.local.as_ref()) => match accepted {
                    Ok((io, user)) => self.doors.take_local(io, user, connections),
                    Err(error) => {
                        tracing::warn!(%error, "a local connection could not be accepted");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(Wrapped { io, source }) = self.wrapped.recv() => {
                    self.doors.take(io, (source, CarrierKind::WebSocket), connections);
                }
            }
        }
    }
}

/// The next connection at the socket; never, where there is none.
async fn accept_local(socket: Option<&LocalSocket>) -> io::Result<(UnixStream, Arc<User>)> {
    match socket {
        Some(socket) => Ok((socket.accept().await?, Arc::clone(&socket.user))),
        None => std::future::pending().await,
    }
}

// === impl Doors ===

impl Doors {
    fn take<IO: Carrier>(
        self: &Arc<Self>,
        io: IO,
        from: (SocketAddr, CarrierKind),
        connections: &Tasks,
    ) {
        let (source, _) = from;
        let Some(handshake) = self.handshakes.enter(source.ip()) else {
            self.metrics.handshake("too-many");
            tracing::debug!(%source, "too many handshakes under way, connection closed");
            return;
        };
        let doors = Arc::clone(self);
        connections.spawn_one(async move { doors.serve(io, from, handshake).await });
    }

    fn take_local(self: &Arc<Self>, io: UnixStream, user: Arc<User>, connections: &Tasks) {
        let Some(place) = self.locals.enter(local_socket::SOURCE.ip()) else {
            tracing::warn!("too many local connections");
            return;
        };
        // Nobody makes room for another one: all of them are known.
        place.vouch();
        let shows = Some(Credential::LocalSocket(user));
        let from = (local_socket::SOURCE, CarrierKind::Tls);
        let serving = Arc::clone(&self.frontend).serve(io, from, shows, place);
        connections.spawn_one(Box::pin(serving));
    }

    async fn serve<IO: Carrier>(&self, io: IO, from: (SocketAddr, CarrierKind), handshake: Slot) {
        let (source, carrier) = from;
        let shaken = Box::pin(self.shake_hands(io));
        let shaken = tokio::select! {
            shaken = tokio::time::timeout(self.times.handshake, shaken) => {
                shaken.unwrap_or(Err(HandshakeError::TooSlow))
            }
            () = handshake.lost() => Err(HandshakeError::Displaced),
        };
        let tls = match shaken {
            Ok(tls) => tls,
            Err(error) => return self.failed(source, &error),
        };
        let (_, state) = tls.get_ref();
        let chain = state.peer_certificates().map(<[_]>::to_vec);
        if state.alpn_protocol() == Some(ALPN_SESSION) {
            self.metrics.handshake("agent");
            Box::pin(self.agents.serve(
                tls,
                Arrival {
                    source,
                    carrier,
                    chain: chain.unwrap_or_default(),
                    place: handshake,
                },
            ))
            .await;
        } else {
            drop(handshake);
            let Some(place) = self.callers.enter(source.ip()) else {
                self.metrics.handshake("too-many");
                return;
            };
            self.metrics.handshake("caller");
            let frontend = Arc::clone(&self.frontend);
            let shows = chain.map(|chain| Credential::Certificate(chain.into()));
            Box::pin(frontend.serve(tls, from, shows, place)).await;
        }
    }

    /// Reads the ClientHello, then chooses by its application protocols who is asked for what.
    async fn shake_hands<IO: Carrier>(
        &self,
        io: IO,
    ) -> Result<TlsStream<ReadAhead<IO>>, HandshakeError> {
        let acceptor = LazyConfigAcceptor::new(Acceptor::default(), ReadAhead::new(io));
        tokio::pin!(acceptor);
        let start = match acceptor.as_mut().await {
            Ok(start) => start,
            Err(error) => {
                // What is no TLS at all gets the alert that says so.
                if let Some(mut io) = acceptor.take_io() {
                    let _ = io.shutdown().await;
                }
                return Err(HandshakeError::Tls(error));
            }
        };
        let hello = start.client_hello();
        let agent = hello
            .alpn()
            .is_some_and(|mut offers| offers.any(|o| o == ALPN_SESSION));
        let config = if agent {
            self.tls.for_agents()?
        } else {
            self.tls.for_callers()?
        };
        start.into_stream(config).await.map_err(HandshakeError::Tls)
    }

    fn failed(&self, source: SocketAddr, error: &HandshakeError) {
        let cause = std::error::Error::source(error).map(ToString::to_string);
        match error {
            HandshakeError::Config(_) => {
                tracing::warn!(%source, %error, cause, "connection refused");
            }
            HandshakeError::Tls(_) | HandshakeError::TooSlow | HandshakeError::Displaced => {
                tracing::debug!(%source, %error, cause, "connection refused");
            }
        }
        self.metrics.handshake("failed");
    }
}

fn prepare(tcp: &TcpStream) -> io::Result<()> {
    tcp.set_nodelay(true)?;
    let (idle, interval, retries) = KEEPALIVE;
    let keepalive = TcpKeepalive::new()
        .with_time(idle)
        .with_interval(interval)
        .with_retries(retries);
    SockRef::from(tcp).set_tcp_keepalive(&keepalive)
}
