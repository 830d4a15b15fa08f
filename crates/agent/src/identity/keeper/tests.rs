use std::collections::VecDeque;

use futures::future::BoxFuture;
use jiff::SignedDuration;
use parking_lot::Mutex;
use strait_install::{AgentState, AgentStatus};
use strait_pki::{AgentKey, AgentName, AgentRequest, Ca, TrustDomain};
use strait_types::{ClusterName, JoinCredential, JoinRefusal, Redacted};
use tokio::time::Instant;

use super::*;
use crate::identity::{RenewError, StoreError, join::JoinError};

#[tokio::test(start_paused = true)]
async fn a_token_is_turned_into_an_identity_that_is_kept() {
    let world = World::new([Ok(30)]);
    world.offer(token(1));
    world
        .until(|status| status.token == id(1) && status.state == AgentState::Connecting)
        .await;
    assert_eq!(world.store.saved.lock().as_ref().unwrap().token, id(1));
    assert_eq!(world.joiner.asked(), [id(1)]);
}

#[tokio::test(start_paused = true)]
async fn used_expired_and_foreign_tokens_are_told_apart_and_not_hammered() {
    for refusal in [
        JoinRefusal::TokenUsed,
        JoinRefusal::TokenExpired,
        JoinRefusal::TokenForeign,
    ] {
        let world = World::new(vec![Err(refusal); 20]);
        world.offer(token(1));
        let status = world
            .until(|status| status.state == AgentState::Refused)
            .await;
        assert_eq!(status.message, refusal.to_string());
        assert_eq!(
            serde_json::to_value(refusal).unwrap(),
            status.reason.as_str()
        );
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let asked = world.joiner.asked().len();
        assert!(
            (2..=12).contains(&asked),
            "{refusal}: {asked} tries in an hour"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn another_token_is_tried_at_once() {
    let world = World::new([Err(JoinRefusal::TokenUsed), Ok(30)]);
    world.offer(token(1));
    world
        .until(|status| status.state == AgentState::Refused)
        .await;
    let before = Instant::now();
    world.offer(token(2));
    world
        .until(|status| status.token == id(2) && status.state == AgentState::Connecting)
        .await;
    assert!(before.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_still_shows_the_old_identity_does_not_bring_it_back() {
    let world = World::new([Ok(30), Ok(30), Ok(30)]);
    let old = Arc::new(identity(&id(1), 30));
    world
        .store
        .materials
        .send_modify(|m| m.identity = Some(Arc::clone(&old)));
    *world.store.lags.lock() = true;
    world.offer(token(2));
    let joined = |status: &AgentStatus| status.token == id(2);
    world.until(joined).await;
    let mut seen = world.active.subscribe();
    seen.borrow_and_update();
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(!seen.has_changed().unwrap(), "the identity in use stays");
    assert_eq!(world.joiner.asked().len(), 1);
    let kept = Arc::new(world.store.saved.lock().clone().unwrap());
    world
        .store
        .materials
        .send_modify(|m| m.identity = Some(kept));
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(!seen.has_changed().unwrap(), "nor when it has caught up");
}

#[tokio::test(start_paused = true)]
async fn a_refused_token_does_not_take_the_identity_away() {
    let world = World::new([Ok(30), Err(JoinRefusal::TokenForeign)]);
    world.offer(token(1));
    world
        .until(|status| status.state == AgentState::Connecting)
        .await;
    world.offer(token(2));
    world
        .until(|status| status.state == AgentState::Refused)
        .await;
    assert_eq!(world.active.borrow().as_ref().unwrap().stored.token, id(1));
}

#[tokio::test(start_paused = true)]
async fn an_identity_that_cannot_be_kept_is_used_and_kept_later() {
    let world = World::new([Ok(30)]);
    *world.store.broken.lock() = 3;
    world.offer(token(1));
    world
        .until(|status| status.state == AgentState::Connecting)
        .await;
    assert!(world.store.saved.lock().is_none());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(world.store.saved.lock().is_some());
    assert_eq!(world.joiner.asked().len(), 1, "the token is spent once");
}

#[tokio::test(start_paused = true)]
async fn a_broken_identity_leaves_the_last_good_one() {
    let world = World::new([Ok(30)]);
    world.offer(token(1));
    world
        .until(|status| status.state == AgentState::Connecting)
        .await;
    let good = world.active.borrow().clone().unwrap();
    let broken = StoredIdentity {
        certificate: "broken".to_owned(),
        ..(*good.stored).clone()
    };
    world
        .store
        .materials
        .send_modify(|m| m.identity = Some(Arc::new(broken)));
    let told = world.until(|status| !status.message.is_empty()).await;
    assert!(
        told.message
            .starts_with("the stored identity cannot be used: "),
        "{told:?}"
    );
    assert!(Arc::ptr_eq(&good, world.active.borrow().as_ref().unwrap()));
    world
        .store
        .materials
        .send_modify(|m| m.identity = Some(Arc::clone(&good.stored)));
    world.until(|status| status.message.is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_certificate_near_its_end_is_renewed() {
    let world = World::new([Ok(-24)]);
    world.offer(token(1));
    let renewed = world
        .until(|status| status.certificate_expires.starts_with("2"))
        .await;
    assert_eq!(renewed.token, id(1));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(*world.renewals.lock(), 1);
    let active = world.active.borrow().clone().unwrap();
    assert!(active.validity.seconds_left(clock::timestamp()) > 20 * 86400);
}

/// A keeper with a store, hubs and sessions that do what they are told.
struct World {
    store: Arc<Store>,
    joiner: Arc<Hubs>,
    renewals: Arc<Mutex<usize>>,
    active: watch::Sender<Option<Arc<Active>>>,
    board: Board,
    _stop: tokio_util::sync::DropGuard,
    tasks: strait_runtime::Tasks,
}

#[derive(Debug)]
struct Store {
    materials: watch::Sender<Materials>,
    saved: Mutex<Option<StoredIdentity>>,
    broken: Mutex<usize>,
    /// What is saved does not show yet.
    lags: Mutex<bool>,
}

#[derive(Debug)]
struct Hubs {
    /// What each join gets: a certificate that began this many days before its end, or why not.
    answers: Mutex<VecDeque<Result<i64, JoinRefusal>>>,
    asked: Mutex<Vec<String>>,
}

#[derive(Debug)]
struct Renewals(Arc<Mutex<usize>>);

impl World {
    fn new(answers: impl IntoIterator<Item = Result<i64, JoinRefusal>>) -> Self {
        let answers = Mutex::new(answers.into_iter().collect());
        let joiner = Arc::new(Hubs {
            answers,
            asked: Mutex::default(),
        });
        let (materials, _) = watch::channel(Materials {
            loaded: true,
            ..Materials::default()
        });
        let store = Arc::new(Store {
            materials,
            saved: Mutex::default(),
            broken: Mutex::default(),
            lags: Mutex::default(),
        });
        let (renewals, (active, _), board) =
            (Arc::new(Mutex::new(0)), watch::channel(None), Board::new());
        let keeper = Keeper::new(
            Arc::clone(&store) as _,
            Arc::clone(&joiner) as _,
            Arc::new(Renewals(Arc::clone(&renewals))),
            active.clone(),
            board.clone(),
        );
        let tasks = strait_runtime::Tasks::default();
        tasks.spawn("keeper", |stop| keeper.run(stop));
        let _stop = tasks.stop().clone().drop_guard();
        Self {
            store,
            joiner,
            renewals,
            active,
            board,
            _stop,
            tasks,
        }
    }

    fn offer(&self, token: JoinToken) {
        self.store
            .materials
            .send_modify(|m| m.token = Some(Arc::new(token)));
    }

    /// Waits, on the paused clock, until the status is so.
    async fn until(&self, is_so: impl Fn(&AgentStatus) -> bool) -> AgentStatus {
        for _ in 0..10_000 {
            let status = self.board.status();
            if is_so(&status) {
                return status;
            }
            assert!(!self.tasks.stop().is_cancelled(), "the keeper has ended");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it stays {:?}", self.board.status())
    }
}

impl IdentityStore for Store {
    fn materials(&self) -> watch::Receiver<Materials> {
        self.materials.subscribe()
    }

    fn save<'a>(&'a self, identity: &'a StoredIdentity) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let mut broken = self.broken.lock();
            if *broken > 0 {
                *broken -= 1;
                let source = "it is full".into();
                return Err(StoreError {
                    place: "a test".to_owned(),
                    source,
                });
            }
            *self.saved.lock() = Some(identity.clone());
            if !*self.lags.lock() {
                self.materials
                    .send_modify(|m| m.identity = Some(Arc::new(identity.clone())));
            }
            Ok(())
        })
    }
}

impl Hubs {
    fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }
}

impl Joiner for Hubs {
    fn join(&self, token: Arc<JoinToken>) -> BoxFuture<'static, Result<StoredIdentity, JoinError>> {
        let id = token.token.id().to_string();
        self.asked.lock().push(id.clone());
        let answer = match self.answers.lock().pop_front() {
            Some(Ok(days)) => Ok(identity(&id, days)),
            Some(Err(refusal)) => Err(JoinError::Refused(refusal)),
            None => Err(JoinError::NoHub),
        };
        Box::pin(std::future::ready(answer))
    }
}

impl Renewer for Renewals {
    fn renew(
        &self,
        current: Arc<StoredIdentity>,
    ) -> BoxFuture<'_, Result<StoredIdentity, RenewError>> {
        *self.0.lock() += 1;
        Box::pin(std::future::ready(Ok(identity(&current.token, 30))))
    }
}

/// An identity whose certificate is valid for 30 days: from now when `days` is positive, else
/// since that many days.
fn identity(token: &str, days: i64) -> StoredIdentity {
    let begin = clock::timestamp() + SignedDuration::from_hours(24 * days.min(0));
    let ca = Ca::generate("test", SignedDuration::from_hours(24 * 365), begin).unwrap();
    let key = AgentKey::generate().unwrap();
    let cluster: ClusterName = "cluster1".parse().unwrap();
    let life = SignedDuration::from_hours(24 * 30);
    let request = AgentRequest::from_pem(&key.csr_pem).unwrap();
    let name = AgentName {
        cluster: cluster.clone(),
        member: "1".to_owned(),
    };
    let issued = ca.issue_agent(&request, &name, &TrustDomain::default(), life, begin);
    StoredIdentity {
        cluster: cluster.to_string(),
        certificate: issued.unwrap().chain_pem,
        key: Redacted::new(key.key_pem.reveal()),
        ca_bundle: ca.certificate_pem().to_owned(),
        hubs: vec!["hub:8443".to_owned()],
        token: token.to_owned(),
    }
}

fn token(n: u8) -> JoinToken {
    JoinToken {
        cluster: "cluster1".parse().unwrap(),
        expires: clock::timestamp() + SignedDuration::from_hours(1),
        hubs: vec!["hub:8443".to_owned()],
        ca_bundle: String::new(),
        token: JoinCredential::from_random([n; 8], [n; 32]),
    }
}

fn id(n: u8) -> String {
    token(n).token.id().to_string()
}
