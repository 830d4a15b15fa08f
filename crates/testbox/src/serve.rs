//! The server: every port at once, until it is asked to end.

use std::{convert::Infallible, net::Ipv6Addr, path::PathBuf, sync::Arc};

use anyhow::{Context, Result};
use clap::Args;
use hyper::service::service_fn;
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use rustls::{ServerConfig, pki_types::PrivatePkcs8KeyDer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    signal::unix::{SignalKind, signal},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;

use crate::{pages, ports, raw};

/// Who the server says it is, and the names of its certificate.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServeArgs {
    /// The service that it stands for
    #[arg(long, env = "SERVICE", default_value = "testbox")]
    service: String,
    /// Its namespace
    #[arg(long, env = "NAMESPACE", default_value = "default")]
    namespace: String,
    /// Its cluster
    #[arg(long, env = "CLUSTER", default_value = "nowhere")]
    cluster: String,
    /// Its pod
    #[arg(long, env = "POD", default_value = "none")]
    pod: String,
    /// A name of the certificate; may be given more than once
    #[arg(long = "name", env = "NAMES", value_delimiter = ',')]
    names: Vec<String>,
    /// File that the certificate is written to, as PEM
    #[arg(long)]
    write_certificate: Option<PathBuf>,
}

#[derive(Clone)]
struct Server {
    name: Arc<str>,
    tls: TlsAcceptor,
    connections: TaskTracker,
}

pub(crate) async fn run(args: ServeArgs) -> Result<()> {
    let (service, namespace) = (&args.service, &args.namespace);
    let name = format!(
        "{service} in namespace {namespace} of {}, pod {}",
        args.cluster, args.pod
    );
    let tls = TlsAcceptor::from(Arc::new(certificate(&args).await?));
    let server = Server {
        name: name.into(),
        tls,
        connections: TaskTracker::new(),
    };
    let all = [
        ports::HTTP,
        ports::HTTPS,
        ports::ECHO,
        ports::GREET,
        ports::SUM,
        ports::STUCK,
        ports::DRIP,
        ports::SOURCE,
    ];
    for port in all {
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
            .await
            .with_context(|| format!("failed to listen on port {port}"))?;
        server
            .connections
            .spawn(server.clone().listen(listener, port));
    }
    // The first process of a container ignores SIGTERM unless it asks for it.
    signal(SignalKind::terminate())
        .context("failed to listen for SIGTERM")?
        .recv()
        .await;
    Ok(())
}

async fn certificate(args: &ServeArgs) -> Result<ServerConfig> {
    let (service, namespace) = (&args.service, &args.namespace);
    let mut names = args.names.clone();
    names.push(format!("{service}.{namespace}.svc"));
    names.push(format!("{service}.{namespace}.{}", args.cluster));
    let made = rcgen::generate_simple_self_signed(names).context("failed to make a certificate")?;
    if let Some(path) = &args.write_certificate {
        tokio::fs::write(path, made.cert.pem())
            .await
            .context("failed to write the certificate")?;
    }
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()).into();
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

// === impl Server ===

impl Server {
    async fn listen(self, listener: TcpListener, port: u16) {
        loop {
            // Out of descriptors, mostly: the next connection may find some again.
            let Ok((tcp, _)) = listener.accept().await else {
                continue;
            };
            self.connections.spawn(self.clone().serve(tcp, port));
        }
    }

    async fn serve(self, tcp: TcpStream, port: u16) {
        match port {
            ports::HTTP => self.http(tcp).await,
            ports::HTTPS => {
                if let Ok(tls) = self.tls.accept(tcp).await {
                    self.http(tls).await;
                }
            }
            // A client that goes away is an error here and nothing to tell.
            port => drop(raw::serve(tcp, port, &self.name).await),
        }
    }

    async fn http(&self, io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        let answer = service_fn(|request| {
            let name = self.name.clone();
            async move { Ok::<_, Infallible>(pages::answer(request, name).await) }
        });
        let http = auto::Builder::new(TokioExecutor::new());
        let _ = http
            .serve_connection_with_upgrades(TokioIo::new(io), answer)
            .await;
    }
}
