//! How the hub speaks to a service for callers who come by HTTP.

use std::{sync::Arc, time::Duration};

use moka::sync::Cache;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::ServerName;
use strait_api::{Protocol, UpstreamTls};
use strait_pki::{Bundle, ServerTrust, client_config};
use strait_types::{AcceptDetail, Refusal, RefusalCode};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

use crate::snapshot::Destination;

/// How many services' TLS configurations are kept. One takes some KiB with its authorities.
const MAX_CONFIGS: u64 = 1000;

/// Ports that speak TLS when nobody says anything else.
const TLS_PORTS: [u16; 3] = [443, 6443, 8443];

/// A way to a service, with TLS or without.
pub(crate) trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// Makes TLS connections to services.
#[derive(Debug)]
pub(crate) struct Upstream {
    native_roots: Arc<RootCertStore>,
    timeout: Duration,
    configs: Cache<UpstreamKey, Arc<ClientConfig>>,
}

/// What a TLS configuration depends on: the authorities' PEM, or none, and whether they count.
type UpstreamKey = (Option<String>, bool);

// === impl Upstream ===

impl Upstream {
    pub(crate) fn new(native_roots: Arc<RootCertStore>, timeout: Duration) -> Self {
        let configs = Cache::builder().max_capacity(MAX_CONFIGS).build();
        Self {
            native_roots,
            timeout,
            configs,
        }
    }

    /// Puts TLS on a stream to a service.
    ///
    /// Refuses with `tls-failed` when the service's certificate is not as the entrypoint says, or
    /// the service does not speak TLS.
    pub(crate) async fn encrypt<S>(
        &self,
        stream: S,
        destination: &Destination,
    ) -> Result<Box<dyn Transport>, Refusal>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let tls = destination.tls.clone().unwrap_or_default();
        let name = tls.server_name.clone().unwrap_or_else(|| {
            let service = &destination.service;
            format!("{}.{}.svc", service.service(), service.namespace())
        });
        let Ok(server) = ServerName::try_from(name.clone()) else {
            return Err(
                failed(destination, format!("`{name}` is not a server name"))
                    .with_hint(field_hint(destination, "spec.tls.serverName", "a DNS name")),
            );
        };
        let connector = TlsConnector::from(self.config(&tls, destination)?);
        let handshake = Box::pin(connector.connect(server, stream));
        match tokio::time::timeout(self.timeout, handshake).await {
            Ok(Ok(encrypted)) => Ok(Box::new(encrypted)),
            Ok(Err(error)) => Err(explain(destination, &name, &error)),
            Err(tokio::time::error::Elapsed { .. }) => Err(failed(
                destination,
                "the service did not finish its TLS handshake in time",
            )),
        }
    }

    fn config(
        &self,
        tls: &UpstreamTls,
        destination: &Destination,
    ) -> Result<Arc<ClientConfig>, Refusal> {
        let key = (tls.ca_bundle.clone(), tls.insecure_skip_verify);
        if let Some(known) = self.configs.get(&key) {
            return Ok(known);
        }
        let trust = match (&tls.ca_bundle, tls.insecure_skip_verify) {
            (_, true) => ServerTrust::Anyone,
            (None, false) => ServerTrust::Roots(Arc::clone(&self.native_roots)),
            (Some(pem), false) => match Bundle::from_pem(pem.as_bytes()) {
                Ok(bundle) => ServerTrust::Roots(Arc::clone(bundle.roots())),
                Err(error) => {
                    return Err(
                        failed(destination, format!("the authorities to trust: {error}"))
                            .with_hint(field_hint(
                                destination,
                                "spec.tls.caBundle",
                                "PEM certificates",
                            )),
                    );
                }
            },
        };
        let config = client_config(&trust, None)
            .map_err(|error| failed(destination, format!("TLS cannot be set up: {error}")))?;
        let config = Arc::new(config);
        self.configs.insert(key, Arc::clone(&config));
        Ok(config)
    }
}

/// Whether the hub speaks TLS to a service: as the entrypoint says, else as the port's number,
/// name and `appProtocol` say.
pub(crate) fn speaks_tls(destination: &Destination, detail: &AcceptDetail) -> bool {
    match destination.protocol {
        _ if destination.tls.is_some() => true,
        Some(Protocol::Https) => true,
        Some(Protocol::Http | Protocol::Tcp) => false,
        None => {
            let named = |text: &str| {
                let text = text.to_ascii_lowercase();
                text == "https" || text.starts_with("https-") || text.ends_with("/wss")
            };
            TLS_PORTS.contains(&detail.port) || named(&detail.name) || named(&detail.app_protocol)
        }
    }
}

fn explain(destination: &Destination, name: &str, error: &std::io::Error) -> Refusal {
    use rustls::CertificateError as Wrong;
    let inner = error
        .get_ref()
        .and_then(|e| e.downcast_ref::<rustls::Error>());
    let Some(rustls::Error::InvalidCertificate(wrong)) = inner else {
        return failed(destination, format!("the TLS handshake failed: {error}")).with_hint(
            field_hint(
                destination,
                "spec.protocol",
                "`http` if the service speaks that",
            ),
        );
    };
    match wrong {
        Wrong::NotValidForName | Wrong::NotValidForNameContext { .. } => failed(
            destination,
            format!("the service's certificate is not for `{name}`"),
        )
        .with_hint(field_hint(
            destination,
            "spec.tls.serverName",
            "the name in the certificate",
        )),
        Wrong::UnknownIssuer => failed(
            destination,
            "the service's certificate is of an unknown authority",
        )
        .with_hint(field_hint(
            destination,
            "spec.tls.caBundle",
            "the PEM certificate of that authority",
        )),
        other => failed(
            destination,
            format!("the service's certificate is not good: {other}"),
        ),
    }
}

fn failed(destination: &Destination, why: impl std::fmt::Display) -> Refusal {
    Refusal::new(
        RefusalCode::TlsFailed,
        format!("no TLS connection to `{}`: {why}", destination.service),
    )
}

fn field_hint(destination: &Destination, field: &str, value: &str) -> String {
    format!(
        "set {field} of ClusterProxyEntrypoint {}/{} to {value}",
        destination.service.cluster(),
        destination.object
    )
}
