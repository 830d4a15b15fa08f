//! A tunnel and nothing else: what the session costs, measured beside a plain relay.
//!
//! `tunnel server FRONT AGENTS CERTS` takes one agent at AGENTS and carries every TLS connection to
//! FRONT over its session; `tunnel agent SERVER TARGET CERTS` is that agent and connects to TARGET.
//! CERTS is a folder with `ca.crt`, `tls.crt` and `tls.key`, for both sides of both hops.

use std::{env::args, path::Path, sync::Arc, time::Duration};

use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    server::WebPkiClientVerifier,
};
use strait_tunnel::{Config, Open, Session, Side, splice, splice_tcp};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    let args: Vec<String> = args().skip(1).collect();
    match args
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["server", front, agents, certs] => server(front, agents, Path::new(certs)).await,
        ["agent", server, target, certs] => agent(server, target, Path::new(certs)).await,
        _ => Err("server FRONT AGENTS CERTS | agent SERVER TARGET CERTS".into()),
    }
}

#[expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "an example: one process, and a person who watches it"
)]
async fn server(front: &str, agents: &str, certs: &Path) -> Outcome<()> {
    let acceptor = TlsAcceptor::from(Arc::new(server_config(certs)?));
    let (front, agents) = (
        TcpListener::bind(front).await?,
        TcpListener::bind(agents).await?,
    );
    let (tcp, _) = agents.accept().await?;
    tcp.set_nodelay(true)?;
    let carrier = acceptor.accept(tcp).await?;
    let (session, _, driver) =
        Session::establish(carrier, Side::Acceptor, Config::default()).await?;
    tokio::spawn(driver.run());
    loop {
        let (tcp, _) = front.accept().await?;
        let (acceptor, session) = (acceptor.clone(), session.clone());
        tokio::spawn(async move {
            tcp.set_nodelay(true)?;
            let caller = acceptor.accept(tcp).await?;
            let open = Open {
                target: "tcp:bench.default:*".to_owned(),
                ..Open::default()
            };
            match session.open(open).await {
                Ok((stream, _)) => drop(splice(stream, caller).await),
                Err(error) => eprintln!("error: {error}"),
            }
            Outcome::Ok(())
        });
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "an example ends with its process"
)]
async fn agent(server: &str, target: &str, certs: &Path) -> Outcome<()> {
    let tcp = loop {
        match TcpStream::connect(server).await {
            Ok(tcp) => break tcp,
            // The two are started together, in any order.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    tcp.set_nodelay(true)?;
    let connector = TlsConnector::from(Arc::new(client_config(certs)?));
    let carrier = connector
        .connect(ServerName::try_from("localhost")?, tcp)
        .await?;
    let (_session, mut incoming, driver) =
        Session::establish(carrier, Side::Dialer, Config::default()).await?;
    tokio::spawn(driver.run());
    while let Some(request) = incoming.next().await {
        let target = target.to_owned();
        tokio::spawn(async move {
            let tcp = TcpStream::connect(target).await?;
            tcp.set_nodelay(true)?;
            let stream = request.accept("")?;
            splice_tcp(stream, tcp).await;
            Outcome::Ok(())
        });
    }
    Ok(())
}

fn server_config(certs: &Path) -> Outcome<ServerConfig> {
    let (chain, key, roots) = read(certs)?;
    let callers = WebPkiClientVerifier::builder(Arc::new(roots)).build()?;
    Ok(ServerConfig::builder()
        .with_client_cert_verifier(callers)
        .with_single_cert(chain, key)?)
}

fn client_config(certs: &Path) -> Outcome<ClientConfig> {
    let (chain, key, roots) = read(certs)?;
    Ok(ClientConfig::builder()
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)?)
}

type Read = (
    Vec<CertificateDer<'static>>,
    PrivateKeyDer<'static>,
    RootCertStore,
);

fn read(certs: &Path) -> Outcome<Read> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certs.join("ca.crt"))?)?;
    let chain = vec![CertificateDer::from_pem_file(certs.join("tls.crt"))?];
    Ok((
        chain,
        PrivateKeyDer::from_pem_file(certs.join("tls.key"))?,
        roots,
    ))
}
