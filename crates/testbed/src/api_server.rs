//! Small questions to a cluster that is starting.
//!
//! A `kubectl` that is started ten times a second would take the processors from what it waits for.

use std::{path::Path, sync::Arc, time::Duration};

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time,
};
use tokio_rustls::TlsConnector;

use crate::{error::Error, plan::ClusterPlan};

/// One question; a starting server may take a connection and never answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks the API server of one cluster, as its administrator.
pub(crate) struct ApiServer {
    tls: TlsConnector,
    plan: ClusterPlan,
}

impl ApiServer {
    /// Uses the certificates below `pki`.
    pub(crate) fn new(plan: &ClusterPlan, pki: &Path) -> Result<Self, Error> {
        let mut roots = RootCertStore::empty();
        roots
            .add(certificate(&pki.join("ca.crt"))?)
            .map_err(Error::Tls)?;
        let key_file = pki.join("kubelet-client.key");
        let key = PrivateKeyDer::from_pem_file(&key_file)
            .map_err(|error| unreadable(&key_file, error))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|config| {
                let config = config.with_root_certificates(roots);
                let chain = vec![certificate_chain(pki)];
                config.with_client_auth_cert(chain.into_iter().flatten().collect(), key)
            })
            .map_err(Error::Tls)?;
        Ok(Self {
            tls: TlsConnector::from(Arc::new(config)),
            plan: plan.clone(),
        })
    }

    /// The body of `path` when the answer is 200, else what came instead.
    pub(crate) async fn get(&self, path: &str) -> Result<String, String> {
        let asked = async {
            let socket = connect(&self.plan, 6443).await?;
            let name = ServerName::IpAddress(std::net::IpAddr::from(self.plan.address).into());
            let stream = self
                .tls
                .connect(name, socket)
                .await
                .map_err(|error| error.to_string())?;
            ask(stream, path).await
        };
        patient(asked).await
    }
}

/// The same without TLS, on another port of the node.
pub(crate) async fn get_plain(plan: &ClusterPlan, port: u16, path: &str) -> Result<String, String> {
    patient(async { ask(connect(plan, port).await?, path).await }).await
}

async fn patient(asked: impl Future<Output = Result<String, String>>) -> Result<String, String> {
    match time::timeout(PATIENCE, asked).await {
        Ok(answer) => answer,
        Err(time::error::Elapsed { .. }) => Err("no answer".to_owned()),
    }
}

async fn connect(plan: &ClusterPlan, port: u16) -> Result<TcpStream, String> {
    TcpStream::connect((plan.address, port))
        .await
        .map_err(|error| error.to_string())
}

/// HTTP/1.0, so that the answer ends with the connection and comes in one piece.
async fn ask(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    path: &str,
) -> Result<String, String> {
    let request =
        format!("GET {path} HTTP/1.0\r\nHost: cluster\r\nAccept: application/json\r\n\r\n");
    let mut answer = Vec::new();
    let exchange = async {
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await?;
        stream.read_to_end(&mut answer).await
    };
    exchange.await.map_err(|error| error.to_string())?;
    body_of_ok(&String::from_utf8_lossy(&answer))
}

fn body_of_ok(answer: &str) -> Result<String, String> {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let status = head.lines().next().unwrap_or_default();
    match status.split(' ').nth(1) {
        Some("200") => Ok(body.to_owned()),
        _ => Err(format!(
            "{status} {}",
            body.lines().last().unwrap_or_default()
        )),
    }
}

fn certificate_chain(pki: &Path) -> Option<CertificateDer<'static>> {
    certificate(&pki.join("kubelet-client.crt")).ok()
}

fn certificate(path: &Path) -> Result<CertificateDer<'static>, Error> {
    CertificateDer::from_pem_file(path).map_err(|error| unreadable(path, error))
}

fn unreadable(path: &Path, error: rustls_pki_types::pem::Error) -> Error {
    Error::file("read", path)(std::io::Error::other(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_200_is_an_answer() {
        assert_eq!(
            body_of_ok("HTTP/1.0 200 OK\r\nA: b\r\n\r\nok"),
            Ok("ok".to_owned())
        );
        let not_yet = "HTTP/1.0 500 Internal Server Error\r\n\r\n[+]ping ok\nreadyz check failed";
        assert_eq!(
            body_of_ok(not_yet),
            Err("HTTP/1.0 500 Internal Server Error readyz check failed".to_owned())
        );
        assert!(body_of_ok("").is_err());
    }
}
