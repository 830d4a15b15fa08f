//! What stands between agents and hubs in some networks, for tests.

use std::sync::Arc;

use strait_pki::{ServerTrust, client_config};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::{connect::server_name, fake_hub::FakeHub};

/// How long a ClientHello is that is looked into.
const HELLO: usize = 2048;

/// Cuts what is no HTTPS by the protocol that its ClientHello asks for.
pub(crate) async fn that_looks_at_the_protocol(hub: String) -> String {
    listen(move |mut tcp| {
        let hub = hub.clone();
        async move {
            let mut hello = vec![0; HELLO];
            let len = tcp.peek(&mut hello).await.unwrap();
            let session = hello[..len].windows(8).any(|w| w == b"strait/1");
            if !session {
                let mut far = TcpStream::connect(hub).await.unwrap();
                let _ = copy_bidirectional(&mut tcp, &mut far).await;
            }
        }
    })
    .await
}

/// Ends TLS with a certificate of its own and looks into everything, as proxies of companies and
/// load balancers do.
pub(crate) async fn that_ends_tls(hub: String) -> String {
    let tls = TlsAcceptor::from(Arc::new(FakeHub::stranger_tls()));
    let config = Arc::new(client_config(&ServerTrust::Anyone, None).unwrap());
    listen(move |tcp| {
        let (hub, tls, connector) = (
            hub.clone(),
            tls.clone(),
            TlsConnector::from(Arc::clone(&config)),
        );
        async move {
            let Ok(mut near) = tls.accept(tcp).await else {
                return;
            };
            let tcp = TcpStream::connect(&hub).await.unwrap();
            let mut far = connector
                .connect(server_name(&hub).unwrap(), tcp)
                .await
                .unwrap();
            let _ = copy_bidirectional(&mut near, &mut far).await;
        }
    })
    .await
}

/// An HTTP proxy that lets through who shows these credentials.
pub(crate) async fn http_proxy(credentials: &'static str) -> String {
    listen(move |mut tcp| async move {
        let mut head = vec![];
        while !head.ends_with(b"\r\n\r\n") {
            head.push(tcp.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        let to = head
            .strip_prefix("CONNECT ")
            .and_then(|rest| rest.split(' ').next());
        if !head.contains(&format!("proxy-authorization: {credentials}\r\n")) {
            let refused =
                b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n";
            tcp.write_all(refused).await.unwrap();
            return;
        }
        let mut far = TcpStream::connect(to.unwrap()).await.unwrap();
        tcp.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let _ = copy_bidirectional(&mut tcp, &mut far).await;
    })
    .await
}

/// Serves every connection; returns the address. It lives as long as the runtime.
#[expect(
    clippy::disallowed_methods,
    reason = "what a test puts in the way ends with its runtime"
)]
async fn listen<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> String
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            tokio::spawn(serve(tcp));
        }
    });
    address
}
