//! The client: through an HTTP CONNECT proxy, in clear or over TLS.

use std::{path::PathBuf, sync::Arc};

use anyhow::{Context, Result, bail};
use clap::Args;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, stdout},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use crate::digest;

/// Longest head of a proxy's answer that is read.
const MAX_HEAD: usize = 64 * 1024;

/// Where to, through what, and what to do there
#[derive(Clone, Debug, Args)]
pub(crate) struct ConnectArgs {
    /// The proxy, `http://host:port` or `https://host:port`
    proxy: String,
    /// The target, `host:port`
    target: String,
    /// PEM certificates that the proxy's chains to
    #[arg(long)]
    ca: Option<PathBuf>,
    /// File with the bearer token for the proxy
    #[arg(long)]
    token_file: Option<PathBuf>,
    /// Ask for this page and print it
    #[arg(long)]
    get: Option<String>,
    /// Send so many bytes, half-close, and print what comes back
    #[arg(long)]
    send: Option<u64>,
    /// Ask the source port for so many bytes, and print count and digest of what came
    #[arg(long)]
    receive: Option<u64>,
}

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

pub(crate) async fn run(args: ConnectArgs) -> Result<()> {
    let mut io = dial(&args).await?;
    handshake(&mut *io, &args).await?;
    if let Some(path) = &args.get {
        let host = args
            .target
            .rsplit_once(':')
            .map_or(args.target.as_str(), |(host, _)| host);
        let head = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        io.write_all(head.as_bytes()).await?;
        io.flush().await?;
    }
    if let Some(count) = args.send {
        let sent = digest::send(&mut io, count).await?;
        io.shutdown().await?;
        stdout()
            .write_all(format!("sent {count} {sent}\n").as_bytes())
            .await?;
    }
    if let Some(count) = args.receive {
        io.write_all(format!("{count}\n").as_bytes()).await?;
        io.flush().await?;
        let (count, hash) = digest::sum(&mut io).await?;
        stdout()
            .write_all(format!("received {count} {hash}\n").as_bytes())
            .await?;
    } else {
        copy(&mut io, &mut stdout()).await?;
    }
    stdout().flush().await.context("failed to write")
}

async fn dial(args: &ConnectArgs) -> Result<Box<dyn Io>> {
    let (scheme, address) = args
        .proxy
        .split_once("://")
        .context("the proxy has no scheme")?;
    let tcp = TcpStream::connect(address)
        .await
        .with_context(|| format!("failed to reach the proxy at {address}"))?;
    tcp.set_nodelay(true)?;
    if scheme == "http" {
        return Ok(Box::new(tcp));
    }
    let mut roots = RootCertStore::empty();
    let path = args.ca.as_ref().context("a proxy over TLS needs --ca")?;
    for certificate in CertificateDer::pem_file_iter(path)? {
        roots.add(certificate?)?;
    }
    let config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let name = ServerName::try_from(host.to_owned())?;
    let tls = TlsConnector::from(Arc::new(config))
        .connect(name, tcp)
        .await;
    Ok(Box::new(tls.context("failed to speak TLS with the proxy")?))
}

async fn handshake(io: &mut dyn Io, args: &ConnectArgs) -> Result<()> {
    let target = &args.target;
    let mut head = format!("CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n");
    if let Some(path) = &args.token_file {
        let token = tokio::fs::read_to_string(path)
            .await
            .context("failed to read the token")?;
        head.push_str(&format!("proxy-authorization: Bearer {}\r\n", token.trim()));
    }
    head.push_str("\r\n");
    io.write_all(head.as_bytes()).await?;
    io.flush().await?;
    let mut answer = vec![];
    // Byte by byte: what follows the head belongs to the target.
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() >= MAX_HEAD {
            bail!("the proxy's answer has no end");
        }
        answer.push(
            io.read_u8()
                .await
                .context("the proxy closed the connection")?,
        );
    }
    let answer = String::from_utf8_lossy(&answer).into_owned();
    if answer.split(' ').nth(1) == Some("200") {
        return Ok(());
    }
    let mut body = String::new();
    let _ = io.take(MAX_HEAD as u64).read_to_string(&mut body).await;
    bail!(
        "the proxy refused: {}\n{body}",
        answer.lines().next().unwrap_or_default()
    )
}
