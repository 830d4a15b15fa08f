//! A plain connection-per-connection relay. Two of them with TLS between make a reference with
//! the same hops and copies as a tunnel, but no multiplexing: what the machine allows at best.

use std::{path::Path, sync::Arc};

use anyhow::{Result, bail};
use tokio::{
    io::copy_bidirectional_with_sizes,
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;

use crate::{
    backend::CHUNK,
    certs,
    conn::{Dialer, Front, Io},
};

pub async fn run(listen: &str, forward: &str, certs_dir: &Path) -> Result<()> {
    let (acceptor, addr) = match listen.split_once(':') {
        Some(("tls", a)) => (Some(TlsAcceptor::from(certs::server_config(certs_dir)?)), a),
        Some(("tcp", a)) => (None, a),
        _ => bail!("unknown listen address {listen:?}"),
    };
    let dialer = Dialer::new(forward.parse::<Front>()?, None, certs_dir)?;
    let listener = TcpListener::bind(addr).await?;
    loop {
        let (tcp, _) = listener.accept().await?;
        tokio::spawn(one(tcp, acceptor.clone(), dialer.clone()));
    }
}

async fn one(tcp: TcpStream, acceptor: Option<TlsAcceptor>, dialer: Arc<Dialer>) -> Result<()> {
    tcp.set_nodelay(true)?;
    let mut near: Box<dyn Io> = match acceptor {
        Some(acceptor) => Box::new(acceptor.accept(tcp).await?),
        None => Box::new(tcp),
    };
    let mut far = dialer.dial().await?;
    copy_bidirectional_with_sizes(&mut near, &mut far.io, CHUNK, CHUNK).await?;
    Ok(())
}
