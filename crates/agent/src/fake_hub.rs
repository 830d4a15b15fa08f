//! A hub for tests: takes joins and sessions over real TLS, and hands the sessions out.

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use jiff::SignedDuration;
use parking_lot::Mutex;
use strait_pki::{
    ALPN_SESSION, AgentName, AgentRequest, Bundle, Ca, ClientVerifier, TrustDomain,
    caller_server_config,
};
use strait_runtime::{Tasks, clock};
use strait_tunnel::{Carrier, Config, Session, Side, read_value, write_value};
use strait_types::{
    JoinAnswer, JoinCredential, JoinRefusal, JoinRequest, JoinToken, RenewAnswer, RenewRequest,
    SESSION_PATH, SESSION_PROTOCOL,
};
use tokio::{io::AsyncWriteExt, net::TcpListener, sync::mpsc};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, sign::SingleCertAndKey},
    server::TlsStream,
};

/// The longest queue of sessions that no test has asked for yet.
const SESSIONS: usize = 16;

pub(crate) struct FakeHub {
    inner: Arc<Inner>,
    sessions: tokio::sync::Mutex<mpsc::Receiver<Session>>,
    tasks: Tasks,
}

struct Inner {
    address: SocketAddr,
    agents: Ca,
    hubs: Ca,
    refusal: Mutex<Option<JoinRefusal>>,
    heard: Mutex<String>,
}

impl FakeHub {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let inner = Arc::new(Inner {
            address: listener.local_addr().unwrap(),
            agents: ca(),
            hubs: ca(),
            refusal: Mutex::default(),
            heard: Mutex::default(),
        });
        let (send, sessions) = mpsc::channel(SESSIONS);
        let tasks = Tasks::default();
        let accepting = accept(listener, Arc::clone(&inner), send, tasks.clone());
        tasks.spawn_one(accepting);
        Self {
            inner,
            sessions: tokio::sync::Mutex::new(sessions),
            tasks,
        }
    }

    pub(crate) fn address(&self) -> String {
        self.inner.address.to_string()
    }

    pub(crate) fn token(&self) -> JoinToken {
        JoinToken {
            cluster: "cluster1".parse().unwrap(),
            expires: clock::timestamp() + SignedDuration::from_hours(1),
            hubs: vec![self.address()],
            ca_bundle: self.inner.hubs.certificate_pem().to_owned(),
            token: JoinCredential::from_random([1; 8], [2; 32]),
        }
    }

    /// Refuses joins from now on.
    pub(crate) fn refuse(&self, refusal: JoinRefusal) {
        *self.inner.refusal.lock() = Some(refusal);
    }

    /// The bodies of all joins so far.
    pub(crate) fn heard(&self) -> String {
        self.inner.heard.lock().clone()
    }

    /// The next session that an agent begins.
    pub(crate) async fn session(&self) -> Session {
        let mut sessions = self.sessions.lock().await;
        let next = tokio::time::timeout(std::time::Duration::from_secs(20), sessions.recv());
        next.await
            .expect("no session in time")
            .expect("the hub has ended")
    }

    /// The hub's certificate authority does not sign this: it is what others show in its place.
    pub(crate) fn stranger_tls() -> ServerConfig {
        let stranger = ca();
        let life = SignedDuration::from_hours(24);
        let names = ["127.0.0.1".to_owned()];
        let server = stranger.server_identity(&names, life, clock::timestamp());
        let certificate = SingleCertAndKey::from(Arc::clone(server.unwrap().certified_key()));
        caller_server_config(Arc::new(certificate), None).unwrap()
    }

    pub(crate) fn issue(&self, csr: &str) -> String {
        self.inner.issue(csr)
    }
}

impl Drop for FakeHub {
    fn drop(&mut self) {
        self.tasks.stop().cancel();
    }
}

impl Inner {
    fn issue(&self, csr: &str) -> String {
        let name = AgentName {
            cluster: "cluster1".parse().unwrap(),
            member: "1".to_owned(),
        };
        let request = AgentRequest::from_pem(csr).unwrap();
        let life = SignedDuration::from_hours(24);
        let domain = TrustDomain::default();
        let issued = self
            .agents
            .issue_agent(&request, &name, &domain, life, clock::timestamp());
        issued.unwrap().chain_pem
    }

    fn answer(&self, csr: &str) -> JoinAnswer {
        JoinAnswer {
            certificate: self.issue(csr),
            ca_bundle: self.hubs.certificate_pem().to_owned(),
            hubs: vec![self.address.to_string()],
        }
    }

    fn tls(&self) -> ServerConfig {
        let names = [self.address.ip().to_string()];
        let life = SignedDuration::from_hours(24);
        let server = self
            .hubs
            .server_identity(&names, life, clock::timestamp())
            .unwrap();
        let agents = Bundle::from_pem(self.agents.certificate_pem().as_bytes()).unwrap();
        let agents = ClientVerifier::new(Arc::clone(agents.roots())).unwrap();
        let certificate = SingleCertAndKey::from(Arc::clone(server.certified_key()));
        let mut config = caller_server_config(Arc::new(certificate), Some(&agents)).unwrap();
        config.alpn_protocols.push(ALPN_SESSION.to_vec());
        config
    }

    async fn join(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        self.heard.lock().push_str(&String::from_utf8_lossy(&body));
        let refusal = *self.refusal.lock();
        let (status, answer) = match refusal {
            Some(refusal) => (StatusCode::GONE, serde_json::json!({ "code": refusal })),
            None => {
                let request: JoinRequest = serde_json::from_slice(&body).unwrap();
                (
                    StatusCode::OK,
                    serde_json::to_value(self.answer(&request.csr)).unwrap(),
                )
            }
        };
        let mut response = Response::new(Full::from(answer.to_string()));
        *response.status_mut() = status;
        response
    }
}

async fn accept(
    listener: TcpListener,
    inner: Arc<Inner>,
    sessions: mpsc::Sender<Session>,
    tasks: Tasks,
) {
    let door = Door {
        tls: TlsAcceptor::from(Arc::new(inner.tls())),
        inner,
        sessions,
        tasks: tasks.clone(),
    };
    let stop = tasks.stop().clone();
    while let Some(Ok((tcp, _))) = stop.run_until_cancelled(listener.accept()).await {
        tasks.spawn_one(door.clone().serve(Box::new(tcp)));
    }
}

/// What becomes of a connection to the hub's port.
#[derive(Clone)]
struct Door {
    tls: TlsAcceptor,
    inner: Arc<Inner>,
    sessions: mpsc::Sender<Session>,
    tasks: Tasks,
}

impl Door {
    fn serve(self, io: Box<dyn Carrier>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let Ok(stream) = self.tls.accept(io).await else {
                return;
            };
            if stream.get_ref().1.alpn_protocol() == Some(ALPN_SESSION) {
                carry(stream, self.inner, self.sessions, self.tasks).await;
                return;
            }
            let answer = service_fn(|request| self.answer(request));
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), answer)
                .with_upgrades()
                .await;
        })
    }

    async fn answer(
        &self,
        mut request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, Infallible> {
        if request.uri().path() != SESSION_PATH {
            return Ok(self.inner.join(request).await);
        }
        let answer = strait_websocket::answer(&request, SESSION_PROTOCOL).unwrap();
        let (upgrade, door) = (hyper::upgrade::on(&mut request), self.clone());
        self.tasks.spawn_one(async move {
            let socket = strait_websocket::accept(TokioIo::new(upgrade.await.unwrap())).await;
            door.serve(Box::new(socket)).await;
        });
        Ok(answer.map(|()| Full::default()))
    }
}

/// Answers renewals of one session, and hands the session to the test.
async fn carry(
    stream: TlsStream<Box<dyn Carrier>>,
    inner: Arc<Inner>,
    sessions: mpsc::Sender<Session>,
    tasks: Tasks,
) {
    let established = Session::establish(stream, Side::Acceptor, Config::default()).await;
    let (session, mut incoming, driver) = established.unwrap();
    tasks.spawn_one(async move {
        driver.run().await;
    });
    sessions.send(session).await.unwrap();
    while let Some(request) = incoming.next().await {
        let mut stream = request.accept("").unwrap();
        let asked: RenewRequest = read_value(&mut stream, 1 << 20).await.unwrap().unwrap();
        let answer = RenewAnswer::Issued(inner.answer(&asked.csr));
        write_value(&mut stream, &answer, u32::MAX).await.unwrap();
        stream.shutdown().await.unwrap();
    }
}

fn ca() -> Ca {
    Ca::generate("test", SignedDuration::from_hours(48), clock::timestamp()).unwrap()
}
