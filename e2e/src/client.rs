//! A caller of the hub: CONNECT and HTTPS by host, as any client speaks them.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// How long one exchange may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longest head of an answer.
const MAX_HEAD: usize = 64 * 1024;

/// A connection to the hub, or through it.
pub type Through = TlsStream<TcpStream>;

/// What a caller shows to the hub.
#[derive(Clone, Debug)]
pub enum Credential {
    /// Nothing.
    None,
    /// A bearer token.
    Bearer(String),
    /// A PEM certificate chain and its key.
    Certificate(String, String),
}

/// Somebody who speaks to the hub.
#[derive(Clone, Debug)]
pub struct Caller {
    /// `address:port` of the hub.
    pub hub: String,
    /// PEM certificates that the hub's chains to.
    pub ca: String,
    /// What is shown.
    pub credential: Credential,
}

/// An answer of the hub or of a service.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The fields.
    pub headers: HeaderMap,
    /// The body, as text.
    pub body: String,
}

/// A CONNECT that was refused.
#[derive(Clone, Debug)]
pub struct Refused(pub Answer);

// === impl Caller ===

impl Caller {
    /// Asks for `host:port` by CONNECT.
    ///
    /// # Errors
    /// When the hub does not answer as HTTP. A refusal is no error: it is the inner one.
    pub async fn connect(&self, target: &str) -> Result<Result<Through, Refused>> {
        let mut tls = self.tls(&self.host()).await?;
        let mut head = format!("CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n");
        if let Credential::Bearer(token) = &self.credential {
            head.push_str(&format!("proxy-authorization: Bearer {token}\r\n"));
        }
        head.push_str("\r\n");
        tls.write_all(head.as_bytes()).await?;
        tls.flush().await?;
        let exchange = async {
            let answer = read_head(&mut tls).await?;
            if answer.status == 200 {
                return Ok(Ok(tls));
            }
            let body = read_body(&mut tls, &answer.headers).await?;
            Ok(Err(Refused(Answer { body, ..answer })))
        };
        tokio::time::timeout(PATIENCE, exchange)
            .await
            .context("the hub did not answer CONNECT")?
    }

    /// The same, when nothing but success is expected.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn reach(&self, target: &str) -> Result<Through> {
        match self.connect(target).await? {
            Ok(through) => Ok(through),
            Err(Refused(answer)) => {
                bail!("{target} was refused: {} {}", answer.status, answer.body)
            }
        }
    }

    /// The same, when a refusal is expected; returns its code.
    ///
    /// # Errors
    /// When it is granted, or the refusal has not the form that every refusal has.
    pub async fn refused(&self, target: &str) -> Result<(u16, String, Answer)> {
        let Err(Refused(answer)) = self.connect(target).await? else {
            bail!("{target} was granted");
        };
        let code = answer.code()?;
        Ok((answer.status, code, answer))
    }

    /// GET of a page of a service, through CONNECT.
    ///
    /// # Errors
    /// When it is refused or the service does not answer.
    pub async fn get(&self, target: &str, path: &str) -> Result<Answer> {
        let through = self.reach(target).await?;
        let host = target.rsplit_once(':').map_or(target, |(host, _)| host);
        exchange(
            through,
            Request::get(path).header("host", host),
            String::new(),
        )
        .await
    }

    /// GET by host: TLS to the hub under the name `host`, and that name as Host.
    ///
    /// # Errors
    /// When TLS fails, or nothing answers.
    pub async fn get_by_host(&self, host: &str, path: &str) -> Result<Answer> {
        let tls = self.tls(host).await?;
        let mut request = Request::get(path).header("host", host);
        if let Credential::Bearer(token) = &self.credential {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        exchange(tls, request, String::new()).await
    }

    /// POST of JSON to the hub itself.
    ///
    /// # Errors
    /// When TLS fails, or nothing answers.
    pub async fn post(&self, path: &str, json: String) -> Result<Answer> {
        let host = self.host();
        let tls = self.tls(&host).await?;
        let request = Request::post(path).header("host", host);
        exchange(
            tls,
            request.header("content-type", "application/json"),
            json,
        )
        .await
    }

    /// TLS with the hub under a server name.
    ///
    /// # Errors
    /// When the hub cannot be reached or its certificate is not for that name.
    pub async fn tls(&self, name: &str) -> Result<Through> {
        let tcp = TcpStream::connect(&self.hub)
            .await
            .context("failed to reach the hub")?;
        tcp.set_nodelay(true)?;
        let name = ServerName::try_from(name.to_owned())?;
        let connector = TlsConnector::from(Arc::new(self.config()?));
        let tls = tokio::time::timeout(PATIENCE, connector.connect(name, tcp)).await?;
        tls.context("failed to speak TLS with the hub")
    }

    fn host(&self) -> String {
        self.hub
            .rsplit_once(':')
            .map_or(self.hub.as_str(), |(host, _)| host)
            .to_owned()
    }

    fn config(&self) -> Result<ClientConfig> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(self.ca.as_bytes()) {
            roots.add(certificate?)?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let Credential::Certificate(chain, key) = &self.credential else {
            return Ok(builder.with_no_client_auth());
        };
        let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).collect::<Result<_, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes())?;
        Ok(builder.with_client_auth_cert(chain, key)?)
    }
}

// === impl Answer ===

impl Answer {
    /// The stable code of a refusal, which header and body must agree on.
    ///
    /// # Errors
    /// When they do not, or there is none.
    pub fn code(&self) -> Result<String> {
        let header = self
            .headers
            .get("strait-code")
            .context("no strait-code in the answer")?;
        let header = header.to_str()?.to_owned();
        let problem = self.problem()?;
        ensure!(
            problem["code"] == header.as_str(),
            "header {header}, body {}",
            self.body
        );
        Ok(header)
    }

    /// The problem document of a refusal.
    ///
    /// # Errors
    /// When the body is none.
    pub fn problem(&self) -> Result<serde_json::Value> {
        serde_json::from_str(&self.body)
            .with_context(|| format!("no problem document: {}", self.body))
    }
}

/// One request and its answer.
///
/// # Errors
/// When the connection breaks or nothing comes in time.
pub(crate) async fn exchange(
    through: Through,
    request: http::request::Builder,
    body: String,
) -> Result<Answer> {
    let exchange = async {
        let (mut sender, connection) = http1::handshake(TokioIo::new(through)).await?;
        let request = request
            .header("connection", "close")
            .body(Full::<Bytes>::from(body))?;
        let talk = async {
            let response = sender.send_request(request).await?;
            let (head, body) = response.into_parts();
            let body = body.collect().await?.to_bytes();
            anyhow::Ok((head, body))
        };
        tokio::pin!(connection);
        tokio::pin!(talk);
        let (head, body) = tokio::select! {
            done = &mut talk => done?,
            ended = &mut connection => {
                ended?;
                talk.await?
            }
        };
        Ok(Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            body: String::from_utf8_lossy(&body).into_owned(),
        })
    };
    tokio::time::timeout(PATIENCE, exchange)
        .await
        .context("nothing answered")?
}

async fn read_head(tls: &mut Through) -> Result<Answer> {
    let mut head = vec![];
    while !head.ends_with(b"\r\n\r\n") {
        ensure!(head.len() < MAX_HEAD, "the head of the answer has no end");
        head.push(
            tls.read_u8()
                .await
                .context("the hub closed the connection")?,
        );
    }
    let head = String::from_utf8(head)?;
    let mut lines = head.lines();
    let status = lines
        .next()
        .and_then(|line| line.split(' ').nth(1))
        .context("no status")?;
    let status = status.parse::<StatusCode>()?.as_u16();
    let mut headers = HeaderMap::new();
    for line in lines.filter(|line| !line.is_empty()) {
        let (key, value) = line.split_once(':').context("no header field")?;
        headers.append(key.parse::<http::HeaderName>()?, value.trim().parse()?);
    }
    Ok(Answer {
        status,
        headers,
        body: String::new(),
    })
}

async fn read_body(tls: &mut Through, headers: &HeaderMap) -> Result<String> {
    let length = headers
        .get("content-length")
        .context("a refusal says how long it is")?;
    let mut body = vec![0; length.to_str()?.parse()?];
    tls.read_exact(&mut body).await?;
    Ok(String::from_utf8(body)?)
}
