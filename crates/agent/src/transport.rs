//! A connection that reaches a hub's port: by TCP, through an HTTP proxy where there is one.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{StreamExt, stream::FuturesUnordered};
use http::{
    HeaderValue, Method, Request, StatusCode, Uri,
    header::{HOST, PROXY_AUTHORIZATION},
};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::{
    client::proxy::matcher::{Intercept, Matcher},
    rt::TokioIo,
};
use strait_pki::{ServerTrust, client_config};
use strait_tunnel::Carrier;
use thiserror::Error;
use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};
use tokio_rustls::TlsConnector;

use crate::connect::server_name;

/// How long it may take to reach a hub's port, from the look-up of its name.
const TIME: Duration = Duration::from_secs(10);
/// How long the first address has before the next is tried beside it (RFC 8305, 8).
const HEAD_START: Duration = Duration::from_millis(250);

/// Any connection.
pub(crate) type Transport = Box<dyn Carrier>;

/// Reaches ports, through the proxy that the environment names for them.
#[derive(Clone, Debug)]
pub(crate) struct Dialer(Arc<Matcher>);

/// Why a port is not reached.
#[derive(Debug, Error)]
pub(crate) enum TransportError {
    #[error("`{0}` is not an address, `host:port`")]
    Address(String),
    #[error("failed to look up {to}")]
    Resolve { to: String, source: io::Error },
    #[error("{0} has no address")]
    NoAddress(String),
    #[error("failed to connect to {to}")]
    Tcp { to: String, source: io::Error },
    #[error("{to} did not answer within {} s", TIME.as_secs())]
    Silent { to: String },
    #[error("the proxy `{0}` is none for HTTP: it must be http://HOST:PORT or https://HOST:PORT")]
    Scheme(String),
    #[error("failed to speak TLS with the proxy {proxy}")]
    ProxyTls {
        proxy: String,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("the proxy {proxy} did not answer in HTTP")]
    Proxy { proxy: String, source: hyper::Error },
    #[error("the proxy {proxy} answered {status} to CONNECT {to}{hint}")]
    ProxyRefused {
        proxy: String,
        status: StatusCode,
        to: String,
        hint: &'static str,
    },
}

// === impl Dialer ===

impl Dialer {
    /// With the proxies of `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`, in either case of letters.
    pub(crate) fn from_env() -> Self {
        Self(Arc::new(Matcher::from_env()))
    }

    /// With this proxy, or with none.
    #[cfg(test)]
    pub(crate) fn through(proxy: &str) -> Self {
        Self(Arc::new(Matcher::builder().all(proxy).build()))
    }

    /// Connects to `to`, `host:port`. Names are looked up anew each time, behind a proxy by it.
    pub(crate) async fn dial(&self, to: &str) -> Result<Transport, TransportError> {
        let uri: Uri = format!("https://{to}/")
            .parse()
            .map_err(|_invalid: http::uri::InvalidUri| TransportError::Address(to.to_owned()))?;
        match self.0.intercept(&uri) {
            None => Ok(Box::new(tcp(to).await?)),
            Some(proxy) => through(&proxy, to).await,
        }
    }
}

/// A connection to `to` by CONNECT.
async fn through(proxy: &Intercept, to: &str) -> Result<Transport, TransportError> {
    let uri = proxy.uri();
    let scheme = uri.scheme_str().unwrap_or_default();
    // Not the URI itself, which may hold a password.
    let shown = || format!("{scheme}://{}", uri.host().unwrap_or_default());
    let host = uri.host().ok_or_else(|| TransportError::Scheme(shown()))?;
    let default_port = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return Err(TransportError::Scheme(shown())),
    };
    let address = format!("{host}:{}", uri.port_u16().unwrap_or(default_port));
    let connecting = async {
        let tcp = tcp(&address).await?;
        let io: Transport = match scheme {
            "https" => Box::new(tls_to_proxy(tcp, &address).await?),
            _ => Box::new(tcp),
        };
        connect(io, &address, to, proxy.basic_auth()).await
    };
    let silent = || TransportError::Silent {
        to: format!("the proxy {address}"),
    };
    timeout(TIME, connecting)
        .await
        .unwrap_or_else(|_| Err(silent()))
}

/// TLS to a proxy, whose certificate is not looked at: it sees nothing but TLS to the hub, which
/// proves itself.
async fn tls_to_proxy(tcp: TcpStream, proxy: &str) -> Result<impl Carrier, TransportError> {
    let failed = |source: Box<dyn std::error::Error + Send + Sync>| TransportError::ProxyTls {
        proxy: proxy.to_owned(),
        source,
    };
    let config = client_config(&ServerTrust::Anyone, None).map_err(|e| failed(e.into()))?;
    let name = server_name(proxy).ok_or_else(|| TransportError::Address(proxy.to_owned()))?;
    let connecting = TlsConnector::from(Arc::new(config)).connect(name, tcp);
    connecting.await.map_err(|e| failed(e.into()))
}

async fn connect(
    io: Transport,
    proxy: &str,
    to: &str,
    credentials: Option<&HeaderValue>,
) -> Result<Transport, TransportError> {
    let failed = |source| TransportError::Proxy {
        proxy: proxy.to_owned(),
        source,
    };
    let (mut sender, connection) = http1::handshake(TokioIo::new(io)).await.map_err(failed)?;
    let mut connection = connection.with_upgrades();
    let request = connect_request(to, credentials)?;
    let asked = async {
        let response = sender.send_request(request).await.map_err(failed)?;
        let status = response.status();
        if !status.is_success() {
            let hint = match status {
                StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                    "; its user and password belong into HTTPS_PROXY"
                }
                _ => "",
            };
            return Err(TransportError::ProxyRefused {
                proxy: proxy.to_owned(),
                status,
                to: to.to_owned(),
                hint,
            });
        }
        hyper::upgrade::on(response).await.map_err(failed)
    };
    tokio::pin!(asked);
    // The connection moves the bytes of the answer; it ends by handing itself over.
    let upgraded = tokio::select! {
        upgraded = &mut asked => upgraded?,
        ended = &mut connection => {
            ended.map_err(failed)?;
            asked.await?
        }
    };
    Ok(Box::new(TokioIo::new(upgraded)))
}

fn connect_request(
    to: &str,
    credentials: Option<&HeaderValue>,
) -> Result<Request<Empty<Bytes>>, TransportError> {
    let wrong = || TransportError::Address(to.to_owned());
    let mut request = Request::new(Empty::new());
    *request.method_mut() = Method::CONNECT;
    *request.uri_mut() = to
        .parse()
        .map_err(|_invalid: http::uri::InvalidUri| wrong())?;
    let host = HeaderValue::from_str(to);
    let host = host.map_err(|_invalid: http::header::InvalidHeaderValue| wrong())?;
    request.headers_mut().insert(HOST, host);
    if let Some(credentials) = credentials {
        let mut credentials = credentials.clone();
        credentials.set_sensitive(true);
        request
            .headers_mut()
            .insert(PROXY_AUTHORIZATION, credentials);
    }
    Ok(request)
}

/// A TCP connection without a proxy.
async fn tcp(to: &str) -> Result<TcpStream, TransportError> {
    let failed = |source| TransportError::Tcp {
        to: to.to_owned(),
        source,
    };
    let connecting = async {
        let addresses = resolve(to).await?;
        let tcp = first_of(addresses).await.map_err(failed)?;
        tcp.set_nodelay(true).map_err(failed)?;
        Ok(tcp)
    };
    let silent = || TransportError::Silent { to: to.to_owned() };
    timeout(TIME, connecting)
        .await
        .unwrap_or_else(|_| Err(silent()))
}

async fn resolve(to: &str) -> Result<Vec<SocketAddr>, TransportError> {
    let failed = |source| TransportError::Resolve {
        to: to.to_owned(),
        source,
    };
    let found: Vec<SocketAddr> = lookup_host(to).await.map_err(failed)?.collect();
    if found.is_empty() {
        return Err(TransportError::NoAddress(to.to_owned()));
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

    #[tokio::test]
    async fn what_is_no_http_proxy_is_told_without_its_password() {
        let dialer = Dialer::through("socks5://user:hunter2@127.0.0.1:1080");
        let error = dialer.dial("hub.example.com:8443").await.err().unwrap();
        let told = format!("{error} {error:?}");
        assert!(
            told.contains("socks5://127.0.0.1") && !told.contains("hunter2"),
            "{told}"
        );
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
