//! A TLS connection to a hub: in TCP, or in a WebSocket where the network lets nothing else through.
//!
//! In a WebSocket the TLS of the session is inside of the TLS of HTTPS, which somebody on the way
//! may end: a load balancer, or a proxy that looks into everything. So the outer certificate is not
//! looked at, and the inner one is what the hub proves itself with.

use std::{collections::BTreeMap, io, sync::Arc, time::Duration};

use parking_lot::Mutex;
use rustls_pki_types::ServerName;
use strait_pki::{PkiError, ServerTrust, client_config};
use strait_runtime::ReadAhead;
use strait_types::{CarrierKind, SESSION_PATH, SESSION_PROTOCOL};
use strait_websocket::DialError;
use thiserror::Error;
use tokio::time::{Instant, timeout};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{self, CertificateError, ClientConfig},
};

use crate::transport::{Dialer, Transport, TransportError};

/// How long the handshakes with a hub may take.
const TIME: Duration = Duration::from_secs(10);
/// How long a hub that had to be reached in a WebSocket is tried so first.
const REMEMBERED: Duration = Duration::from_secs(600);

/// A connection to a hub.
pub(crate) type Connection = TlsStream<ReadAhead<Transport>>;

/// Finds the way to hubs. Clones share what they have found out.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    dialer: Dialer,
    /// The hubs that were last reached in a WebSocket, and when.
    wrapped: Arc<Mutex<BTreeMap<String, Instant>>>,
}

/// Why there is no connection.
#[derive(Debug, Error)]
pub(crate) enum ConnectError {
    #[error(transparent)]
    Transport(#[from] TransportError),
    #[error("failed to agree on TLS with {hub}")]
    Tls { hub: String, source: io::Error },
    #[error(
        "{hub} shows a certificate that the CA of the hub, as it was at the join, has not issued: \
         it is another hub, or was installed anew, and then a new join token is needed"
    )]
    Untrusted { hub: String, source: io::Error },
    #[error("{hub} did not finish the handshake within {} s", TIME.as_secs())]
    Silent { hub: String },
    #[error("failed to set up TLS")]
    Pki(#[from] PkiError),
    #[error("failed to get a WebSocket from {hub}")]
    WebSocket { hub: String, source: DialError },
    #[error("{hub} is reached neither directly ({direct}) nor in a WebSocket")]
    Neither {
        hub: String,
        direct: String,
        source: Box<Self>,
    },
}

// === impl Way ===

impl Way {
    /// By the proxies that the environment names.
    pub(crate) fn from_env() -> Self {
        Self::by(Dialer::from_env())
    }

    pub(crate) fn by(dialer: Dialer) -> Self {
        Self {
            dialer,
            wrapped: Arc::default(),
        }
    }

    /// Connects to `hub`, `host:port`, in whatever gets through.
    ///
    /// # Errors
    /// When the hub's port is not reached, or neither carrier is let through.
    pub(crate) async fn connect(
        &self,
        hub: &str,
        tls: &Arc<ClientConfig>,
    ) -> Result<(Connection, CarrierKind), ConnectError> {
        if self.prefers_websocket(hub)
            && let Ok(connection) = self.try_one(hub, tls, CarrierKind::WebSocket).await
        {
            return Ok((connection, CarrierKind::WebSocket));
        }
        let direct = match self.try_one(hub, tls, CarrierKind::Tls).await {
            Ok(connection) => {
                self.wrapped.lock().remove(hub);
                return Ok((connection, CarrierKind::Tls));
            }
            // A port that is not reached is not reached for a WebSocket either.
            Err(ConnectError::Transport(error)) => return Err(error.into()),
            Err(error) => error,
        };
        match self.try_one(hub, tls, CarrierKind::WebSocket).await {
            Ok(connection) => {
                self.wrapped.lock().insert(hub.to_owned(), Instant::now());
                Ok((connection, CarrierKind::WebSocket))
            }
            Err(error @ ConnectError::Untrusted { .. }) => Err(error),
            Err(error) => Err(ConnectError::Neither {
                hub: hub.to_owned(),
                direct: direct.to_string(),
                source: Box::new(error),
            }),
        }
    }

    /// Says that what was in the connection did not get through.
    pub(crate) fn failed(&self, hub: &str, carrier: CarrierKind) {
        let mut wrapped = self.wrapped.lock();
        match carrier {
            CarrierKind::Tls => drop(wrapped.insert(hub.to_owned(), Instant::now())),
            CarrierKind::WebSocket => drop(wrapped.remove(hub)),
        }
    }

    fn prefers_websocket(&self, hub: &str) -> bool {
        let wrapped = self.wrapped.lock();
        wrapped.get(hub).is_some_and(|at| at.elapsed() < REMEMBERED)
    }

    async fn try_one(
        &self,
        hub: &str,
        tls: &Arc<ClientConfig>,
        carrier: CarrierKind,
    ) -> Result<Connection, ConnectError> {
        let transport = self.dialer.dial(hub).await?;
        let shaking = async {
            let transport = match carrier {
                CarrierKind::Tls => transport,
                CarrierKind::WebSocket => wrap(hub, transport).await?,
            };
            shake_hands(hub, tls, transport).await
        };
        let silent = || ConnectError::Silent {
            hub: hub.to_owned(),
        };
        timeout(TIME, Box::pin(shaking))
            .await
            .unwrap_or_else(|_| Err(silent()))
    }
}

/// A WebSocket to the hub's port.
async fn wrap(hub: &str, transport: Transport) -> Result<Transport, ConnectError> {
    let outer = Arc::new(client_config(&ServerTrust::Anyone, None)?);
    let tls = shake_hands(hub, &outer, transport).await?;
    let dialed = strait_websocket::dial(tls, hub, SESSION_PATH, SESSION_PROTOCOL).await;
    let socket = dialed.map_err(|source| ConnectError::WebSocket {
        hub: hub.to_owned(),
        source,
    })?;
    Ok(Box::new(socket))
}

async fn shake_hands(
    hub: &str,
    tls: &Arc<ClientConfig>,
    transport: Transport,
) -> Result<Connection, ConnectError> {
    let name = server_name(hub).ok_or_else(|| TransportError::Address(hub.to_owned()))?;
    let handshake = TlsConnector::from(Arc::clone(tls))
        .connect(name, ReadAhead::new(transport))
        .await;
    handshake.map_err(|source| {
        let hub = hub.to_owned();
        if is_untrusted(&source) {
            ConnectError::Untrusted { hub, source }
        } else {
            ConnectError::Tls { hub, source }
        }
    })
}

/// Whether the peer's certificate chains to no CA that we know.
fn is_untrusted(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    matches!(
        inner,
        Some(rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature
        ))
    )
}

/// The name that the certificate of `host:port` must be for; `None` when it is no such address.
pub(crate) fn server_name(address: &str) -> Option<ServerName<'static>> {
    let (host, _port) = address.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(host.to_owned()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_certificate_must_be_for_the_hosts_name() {
        for (hub, name) in [
            ("hub.example.com:8443", "hub.example.com"),
            ("10.0.0.5:8443", "10.0.0.5"),
            ("[fd00::5]:8443", "fd00::5"),
        ] {
            assert_eq!(server_name(hub).unwrap().to_str(), name);
        }
        assert!(server_name("hub").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_websocket_is_preferred_for_a_while_after_it_was_needed() {
        let way = Way::by(Dialer::through(""));
        assert!(!way.prefers_websocket("hub:1"));
        way.failed("hub:1", CarrierKind::Tls);
        assert!(way.prefers_websocket("hub:1") && !way.prefers_websocket("hub:2"));
        way.failed("hub:1", CarrierKind::WebSocket);
        assert!(!way.prefers_websocket("hub:1"));
        way.failed("hub:1", CarrierKind::Tls);
        tokio::time::advance(REMEMBERED).await;
        assert!(!way.prefers_websocket("hub:1"));
    }
}
