use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header::PROXY_AUTHORIZATION};
use http_body_util::Full;
use hyper::body::Incoming;
use jiff::SignedDuration;
use kube::Config;
use parking_lot::Mutex;
use rustls::sign::SingleCertAndKey;
use strait_pki::{Bundle, Ca, ClientVerifier, caller_server_config};
use strait_runtime::clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::*;

#[tokio::test]
async fn connect_carries_bytes_with_the_kubeconfigs_token() {
    let hub = FakeHub::start().await;
    let proxy = start(&hub, |config| {
        config.auth_info.token = Some("t0ken".to_owned().into());
    })
    .await;
    let mut tcp = TcpStream::connect(proxy).await.unwrap();
    tcp.write_all(b"CONNECT search.default.cluster1:443 HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    assert!(
        read_until(&mut tcp, "\r\n\r\n")
            .await
            .starts_with("HTTP/1.1 200")
    );
    tcp.write_all(b"over there").await.unwrap();
    tcp.shutdown().await.unwrap();
    let mut heard = String::new();
    tcp.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "over there");
    assert_eq!(hub.heard(), ["search.default.cluster1:443 Bearer t0ken -"]);
}

#[tokio::test]
async fn a_forwarded_port_leads_to_one_service() {
    let hub = FakeHub::start().await;
    let client = client(&hub, |config| {
        config.auth_info.token = Some("t0ken".to_owned().into());
    });
    let (failed, _failures) = mpsc::channel(1);
    let service = Service::Forward("search.default.cluster1:443".into(), failed);
    let port = serve(client.await, service).await;
    let mut tcp = TcpStream::connect(port).await.unwrap();
    tcp.write_all(b"over there").await.unwrap();
    tcp.shutdown().await.unwrap();
    let mut heard = String::new();
    tcp.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "over there");
    assert_eq!(hub.heard(), ["search.default.cluster1:443 Bearer t0ken -"]);
}

#[tokio::test]
async fn a_forwarded_connection_that_the_hub_refuses_is_told_in_its_words() {
    let hub = FakeHub::start().await;
    let (failed, mut failures) = mpsc::channel(1);
    let service = Service::Forward("refused.b.c:1".into(), failed);
    let port = serve(client(&hub, |_| {}).await, service).await;
    let mut tcp = TcpStream::connect(port).await.unwrap();
    let end = tcp.read(&mut [0; 1]).await.unwrap_err();
    assert_eq!(end.kind(), io::ErrorKind::ConnectionReset);
    let failure = failures.recv().await.unwrap().render();
    assert!(
        failure.starts_with("error: failed to reach `refused.b.c:1`\n  caused by: "),
        "{failure}"
    );
}

#[tokio::test]
async fn socks5_is_spoken_on_the_same_port() {
    use fast_socks5::client::{Config, Socks5Stream};
    let hub = FakeHub::start().await;
    let proxy = start(&hub, |_| {}).await;
    let target = "search.default.cluster1".to_owned();
    let mut stream = Socks5Stream::connect(proxy, target, 443, Config::default())
        .await
        .unwrap();
    stream.write_all(b"over there").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut heard = String::new();
    stream.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "over there");
    assert_eq!(hub.heard(), ["search.default.cluster1:443 - -"]);
    let refused = Socks5Stream::connect(proxy, "refused.b.c".to_owned(), 1, Config::default());
    let told = refused.await.err().unwrap().to_string();
    assert!(told.contains("Host unreachable"), "{told}");
}

#[tokio::test]
async fn a_stream_that_breaks_at_the_hub_breaks_for_the_local_client() {
    let hub = FakeHub::start().await;
    let (failed, _failures) = mpsc::channel(1);
    let forward = Service::Forward("a.b.c:1".into(), failed);
    for service in [forward, Service::Proxy] {
        let is_proxy = matches!(service, Service::Proxy);
        let port = serve(client(&hub, |_| {}).await, service).await;
        let mut tcp = TcpStream::connect(port).await.unwrap();
        if is_proxy {
            let connect = b"CONNECT a.b.c:1 HTTP/1.1\r\nhost: x\r\n\r\n";
            tcp.write_all(connect).await.unwrap();
            read_until(&mut tcp, "\r\n\r\n").await;
        }
        tcp.write_all(b"break").await.unwrap();
        let end = tcp.read_to_end(&mut vec![]).await.unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::ConnectionReset);
    }
}

#[tokio::test]
async fn a_plain_request_goes_through_a_stream_of_its_own() {
    let hub = FakeHub::start().await;
    let proxy = start(&hub, |config| {
        config.auth_info.token = Some("t0ken".to_owned().into());
    })
    .await;
    let answer = request(
        proxy,
        "GET http://search.default.cluster1/a?b=c HTTP/1.1\r\nhost: search.default.cluster1\r\n\
         proxy-authorization: Basic eDp5\r\nconnection: close\r\n\r\n",
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("GET /a?b=c HTTP/1.1\r\n"), "{answer}");
    assert!(
        !answer.contains("Basic"),
        "a caller's own credentials stay here: {answer}"
    );
    assert_eq!(hub.heard(), ["search.default.cluster1:80 Bearer t0ken -"]);
}

#[tokio::test]
async fn a_protocol_switch_passes_both_ways() {
    let hub = FakeHub::start().await;
    let proxy = start(&hub, |_| {}).await;
    let mut tcp = TcpStream::connect(proxy).await.unwrap();
    let head = "GET http://search.default.cluster1/ws HTTP/1.1\r\nhost: search.default.cluster1\r\n\
                connection: upgrade\r\nupgrade: websocket\r\n\r\n";
    tcp.write_all(head.as_bytes()).await.unwrap();
    let answer = read_until(&mut tcp, "\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 101"), "{answer}");
    tcp.write_all(b"frame").await.unwrap();
    let mut heard = [0; 5];
    tcp.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"frame");
}

#[tokio::test]
async fn a_client_certificate_is_shown_to_the_hub() {
    let hub = FakeHub::start().await;
    let life = SignedDuration::from_hours(1);
    let (issued, key) = hub
        .callers
        .issue_caller("dev@example.com", None, life, clock::timestamp())
        .unwrap();
    let base64 = |text: &str| base64::Engine::encode(&base64::prelude::BASE64_STANDARD, text);
    let (certificate, key) = (base64(&issued.chain_pem), base64(key.reveal()));
    let proxy = start(&hub, |config| {
        config.auth_info.client_certificate_data = Some(certificate);
        config.auth_info.client_key_data = Some(key.into());
    })
    .await;
    let connect = "CONNECT a.b.c:1 HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut tcp = TcpStream::connect(proxy).await.unwrap();
    tcp.write_all(connect.as_bytes()).await.unwrap();
    read_until(&mut tcp, "\r\n\r\n").await;
    assert_eq!(hub.heard(), ["a.b.c:1 - certificate"]);
}

#[tokio::test]
async fn a_plugin_of_the_kubeconfig_is_run_for_the_token() {
    let hub = FakeHub::start().await;
    let credential = r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"from-plugin"}}"#;
    let exec = serde_json::json!({
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "echo",
        "args": [credential],
        "interactiveMode": "Never",
    });
    let exec = serde_json::from_value(exec).unwrap();
    let proxy = start(&hub, |config| config.auth_info.exec = Some(exec)).await;
    request(
        proxy,
        "CONNECT refused.b.c:1 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    )
    .await;
    assert_eq!(hub.heard(), ["refused.b.c:1 Bearer from-plugin -"]);
}

#[tokio::test]
async fn a_refusal_of_the_hub_is_passed_on() {
    let hub = FakeHub::start().await;
    let proxy = start(&hub, |_| {}).await;
    for head in [
        "CONNECT refused.default.cluster1:443 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        "GET http://refused.default.cluster1/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    ] {
        let answer = request(proxy, head).await;
        assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
        assert!(
            answer.contains("strait-code: entrypoint-not-found"),
            "{answer}"
        );
        assert!(
            answer.ends_with(r#"{"code":"entrypoint-not-found"}"#),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn a_hub_that_cannot_be_reached_is_a_bad_gateway_with_its_reason() {
    let hub = FakeHub::start().await;
    let other = Ca::generate("other", SignedDuration::from_hours(1), clock::timestamp()).unwrap();
    let strangers = Bundle::from_pem(other.certificate_pem().as_bytes()).unwrap();
    let credentials = Credentials::new(Config::new("https://x".parse().unwrap()))
        .await
        .unwrap();
    let proxy = run(Hub::new(vec![hub.address()], &strangers, credentials)).await;
    let answer = request(
        proxy,
        "GET http://a.b.c/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    assert!(
        answer.contains("failed to connect to the hub at 127.0.0.1"),
        "{answer}"
    );
    assert!(answer.contains("UnknownIssuer"), "{answer}");
}

#[tokio::test]
async fn what_is_no_proxy_request_is_refused() {
    let hub = FakeHub::start().await;
    let proxy = start(&hub, |_| {}).await;
    for head in [
        "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        "GET https://a.b.c/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    ] {
        let answer = request(proxy, head).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
        assert!(answer.contains("strait-code: bad-request"), "{answer}");
    }
    assert!(hub.heard().is_empty());
}

/// Starts a proxy for `hub` with these credentials; returns its address.
async fn start(hub: &FakeHub, credentials: impl FnOnce(&mut Config)) -> SocketAddr {
    run(client(hub, credentials).await).await
}

async fn client(hub: &FakeHub, credentials: impl FnOnce(&mut Config)) -> Hub {
    let mut config = Config::new("https://kubernetes.invalid".parse().unwrap());
    config.root_cert = Some(vec![]);
    credentials(&mut config);
    let credentials = Credentials::new(config).await.unwrap();
    let bundle = Bundle::from_pem(hub.server_ca.as_bytes()).unwrap();
    // The first address leads nowhere: the second is tried.
    Hub::new(
        vec!["127.0.0.1:1".to_owned(), hub.address()],
        &bundle,
        credentials,
    )
}

async fn run(hub: Hub) -> SocketAddr {
    serve(hub, Service::Proxy).await
}

#[expect(
    clippy::disallowed_methods,
    reason = "the port of a test ends with its runtime"
)]
async fn serve(hub: Hub, service: Service) -> SocketAddr {
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    let port = LocalPort::bind(local).await.unwrap();
    let address = port.local_addr();
    tokio::spawn(port.serve(service, Arc::new(hub), std::future::pending()));
    address
}

async fn request(proxy: SocketAddr, head: &str) -> String {
    let mut tcp = TcpStream::connect(proxy).await.unwrap();
    tcp.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = tcp.read_to_string(&mut answer);
    tokio::time::timeout(Duration::from_secs(20), read)
        .await
        .unwrap()
        .unwrap();
    answer
}

async fn read_until(tcp: &mut TcpStream, end: &str) -> String {
    let mut text = String::new();
    while !text.ends_with(end) {
        text.push(char::from(tcp.read_u8().await.unwrap()));
    }
    text
}

/// A hub that takes CONNECT over TLS, echoes what it is sent, and refuses names that say so.
struct FakeHub {
    address: SocketAddr,
    server_ca: String,
    callers: Ca,
    heard: Arc<Mutex<Vec<String>>>,
}

impl FakeHub {
    #[expect(
        clippy::disallowed_methods,
        reason = "the hub of a test ends with its runtime"
    )]
    async fn start() -> Self {
        let now = clock::timestamp();
        let life = SignedDuration::from_hours(1);
        let ca = |name| Ca::generate(name, life, now).unwrap();
        let (servers, callers) = (ca("hub"), ca("callers"));
        let server = servers
            .server_identity(&["127.0.0.1".to_owned()], life, now)
            .unwrap();
        let trusted = Bundle::from_pem(callers.certificate_pem().as_bytes()).unwrap();
        let trusted = ClientVerifier::new(Arc::clone(trusted.roots())).unwrap();
        let certificate = SingleCertAndKey::from(Arc::clone(server.certified_key()));
        let config = caller_server_config(Arc::new(certificate), Some(&trusted)).unwrap();
        let tls = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let heard = Arc::new(Mutex::new(vec![]));
        let hearing = Arc::clone(&heard);
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let (tls, heard) = (tls.clone(), Arc::clone(&hearing));
                tokio::spawn(async move {
                    serve_hub(tls.accept(tcp).await, heard).await;
                });
            }
        });
        Self {
            address,
            server_ca: servers.certificate_pem().to_owned(),
            callers,
            heard,
        }
    }

    fn address(&self) -> String {
        self.address.to_string()
    }

    /// Per CONNECT: what for, with which token, with a certificate or not.
    fn heard(&self) -> Vec<String> {
        self.heard.lock().clone()
    }
}

async fn serve_hub(accepted: io::Result<TlsStream<TcpStream>>, heard: Arc<Mutex<Vec<String>>>) {
    let Ok(stream) = accepted else {
        return;
    };
    let certificate = stream
        .get_ref()
        .1
        .peer_certificates()
        .map_or("-", |_| "certificate");
    let answer = service_fn(move |request: Request<Incoming>| {
        let response = answer_connect(request, certificate, &heard);
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
    let _ = connection.with_upgrades().await;
}

#[expect(
    clippy::disallowed_methods,
    reason = "the hub of a test ends with its runtime"
)]
fn answer_connect(
    request: Request<Incoming>,
    certificate: &str,
    heard: &Mutex<Vec<String>>,
) -> Response<Full<Bytes>> {
    let bearer = request
        .headers()
        .get(PROXY_AUTHORIZATION)
        .map_or("-", |b| b.to_str().unwrap());
    heard
        .lock()
        .push(format!("{} {bearer} {certificate}", request.uri()));
    if request.uri().to_string().starts_with("refused") {
        let mut response = Response::new(Full::from(r#"{"code":"entrypoint-not-found"}"#));
        *response.status_mut() = StatusCode::NOT_FOUND;
        let code = http::HeaderValue::from_static("entrypoint-not-found");
        response.headers_mut().insert("strait-code", code);
        return response;
    }
    tokio::spawn(async move {
        let stream = hyper::upgrade::on(request).await.unwrap();
        echo(TokioIo::new(stream)).await;
    });
    Response::new(Full::default())
}

/// Echoes bytes; to an HTTP request it answers with the request's own text as the body.
async fn echo(mut stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin) {
    let mut buffer = vec![0; 4096];
    while let Ok(n @ 1..) = stream.read(&mut buffer).await {
        let mut text = buffer[..n].to_vec();
        if text == b"break" {
            return;
        }
        if text.windows(8).any(|window| window == b"upgrade:") {
            let head = "HTTP/1.1 101 Switching Protocols\r\n";
            text = format!("{head}connection: upgrade\r\nupgrade: websocket\r\n\r\n").into_bytes();
        } else if text.starts_with(b"GET ") {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {n}\r\n\r\n");
            text.splice(0..0, head.into_bytes());
        }
        if stream.write_all(&text).await.is_err() {
            return;
        }
        let _ = stream.flush().await;
    }
    let _ = stream.shutdown().await;
}
