//! A TLS connection to a hub.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use futures::{StreamExt, stream::FuturesUnordered};
use rustls_pki_types::ServerName;
use strait_runtime::ReadAhead;
use thiserror::Error;
use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{self, CertificateError, ClientConfig},
};

/// How long it may take to reach a hub, from the look-up of its name to the end of the handshake.
const TIME: Duration = Duration::from_secs(10);
/// How long the first address has before the next is tried beside it (RFC 8305, 8).
const HEAD_START: Duration = Duration::from_millis(250);

/// Why there is no connection.
#[derive(Debug, Error)]
pub(crate) enum ConnectError {
    #[error("`{0}` is not an address, `host:port`")]
    Address(String),
    #[error("failed to look up {hub}")]
    Resolve { hub: String, source: io::Error },
    #[error("{0} has no address")]
    NoAddress(String),
    #[error("failed to connect to {hub}")]
    Tcp { hub: String, source: io::Error },
    #[error("failed to agree on TLS with {hub}")]
    Tls { hub: String, source: io::Error },
    #[error(
        "{hub} shows a certificate that the CA of the hub, as it was at the join, has not issued: \
         it is another hub, or was installed anew, and then a new join token is needed"
    )]
    Untrusted { hub: String, source: io::Error },
    #[error("{hub} did not answer within {} s", TIME.as_secs())]
    Silent { hub: String },
}

/// Connects to `hub`, `host:port`. The name is looked up anew each time.
pub(crate) async fn connect(
    hub: &str,
    tls: Arc<ClientConfig>,
) -> Result<TlsStream<ReadAhead<TcpStream>>, ConnectError> {
    let connecting = async {
        let name = server_name(hub)?;
        let addresses = resolve(hub).await?;
        let failed = |source| ConnectError::Tcp {
            hub: hub.to_owned(),
            source,
        };
        let tcp = first_of(addresses).await.map_err(failed)?;
        tcp.set_nodelay(true).map_err(failed)?;
        let handshake = TlsConnector::from(tls)
            .connect(name, ReadAhead::new(tcp))
            .await;
        handshake.map_err(|source| {
            let hub = hub.to_owned();
            if is_untrusted(&source) {
                ConnectError::Untrusted { hub, source }
            } else {
                ConnectError::Tls { hub, source }
            }
        })
    };
    let silent = || ConnectError::Silent {
        hub: hub.to_owned(),
    };
    timeout(TIME, connecting)
        .await
        .unwrap_or_else(|_| Err(silent()))
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

fn server_name(hub: &str) -> Result<ServerName<'static>, ConnectError> {
    let wrong = || ConnectError::Address(hub.to_owned());
    let (host, _port) = hub.rsplit_once(':').ok_or_else(wrong)?;
    let host = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .to_owned();
    ServerName::try_from(host).map_err(|rustls_pki_types::InvalidDnsNameError { .. }| wrong())
}

async fn resolve(hub: &str) -> Result<Vec<SocketAddr>, ConnectError> {
    let failed = |source| ConnectError::Resolve {
        hub: hub.to_owned(),
        source,
    };
    let found: Vec<SocketAddr> = lookup_host(hub).await.map_err(failed)?.collect();
    if found.is_empty() {
        return Err(ConnectError::NoAddress(hub.to_owned()));
    }
    Ok(interleaved(&found))
}

/// One address of each family in turn, beginning with the family that came first.
fn interleaved(found: &[SocketAddr]) -> Vec<SocketAddr> {
    let first_is_v6 = found.first().is_some_and(SocketAddr::is_ipv6);
    let (mut a, mut b): (Vec<_>, Vec<_>) = found
        .iter()
        .copied()
        .partition(|address| address.is_ipv6() == first_is_v6);
    a.reverse();
    b.reverse();
    let mut order = Vec::with_capacity(found.len());
    while !a.is_empty() || !b.is_empty() {
        order.extend(a.pop());
        order.extend(b.pop());
    }
    order
}

/// The first connection that stands. The next address is tried when one fails, or when it has not
/// answered within its head start.
async fn first_of(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut waiting = addresses.into_iter();
    let mut tries = FuturesUnordered::new();
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    loop {
        if let Some(address) = waiting.next() {
            tries.push(TcpStream::connect(address));
        } else if tries.is_empty() {
            return Err(last);
        }
        let patience = if waiting.len() == 0 { TIME } else { HEAD_START };
        match timeout(patience, tries.next()).await {
            Ok(Some(Ok(tcp))) => return Ok(tcp),
            Ok(Some(Err(error))) => last = error,
            Ok(None) | Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn families_take_turns() {
        let found: Vec<SocketAddr> = ["[::1]:1", "[::2]:1", "1.1.1.1:1", "[::3]:1", "2.2.2.2:1"]
            .map(|a| a.parse().unwrap())
            .into();
        let order: Vec<String> = interleaved(&found)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            order,
            ["[::1]:1", "1.1.1.1:1", "[::2]:1", "2.2.2.2:1", "[::3]:1"]
        );
    }

    #[test]
    fn the_certificate_must_be_for_the_hosts_name() {
        for (hub, name) in [
            ("hub.example.com:8443", "hub.example.com"),
            ("10.0.0.5:8443", "10.0.0.5"),
            ("[fd00::5]:8443", "fd00::5"),
        ] {
            assert_eq!(server_name(hub).unwrap().to_str(), name);
        }
        assert!(server_name("hub").is_err());
    }

    #[tokio::test]
    async fn one_address_that_fails_does_not_hide_another() {
        let closed = TcpListener::bind("127.0.0.1:0")
            .await
            .unwrap()
            .local_addr()
            .unwrap();
        let open = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let open_address = open.local_addr().unwrap();
        let tcp = first_of(vec![closed, open_address]).await.unwrap();
        assert_eq!(tcp.peer_addr().unwrap(), open_address);
        let refused = first_of(vec![closed]).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        assert!(first_of(vec![]).await.is_err());
    }
}
