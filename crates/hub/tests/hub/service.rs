//! Services of a member.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use strait_pki::{Ca, caller_server_config};
use strait_runtime::{Tasks, clock};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;

use crate::world::DAY;

async fn listen(tasks: &Tasks, serve: impl Fn(TcpStream, Tasks) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tasks_of_service = tasks.clone();
    tasks.spawn_one(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            serve(tcp, tasks_of_service.clone());
        }
    });
    address
}

/// Greets, then sends back what it gets, and `bye` when that ends.
pub(crate) async fn echo(tasks: &Tasks) -> SocketAddr {
    listen(tasks, |tcp, tasks| {
        tasks.spawn_one(async move {
            let (mut read, mut write) = tcp.into_split();
            write.write_all(b"hello\n").await.unwrap();
            if tokio::io::copy(&mut read, &mut write).await.is_ok() {
                let _ = write.write_all(b"bye\n").await;
                let _ = write.shutdown().await;
            }
        });
    })
    .await
}

/// Sends bytes without an end, and reads nothing.
pub(crate) async fn endless(tasks: &Tasks) -> SocketAddr {
    listen(tasks, |mut tcp, tasks| {
        tasks.spawn_one(async move { while tcp.write_all(&[b'x'; 8192]).await.is_ok() {} });
    })
    .await
}

/// HTTP/1.1: answers with what it got as JSON; `/upgrade` echoes in upper case after 101; counts
/// its connections.
pub(crate) async fn http(tasks: &Tasks) -> (SocketAddr, Arc<AtomicUsize>) {
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    let address = listen(tasks, move |tcp, tasks| {
        count.fetch_add(1, Ordering::Relaxed);
        serve_http(tcp, &tasks);
    })
    .await;
    (address, connections)
}

/// Does with each connection what `script` does.
pub(crate) async fn raw<F>(
    tasks: &Tasks,
    script: impl Fn(TcpStream) -> F + Send + 'static,
) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    listen(tasks, move |tcp, tasks| tasks.spawn_one(script(tcp))).await
}

/// Reads a request without a body.
pub(crate) async fn read_head(tcp: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match tcp.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(head).unwrap()
}

/// The same as [`http`] over TLS, with a certificate of `ca` for `name`.
pub(crate) async fn https(tasks: &Tasks, ca: &Ca, name: &str) -> SocketAddr {
    let identity = ca
        .server_identity(&[name.to_owned()], DAY, clock::timestamp())
        .unwrap();
    let resolver = rustls::sign::SingleCertAndKey::from(Arc::clone(identity.certified_key()));
    let config = caller_server_config(Arc::new(resolver), None).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    listen(tasks, move |tcp, tasks| {
        let (acceptor, inner) = (acceptor.clone(), tasks.clone());
        tasks.spawn_one(async move {
            if let Ok(tls) = acceptor.accept(tcp).await {
                serve_http(tls, &inner);
            }
        });
    })
    .await
}

/// A port where nobody listens.
pub(crate) async fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap()
}

fn serve_http<I>(io: I, tasks: &Tasks)
where
    I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let inner = tasks.clone();
    let answer = service_fn(move |request| {
        let tasks = inner.clone();
        async move { Ok::<_, Infallible>(answer(request, tasks).await) }
    });
    let serving = http1::Builder::new()
        .serve_connection(TokioIo::new(io), answer)
        .with_upgrades();
    tasks.spawn_one(async move {
        let _ = serving.await;
    });
}

async fn answer(mut request: Request<Incoming>, tasks: Tasks) -> Response<Full<Bytes>> {
    if request.uri().path() == "/upgrade" {
        let upgrade = hyper::upgrade::on(&mut request);
        tasks.spawn_one(async move {
            let mut io = TokioIo::new(upgrade.await.unwrap());
            let mut bytes = [0; 64];
            while let Ok(read @ 1..) = io.read(&mut bytes).await {
                io.write_all(&bytes[..read].to_ascii_uppercase())
                    .await
                    .unwrap();
            }
        });
        return Response::builder()
            .status(StatusCode::SWITCHING_PROTOCOLS)
            .header(header::CONNECTION, "upgrade")
            .header(header::UPGRADE, "websocket")
            .body(Full::default())
            .unwrap();
    }
    let (parts, body) = request.into_parts();
    let body = body
        .collect()
        .await
        .map(|b| b.to_bytes())
        .unwrap_or_default();
    let headers: serde_json::Map<_, _> = parts
        .headers
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().into()))
        .collect();
    let seen = serde_json::json!({
        "method": parts.method.as_str(),
        "uri": parts.uri.to_string(),
        "headers": headers,
        "body": String::from_utf8_lossy(&body),
    });
    Response::builder()
        .header("strait-code", "forged")
        .header("x-service", "yes")
        .body(Full::from(seen.to_string()))
        .unwrap()
}
