//! Streams through the hub, by CONNECT.

use std::{io, sync::Arc, time::Duration};

use anyhow::Context;
use bytes::Bytes;
use http::{
    HeaderValue, Method, Request, Response, StatusCode,
    header::{AUTHORIZATION, CONNECTION, HOST, PROXY_AUTHORIZATION},
};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{body::Incoming, client::conn::http1, upgrade::Upgraded};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use strait_pki::{Bundle, PkiError, ServerTrust, client_config};
use strait_runtime::Tasks;
use strait_types::{HubStatus, STATUS_PATH};
use thiserror::Error;
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;
use tower::BoxError;

use super::Credentials;
use crate::{cluster::Cluster, failure::Failure};

/// How long one address of the hub may take to be reached, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a hub may take to say how it is.
const STATUS_TIMEOUT: Duration = Duration::from_secs(3);
/// How long the hub may take to open a stream: an agent's dial takes up to 10 s, and it waits up
/// to 2 s for its table before that.
const OPEN_TIMEOUT: Duration = Duration::from_secs(20);
/// The longest body of a refusal that is passed on.
const MAX_REFUSAL: usize = 64 << 10;

/// Where the hub is, and who we are there.
#[derive(Debug)]
pub(crate) struct Hub {
    addresses: Vec<String>,
    trust: ServerTrust,
    credentials: Credentials,
}

/// Why the hub could not be asked.
#[derive(Debug, Error)]
pub(crate) enum HubError {
    #[error("no address of the hub is known")]
    NoAddress,
    #[error("failed to connect to the hub at {address}")]
    Connect { address: String, source: io::Error },
    #[error("the hub at {address} did not answer within {seconds} s")]
    Silent { address: String, seconds: u64 },
    #[error("the hub refused: {0}")]
    Refused(String),
    #[error("the hub's answer cannot be read")]
    Unreadable(#[source] serde_json::Error),
    #[error("`{0}` is not an address")]
    Address(String),
    #[error("failed to set up TLS")]
    Tls(#[source] PkiError),
    #[error("failed to get the credentials of the kubeconfig")]
    Credentials(#[source] BoxError),
    #[error("the hub closed the connection")]
    Closed(#[source] hyper::Error),
    #[error("the hub did not open the stream within {} s", OPEN_TIMEOUT.as_secs())]
    Slow,
}

/// What the hub answered.
#[derive(Debug)]
pub(crate) enum Opened {
    /// A stream to the service.
    Stream(Upgraded),
    /// Its refusal, as it is to be passed on.
    Refused(Response<Bytes>),
}

// === impl Hub ===

impl Hub {
    pub(crate) fn new(addresses: Vec<String>, bundle: &Bundle, credentials: Credentials) -> Self {
        let trust = ServerTrust::Roots(Arc::clone(bundle.roots()));
        Self {
            addresses,
            trust,
            credentials,
        }
    }

    /// The hub of a cluster, as it tells where it is, with the credentials of the kubeconfig.
    pub(crate) async fn of(cluster: &Cluster) -> Result<Self, Failure> {
        Self::at(cluster, vec![], None).await
    }

    /// The same; what is given here, addresses and the certificates to trust, need not be told.
    pub(crate) async fn at(
        cluster: &Cluster,
        mut addresses: Vec<String>,
        mut bundle: Option<String>,
    ) -> Result<Self, Failure> {
        if addresses.is_empty() || bundle.is_none() {
            let Some(info) = cluster.hub_info().await? else {
                return Err(
                    Failure::new("this cluster has no hub, or the hub is not ready yet").with_hint(
                        "`--context NAME` chooses another cluster, `--hub` and `--hub-ca` need none",
                    ),
                );
            };
            if addresses.is_empty() {
                addresses = info.addresses;
            }
            bundle = bundle.or(Some(info.ca_bundle));
        }
        let bundle = Bundle::from_pem(bundle.unwrap_or_default().as_bytes())
            .context("failed to read the certificates that the hub's must chain to")?;
        let credentials = Credentials::new(cluster.config().clone())
            .await
            .context("failed to get the credentials of the current context")?;
        Ok(Self::new(addresses, &bundle, credentials))
    }

    pub(crate) fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Whether one of the addresses answers with a certificate that is trusted.
    pub(crate) async fn answers(&self) -> Result<(), HubError> {
        self.connect().await.map(drop)
    }

    /// What each address says of how the hub behind it is, in their order.
    pub(crate) async fn statuses(&self) -> Vec<Result<HubStatus, HubError>> {
        let each = self.addresses.iter().map(|address| async move {
            timeout(STATUS_TIMEOUT, self.status(address))
                .await
                .unwrap_or_else(|_| {
                    Err(HubError::Silent {
                        address: address.clone(),
                        seconds: STATUS_TIMEOUT.as_secs(),
                    })
                })
        });
        futures::future::join_all(each).await
    }

    async fn status(&self, address: &str) -> Result<HubStatus, HubError> {
        let tls = dial(&self.connector().await?, address).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(tls))
            .await
            .map_err(HubError::Closed)?;
        let bearer = self.credentials.bearer().await;
        let request = status_request(address, bearer.map_err(HubError::Credentials)?);
        let asked = async {
            let response = sender.send_request(request).await?;
            let status = response.status();
            Ok((status, response.into_body().collect().await?.to_bytes()))
        };
        // Without an upgrade, the connection needs nobody after the answer.
        let (answer, _) = tokio::join!(asked, connection);
        let (status, body) = answer.map_err(HubError::Closed)?;
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(HubError::Unreadable);
        }
        let problem: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        let detail = problem["detail"].as_str();
        Err(HubError::Refused(
            detail.map_or_else(|| status.to_string(), str::to_owned),
        ))
    }

    /// Opens a stream to `authority`, `host:port`. Credentials that the hub refuses are got anew
    /// and tried once more.
    pub(crate) async fn open(&self, authority: &str, tasks: &Tasks) -> Result<Opened, HubError> {
        let opened = self.open_once(authority, tasks).await?;
        match opened {
            Opened::Refused(refusal) if unauthenticated(refusal.status()) => {
                let again = self.credentials.refused().await;
                match again.map_err(|e| HubError::Credentials(e.into()))? {
                    true => self.open_once(authority, tasks).await,
                    false => Ok(Opened::Refused(refusal)),
                }
            }
            opened => Ok(opened),
        }
    }

    /// A stream to `authority`; what the hub refuses becomes a failure with its words.
    pub(crate) async fn reach(&self, authority: &str, tasks: &Tasks) -> Result<Upgraded, Failure> {
        let doing = || format!("failed to reach `{authority}`");
        match self.open(authority, tasks).await.with_context(doing)? {
            Opened::Stream(stream) => Ok(stream),
            Opened::Refused(refusal) => Err(refused(&refusal, doing())),
        }
    }

    async fn open_once(&self, authority: &str, tasks: &Tasks) -> Result<Opened, HubError> {
        let tls = self.connect().await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(tls))
            .await
            .map_err(HubError::Closed)?;
        tasks.spawn_one(async move {
            // Its end, good or bad, shows in the answer or in the stream.
            let _ = connection.with_upgrades().await;
        });
        let bearer = self
            .credentials
            .bearer()
            .await
            .map_err(HubError::Credentials)?;
        let asked = async {
            let response = sender
                .send_request(connect_request(authority, bearer))
                .await;
            answer(response.map_err(HubError::Closed)?).await
        };
        timeout(OPEN_TIMEOUT, asked)
            .await
            .unwrap_or(Err(HubError::Slow))
    }

    async fn connector(&self) -> Result<TlsConnector, HubError> {
        let mut config = client_config(&self.trust, None).map_err(HubError::Tls)?;
        config.client_auth_cert_resolver = self
            .credentials
            .certificate()
            .await
            .map_err(|e| HubError::Credentials(e.into()))?;
        Ok(TlsConnector::from(Arc::new(config)))
    }

    /// A TLS connection to the first address that answers.
    async fn connect(&self) -> Result<tokio_rustls::client::TlsStream<TcpStream>, HubError> {
        let connector = self.connector().await?;
        let mut last = HubError::NoAddress;
        for address in &self.addresses {
            let connecting = timeout(CONNECT_TIMEOUT, dial(&connector, address));
            match connecting.await {
                Ok(Ok(tls)) => return Ok(tls),
                Ok(Err(error)) => last = error,
                Err(_) => {
                    last = HubError::Silent {
                        address: address.clone(),
                        seconds: CONNECT_TIMEOUT.as_secs(),
                    }
                }
            }
        }
        Err(last)
    }
}

async fn dial(
    connector: &TlsConnector,
    address: &str,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, HubError> {
    let wrong = || HubError::Address(address.to_owned());
    let (host, _) = address.rsplit_once(':').ok_or_else(wrong)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let name = ServerName::try_from(host.to_owned())
        .map_err(|rustls::pki_types::InvalidDnsNameError { .. }| wrong())?;
    let failed = |source| HubError::Connect {
        address: address.to_owned(),
        source,
    };
    let tcp = TcpStream::connect(address).await.map_err(failed)?;
    tcp.set_nodelay(true).map_err(failed)?;
    connector.connect(name, tcp).await.map_err(failed)
}

fn connect_request(authority: &str, bearer: Option<HeaderValue>) -> Request<Empty<Bytes>> {
    let mut request = Request::new(Empty::new());
    *request.method_mut() = Method::CONNECT;
    if let Ok(uri) = authority.parse() {
        *request.uri_mut() = uri;
    }
    if let Ok(host) = HeaderValue::from_str(authority) {
        request.headers_mut().insert(HOST, host);
    }
    if let Some(bearer) = bearer {
        request.headers_mut().insert(PROXY_AUTHORIZATION, bearer);
    }
    request
}

fn status_request(address: &str, bearer: Option<HeaderValue>) -> Request<Empty<Bytes>> {
    let mut request = Request::new(Empty::new());
    *request.uri_mut() = http::Uri::from_static(STATUS_PATH);
    let headers = request.headers_mut();
    if let Ok(host) = HeaderValue::from_str(address) {
        headers.insert(HOST, host);
    }
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    if let Some(bearer) = bearer {
        headers.insert(AUTHORIZATION, bearer);
    }
    request
}

async fn answer(response: Response<Incoming>) -> Result<Opened, HubError> {
    if response.status().is_success() {
        return hyper::upgrade::on(response)
            .await
            .map(Opened::Stream)
            .map_err(HubError::Closed);
    }
    let (head, body) = response.into_parts();
    // A body that does not come says less; the status and the headers are there already.
    let body = Limited::new(body, MAX_REFUSAL).collect().await;
    let body = body
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    Ok(Opened::Refused(Response::from_parts(head, body)))
}

/// The hub's problem document as a failure.
fn refused(refusal: &Response<Bytes>, doing: String) -> Failure {
    let problem: serde_json::Value = serde_json::from_slice(refusal.body()).unwrap_or_default();
    let text = |field: &str| problem[field].as_str().map(str::to_owned);
    let cause = text("detail").unwrap_or_else(|| refusal.status().to_string());
    let failure = Failure::from(anyhow::anyhow!("{cause}").context(doing));
    match text("hint") {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

fn unauthenticated(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::UNAUTHORIZED | StatusCode::PROXY_AUTHENTICATION_REQUIRED
    )
}
