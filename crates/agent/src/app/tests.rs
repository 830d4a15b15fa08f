use std::{collections::VecDeque, path::Path};

use parking_lot::Mutex;
use strait_install::{AgentState, AgentStatus};
use strait_tunnel::{CloseCode, CloseReason, Open, Session, StreamReset, reset_code, write_value};
use strait_types::{AllowPattern, ExposedService, ExposureTable, JoinRefusal, JoinToken};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::DropGuard;

use super::*;
use crate::{
    DirectoryStore, StatusSink, Storage,
    fake_hub::FakeHub,
    identity::Renewer,
    middlebox,
    transport::Dialer,
    world::{World, but_one, echo_server, service},
};

/// How long anything of a test may take before it counts as not happening.
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn an_agent_joins_connects_and_reaches_a_service() {
    let hub = FakeHub::start().await;
    let member = Member::start(&hub).await;
    let session = hub.session().await;
    let status = member.until(AgentState::Connected).await;
    assert_eq!(
        (status.cluster.as_str(), status.hubs),
        ("cluster1", vec![hub.address()])
    );
    assert!(member.readiness.is_ready());
    let mut stream = open_echo(&session).await;
    assert_eq!(exchange(&mut stream, "world").await, "world");
    let key = member.file("tls.key");
    assert!(
        key.contains("PRIVATE KEY") && !hub.heard().contains(&key),
        "the key stays here"
    );
}

#[tokio::test]
async fn a_refused_token_is_told_in_the_hubs_words() {
    let hub = FakeHub::start().await;
    hub.refuse(JoinRefusal::TokenExpired);
    let member = Member::start(&hub).await;
    let status = member.until(AgentState::Refused).await;
    assert_eq!(status.reason, "token-expired");
    assert_eq!(status.message, JoinRefusal::TokenExpired.to_string());
    assert!(!member.readiness.is_ready());
}

#[tokio::test]
async fn a_hub_whose_certificate_is_of_another_ca_is_told_as_such() {
    let (hub, other) = (FakeHub::start().await, FakeHub::start().await);
    let mut token = hub.token();
    token.hubs = vec![other.address()];
    let member = Member::with(&token, Way::by(Dialer::through(""))).await;
    member.until_told("a new join token is needed").await;
}

#[tokio::test]
async fn networks_that_let_only_https_through_are_got_through() {
    let hub = FakeHub::start().await;
    for in_between in [
        middlebox::that_looks_at_the_protocol(hub.address()).await,
        middlebox::that_ends_tls(hub.address()).await,
    ] {
        let mut token = hub.token();
        token.hubs = vec![in_between];
        let member = Member::with(&token, Way::by(Dialer::through(""))).await;
        let session = hub.session().await;
        member.until(AgentState::Connected).await;
        let mut stream = open_echo(&session).await;
        assert_eq!(exchange(&mut stream, "through").await, "through");
    }
}

#[tokio::test]
async fn a_proxy_is_used_with_its_credentials() {
    let hub = FakeHub::start().await;
    // user:s3cret
    let proxy = middlebox::http_proxy("Basic dXNlcjpzM2NyZXQ=").await;
    let dialer = Dialer::through(&format!("http://user:s3cret@{proxy}"));
    let member = Member::with(&hub.token(), Way::by(dialer)).await;
    let session = hub.session().await;
    member.until(AgentState::Connected).await;
    let mut stream = open_echo(&session).await;
    assert_eq!(exchange(&mut stream, "through").await, "through");
    let wrong = Dialer::through(&format!("http://user:wr0ng@{proxy}"));
    let member = Member::with(&hub.token(), Way::by(wrong)).await;
    member.until_told("407 Proxy Authentication Required").await;
    let told = format!("{:?}", member.statuses.borrow());
    assert!(!told.contains("wr0ng"), "{told}");
}

#[tokio::test]
async fn a_lost_session_comes_back_by_itself() {
    let hub = FakeHub::start().await;
    let member = Member::start(&hub).await;
    for _ in 0..3 {
        let session = hub.session().await;
        member.until(AgentState::Connected).await;
        session.close(CloseReason::new(CloseCode::Normal, "test"));
        member.until(AgentState::Connecting).await;
    }
    hub.session().await;
    member.until(AgentState::Connected).await;
}

#[tokio::test]
async fn the_next_certificate_takes_over_without_losing_a_stream() {
    let hub = FakeHub::start().await;
    let member = Member::start(&hub).await;
    let old = hub.session().await;
    let mut stream = open_echo(&old).await;
    member.replace_certificate(&hub);
    let new = hub.session().await;
    tokio::time::timeout(PATIENCE, old.draining())
        .await
        .unwrap();
    assert_eq!(exchange(&mut stream, "still here").await, "still here");
    let mut other = open_echo(&new).await;
    assert_eq!(exchange(&mut other, "here too").await, "here too");
    stream.shutdown().await.unwrap();
    drop(stream);
    tokio::time::timeout(PATIENCE, old.closed()).await.unwrap();
    member.until(AgentState::Connected).await;
}

#[tokio::test]
async fn what_is_taken_away_after_a_renewal_is_cut_in_the_replaced_session_too() {
    let hub = FakeHub::start().await;
    let member = Member::start(&hub).await;
    let old = hub.session().await;
    let mut stream = open_echo(&old).await;
    member.replace_certificate(&hub);
    let new = hub.session().await;
    tokio::time::timeout(PATIENCE, old.draining())
        .await
        .unwrap();
    expose(&new, &[]).await;
    let cut = tokio::time::timeout(PATIENCE, stream.read_u8()).await;
    let cut = cut.expect("it is not cut").unwrap_err();
    let reset = cut.get_ref().and_then(|e| e.downcast_ref::<StreamReset>());
    assert_eq!(reset.map(|reset| reset.code), Some(reset_code::REVOKED));
}

#[tokio::test]
async fn a_renewal_brings_a_new_key_and_the_same_cluster() {
    let hub = FakeHub::start().await;
    let member = Member::start(&hub).await;
    hub.session().await;
    member.until(AgentState::Connected).await;
    let (key, certificate) = (member.file("tls.key"), member.file("tls.crt"));
    let renewed = member.sessions.renew(member.stored()).await.unwrap();
    assert_eq!(
        (renewed.cluster.as_str(), &renewed.hubs),
        ("cluster1", &vec![hub.address()])
    );
    assert!(renewed.key.reveal() != key && renewed.certificate != certificate);
    Active::new(Arc::new(renewed)).unwrap();
}

#[tokio::test]
async fn open_streams_finish_when_the_agent_is_stopped() {
    let hub = FakeHub::start().await;
    let member = Member::start(&hub).await;
    let session = hub.session().await;
    let mut stream = open_echo(&session).await;
    let running = member.stop();
    tokio::time::timeout(PATIENCE, session.draining())
        .await
        .unwrap();
    assert!(session.open(Open::target("probe:")).await.is_err());
    assert_eq!(exchange(&mut stream, "last words").await, "last words");
    stream.shutdown().await.unwrap();
    drop(stream);
    assert_eq!(
        tokio::time::timeout(PATIENCE, running.shutdown(PATIENCE)).await,
        Ok(0)
    );
}

/// Tells a session's agent its first table.
async fn expose(session: &Session, services: &[&str]) {
    let exposed = |service: &&str| ExposedService {
        namespace: "default".to_owned(),
        service: (*service).to_owned(),
        ports: vec![],
    };
    let table = ExposureTable {
        generation: 1,
        services: services.iter().map(exposed).collect(),
    };
    let (mut tables, _) = session.open(Open::target("control:table")).await.unwrap();
    write_value(&mut tables, &table, u32::MAX).await.unwrap();
    tables.shutdown().await.unwrap();
}

/// Exposes the echo service to a session and opens a stream to it.
async fn open_echo(session: &Session) -> strait_tunnel::Stream {
    expose(session, &["echo"]).await;
    let open = Open {
        policy_generation: 1,
        ..Open::target("tcp:echo.default:80")
    };
    let (mut stream, _) = session.open(open).await.unwrap();
    let mut greeting = [0; 6];
    stream.read_exact(&mut greeting).await.unwrap();
    stream
}

async fn exchange(stream: &mut strait_tunnel::Stream, text: &str) -> String {
    stream.write_all(text.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    let mut heard = vec![0; text.len()];
    stream.read_exact(&mut heard).await.unwrap();
    String::from_utf8(heard).unwrap()
}

/// An agent with its files in a directory of its own.
struct Member {
    directory: tempfile::TempDir,
    statuses: watch::Receiver<VecDeque<AgentStatus>>,
    readiness: Readiness,
    sessions: Sessions,
    tasks: Tasks,
    stop: Mutex<Option<DropGuard>>,
}

#[derive(Debug)]
struct Statuses(watch::Sender<VecDeque<AgentStatus>>);

impl Member {
    async fn start(hub: &FakeHub) -> Self {
        Self::with(&hub.token(), Way::by(Dialer::through(""))).await
    }

    async fn with(join: &JoinToken, way: Way) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let token = directory.path().join("join-token");
        std::fs::write(&token, serde_json::to_string(join).unwrap()).unwrap();
        let tasks = Tasks::default();
        let files = directory.path().join("identity");
        let (store, watching) =
            DirectoryStore::new(files.clone(), Some(token.clone()), tasks.stop().clone());
        tasks.spawn_one(watching);
        let (told, statuses) = watch::channel(VecDeque::new());
        let echo = vec![service(&["127.0.0.1"], echo_server().await)];
        let deps = Deps {
            store: Arc::new(store),
            services: Arc::new(World::new([("echo", echo)])),
            status: Arc::new(Statuses(told)),
            api_server: Some("127.0.0.1:1".to_owned()),
        };
        let config = AgentConfig {
            allow: vec![AllowPattern::everything()],
            storage: Storage::Files {
                directory: files,
                token: Some(token),
            },
            services: None,
            own_addresses: vec![],
            drain: PATIENCE,
        };
        let readiness = Readiness::default();
        let mut registry = Registry::default();
        let agent = Agent::by(way, config, deps, (&readiness, &mut registry), but_one);
        let sessions = agent.shared.sessions.clone();
        let stopped = CancellationToken::new();
        let stop = Mutex::new(Some(stopped.clone().drop_guard()));
        tasks.spawn_one(async move {
            agent.run(stopped.cancelled_owned()).await.unwrap();
        });
        Self {
            directory,
            statuses,
            readiness,
            sessions,
            tasks,
            stop,
        }
    }

    async fn until(&self, state: AgentState) -> AgentStatus {
        let mut statuses = self.statuses.clone();
        let seen = statuses.wait_for(|all| all.back().is_some_and(|s| s.state == state));
        match tokio::time::timeout(PATIENCE, seen).await {
            Ok(Ok(all)) => all.back().cloned().unwrap(),
            _ => panic!("not {state:?}: {:#?}", self.statuses.borrow()),
        }
    }

    async fn until_told(&self, words: &str) {
        let mut statuses = self.statuses.clone();
        let seen = statuses.wait_for(|all| all.iter().any(|s| s.message.contains(words)));
        let told = tokio::time::timeout(PATIENCE, seen).await;
        assert!(matches!(told, Ok(Ok(_))), "not told: {words}");
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join("identity").join(name)).unwrap()
    }

    fn stored(&self) -> Arc<crate::StoredIdentity> {
        Arc::new(crate::StoredIdentity {
            cluster: self.file("cluster"),
            certificate: self.file("tls.crt"),
            key: strait_types::Redacted::new(self.file("tls.key")),
            ca_bundle: self.file("ca.crt"),
            hubs: vec![self.file("hubs")],
            token: self.file("token"),
        })
    }

    /// Does what another replica does that renews: puts the next certificate into the store.
    fn replace_certificate(&self, hub: &FakeHub) {
        let key = strait_pki::AgentKey::generate().unwrap();
        let directory = self.path().join("identity");
        std::fs::write(directory.join("tls.key"), key.key_pem.reveal()).unwrap();
        std::fs::write(directory.join("tls.crt"), hub.issue(&key.csr_pem)).unwrap();
    }

    fn stop(&self) -> &Tasks {
        drop(self.stop.lock().take());
        &self.tasks
    }
}

impl StatusSink for Statuses {
    fn tell<'a>(
        &'a self,
        status: &'a AgentStatus,
    ) -> futures::future::BoxFuture<'a, Result<(), Box<dyn std::error::Error + Send + Sync>>> {
        self.0.send_modify(|all| all.push_back(status.clone()));
        Box::pin(std::future::ready(Ok(())))
    }
}
