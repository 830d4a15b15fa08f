//! A hub and everything around it.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use strait_api::ClusterProxyEntrypointSpec;
use strait_hub::{
    Deps, FileReport, Hub, HubConfig, JoinTokens, Material, MemberReport, Members, Notices,
    Objects, RecordVersion, Reviews, Snapshot, Unanswered, User,
};
use strait_install::JoinRecord;
use strait_pki::{Bundle, Ca, ClientVerifier, Identity, PkiError, Reloadable};
use strait_runtime::{Tasks, clock};
use strait_types::{ClusterName, JoinCredential, Redacted, TokenId};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub(crate) const DAY: SignedDuration = SignedDuration::from_hours(24);

/// How long a test waits for something that should come at once.
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// A hub that runs, and the world as it sees it.
pub(crate) struct World {
    pub(crate) address: SocketAddr,
    pub(crate) hub_ca: Ca,
    pub(crate) agent_ca: Ca,
    pub(crate) callers_ca: Ca,
    pub(crate) material: Material,
    pub(crate) reviews: Arc<FakeReviews>,
    pub(crate) tokens: Arc<FakeTokens>,
    pub(crate) members: Arc<FakeMembers>,
    pub(crate) notices: Arc<FakeNotices>,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: Tasks,
    objects: Mutex<Objects>,
    versions: AtomicU64,
    inventory: watch::Sender<Arc<Snapshot>>,
    domain: String,
}

// === impl World ===

impl World {
    /// A hub with `cluster1` and `cluster2` as members, nothing exposed, nobody known.
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// The same, its configuration changed.
    pub(crate) async fn start_with(change: impl FnOnce(&mut HubConfig)) -> Self {
        let mut config = HubConfig::new(SocketAddr::from(([127, 0, 0, 1], 0)));
        config.domain = "hub.test".to_owned();
        config.addresses = vec!["hub.test:8443".to_owned()];
        config.times.decision = Duration::from_millis(100);
        config.times.recheck = Duration::from_millis(100);
        config.times.comeback = Duration::ZERO;
        config.times.admission = Duration::from_millis(500);
        config.times.drain = Duration::from_secs(5);
        change(&mut config);
        let make = |name| Ca::generate(name, DAY, clock::timestamp()).unwrap();
        let (hub_ca, agent_ca, callers_ca) = (make("hub"), make("agents"), make("callers"));
        let material = material(&hub_ca, &agent_ca, &callers_ca);
        let objects = Objects::default();
        let domain = config.domain.clone();
        let first = Arc::new(Snapshot::new(1, &domain, &objects));
        let (inventory, receiver) = watch::channel(first);
        let notices = Arc::<FakeNotices>::default();
        let (reviews, tokens, members) = (
            Arc::<FakeReviews>::default(),
            Arc::<FakeTokens>::default(),
            Arc::default(),
        );
        let deps = Deps {
            inventory: receiver,
            reviews: Arc::clone(&reviews) as _,
            join_tokens: Arc::clone(&tokens) as _,
            members: Arc::clone(&members) as _,
            notices: Arc::clone(&notices) as _,
            material: material.clone(),
        };
        let hub = Hub::bind(config, deps, &mut Registry::default())
            .await
            .unwrap();
        let address = hub.address();
        let (tasks, stop) = (Tasks::default(), CancellationToken::new());
        let stopped = stop.clone();
        tasks.spawn_one(async move { hub.run(stopped.cancelled()).await.unwrap() });
        let world = Self {
            address,
            hub_ca,
            agent_ca,
            callers_ca,
            material,
            reviews,
            tokens,
            members,
            notices,
            stop,
            tasks,
            objects: Mutex::new(objects),
            versions: AtomicU64::new(1),
            inventory,
            domain,
        };
        world.member("cluster1", true);
        world.member("cluster2", true);
        world
    }

    /// Puts a member into the inventory, or changes it.
    pub(crate) fn member(&self, name: &str, accepted: bool) {
        let object = json!({
            "apiVersion": "cluster.open-cluster-management.io/v1",
            "kind": "ManagedCluster",
            "metadata": { "name": name, "uid": uid(name, 1) },
            "spec": { "hubAcceptsClient": accepted },
        });
        self.put_member(name, object);
    }

    /// Deletes a member and makes it again, for the `nth` time.
    pub(crate) fn member_again(&self, name: &str, nth: usize) {
        self.remove_member(name);
        self.members.again(name, nth);
        let object = json!({
            "apiVersion": "cluster.open-cluster-management.io/v1",
            "kind": "ManagedCluster",
            "metadata": { "name": name, "uid": uid(name, nth) },
            "spec": { "hubAcceptsClient": true },
        });
        self.put_member(name, object);
    }

    fn put_member(&self, name: &str, object: Value) {
        let object: strait_api::ManagedCluster = serde_json::from_value(object).unwrap();
        self.change(|objects| {
            objects
                .members
                .retain(|m| m.metadata.name.as_deref() != Some(name));
            objects.members.push(Arc::new(object));
        });
    }

    pub(crate) fn remove_member(&self, name: &str) {
        self.change(|objects| {
            objects
                .members
                .retain(|m| m.metadata.name.as_deref() != Some(name));
        });
    }

    /// Exposes `service.namespace.cluster`; `spec` adds to the entrypoint's spec. Returns its uid.
    pub(crate) fn expose(&self, name: &str, spec: &Value) -> String {
        let parts: Vec<&str> = name.split('.').collect();
        let [service, namespace, cluster] = parts[..] else {
            panic!("{name}")
        };
        let number = self.versions.load(Ordering::Relaxed);
        let uid = format!("00000000-0000-4000-8000-{number:012}");
        let mut whole = json!({ "service": service, "namespace": namespace });
        for (key, value) in spec.as_object().into_iter().flatten() {
            whole[key] = value.clone();
        }
        let object = json!({
            "apiVersion": "proxy.open-cluster-management.io/v1alpha1",
            "kind": "ClusterProxyEntrypoint",
            "metadata": { "name": name, "namespace": cluster, "uid": uid },
            "spec": whole,
        });
        let object: strait_api::ClusterProxyEntrypoint = serde_json::from_value(object).unwrap();
        self.change(|objects| objects.entrypoints.push(Arc::new(object)));
        uid
    }

    /// Changes the spec of an entrypoint, which stays the same object.
    pub(crate) fn edit(&self, name: &str, edit: impl Fn(&mut ClusterProxyEntrypointSpec)) {
        self.change(|objects| {
            for entrypoint in &mut objects.entrypoints {
                if entrypoint.metadata.name.as_deref() == Some(name) {
                    edit(&mut Arc::make_mut(entrypoint).spec);
                }
            }
        });
    }

    pub(crate) fn hide(&self, name: &str) {
        self.change(|objects| {
            objects
                .entrypoints
                .retain(|e| e.metadata.name.as_deref() != Some(name));
        });
    }

    fn change(&self, change: impl FnOnce(&mut Objects)) {
        let mut objects = self.objects.lock();
        change(&mut objects);
        let version = self.versions.fetch_add(1, Ordering::Relaxed) + 1;
        self.inventory
            .send_replace(Arc::new(Snapshot::new(version, &self.domain, &objects)));
    }

    /// A certificate of the callers' authority.
    pub(crate) fn caller_identity(&self, user: &str, group: Option<&str>) -> Identity {
        let (issued, key) = self
            .callers_ca
            .issue_caller(user, group, DAY, clock::timestamp())
            .unwrap();
        Identity::from_pem(issued.chain_pem.as_bytes(), key.reveal().as_bytes()).unwrap()
    }
}

/// The uid of the `nth` member of this name.
pub(crate) fn uid(cluster: &str, nth: usize) -> String {
    format!("{cluster}-{nth}")
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
        self.tasks.stop().cancel();
    }
}

fn material(hub: &Ca, agents: &Ca, callers: &Ca) -> Material {
    let copy = |ca: &Ca| Ca::from_pem(ca.certificate_pem(), &ca.key_pem()).unwrap();
    let bundle = |ca: &Ca| Bundle::from_pem(ca.certificate_pem().as_bytes()).unwrap();
    let verifier = ClientVerifier::new(Arc::clone(bundle(agents).roots())).unwrap();
    Material {
        hub_ca: Some(Reloadable::new(copy(hub))),
        hub_bundle: Reloadable::new(hub.certificate_pem().to_owned()),
        agent_ca: Reloadable::new(copy(agents)),
        agents: Reloadable::new(verifier),
        callers: Reloadable::new(Some(bundle(callers))),
        callers_file: Reloadable::new(None),
        files: Reloadable::new(vec![]),
        native_roots: Arc::new(rustls::RootCertStore::empty()),
    }
}

/// Offers a new verifier of agents' certificates.
pub(crate) fn trust_agents_of(world: &World, ca: &Ca) {
    let bundle = Bundle::from_pem(ca.certificate_pem().as_bytes()).unwrap();
    let verifier = ClientVerifier::new(Arc::clone(bundle.roots())).unwrap();
    world.material.agents.offer(Ok::<_, PkiError>(verifier));
}

/// Waits until something is so.
pub(crate) async fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let waited = async {
        while !so() {
            // There is nothing to be woken by: the condition is read from outside.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(
        tokio::time::timeout(SOON, waited).await.is_ok(),
        "{what} did not happen"
    );
}

/// Waits for a future, but not for ever.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(SOON, future).await {
        Ok(value) => value,
        Err(elapsed) => panic!("{what}: {elapsed}"),
    }
}

// --- who is known and may what ---

/// Tokens and rights.
#[derive(Debug, Default)]
pub(crate) struct FakeReviews(Mutex<Rights>);

/// How many reviews of tokens are under way.
#[derive(Debug, Default)]
struct AtOnce {
    now: usize,
    most: usize,
}

#[derive(Debug, Default)]
struct Rights {
    tokens: BTreeMap<String, User>,
    allowed: BTreeSet<(String, String)>,
    down: bool,
    asked: usize,
    at_once: AtOnce,
}

impl FakeReviews {
    /// A token is this user's.
    pub(crate) fn token(&self, token: &str, user: &str) {
        let user = User {
            name: user.to_owned(),
            ..User::default()
        };
        self.0.lock().tokens.insert(token.to_owned(), user);
    }

    pub(crate) fn forget_token(&self, token: &str) {
        self.0.lock().tokens.remove(token);
    }

    /// A user may connect to an entrypoint object.
    pub(crate) fn allow(&self, user: &str, object: &str) {
        self.0
            .lock()
            .allowed
            .insert((user.to_owned(), object.to_owned()));
    }

    pub(crate) fn forbid(&self, user: &str, object: &str) {
        self.0
            .lock()
            .allowed
            .remove(&(user.to_owned(), object.to_owned()));
    }

    /// The API server answers, or not.
    pub(crate) fn down(&self, down: bool) {
        self.0.lock().down = down;
    }

    /// How many reviews there were.
    pub(crate) fn asked(&self) -> usize {
        self.0.lock().asked
    }

    /// How many reviews of tokens were under way at the same time, at most.
    pub(crate) fn most_at_once(&self) -> usize {
        self.0.lock().at_once.most
    }

    fn count(&self, change: isize) {
        let at_once = &mut self.0.lock().at_once;
        at_once.now = at_once.now.strict_add_signed(change);
        at_once.most = at_once.most.max(at_once.now);
    }

    fn ask<T>(&self, answer: impl FnOnce(&Rights) -> T) -> Result<T, Unanswered> {
        let mut rights = self.0.lock();
        rights.asked += 1;
        if rights.down {
            Err(Unanswered::new("the API server", "down"))
        } else {
            Ok(answer(&rights))
        }
    }
}

impl Reviews for FakeReviews {
    fn who_is<'a>(
        &'a self,
        token: &'a Redacted,
    ) -> BoxFuture<'a, Result<Option<User>, Unanswered>> {
        Box::pin(async {
            self.count(1);
            // As an API server takes a moment.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            self.count(-1);
            self.ask(|rights| rights.tokens.get(token.reveal()).cloned())
        })
    }

    fn may_connect<'a>(
        &'a self,
        user: &'a User,
        cluster: &'a ClusterName,
        object: &'a str,
    ) -> BoxFuture<'a, Result<bool, Unanswered>> {
        assert!(
            object.ends_with(cluster.as_str()),
            "asked in the wrong namespace"
        );
        let key = (user.name.clone(), object.to_owned());
        Box::pin(async move { self.ask(|rights| rights.allowed.contains(&key)) })
    }

    fn may_list_members<'a>(&'a self, user: &'a User) -> BoxFuture<'a, Result<bool, Unanswered>> {
        let key = (user.name.clone(), "managedclusters".to_owned());
        Box::pin(async move { self.ask(|rights| rights.allowed.contains(&key)) })
    }
}

// --- join tokens ---

/// Join tokens with versions.
#[derive(Debug, Default)]
pub(crate) struct FakeTokens(Mutex<BTreeMap<TokenId, (JoinRecord, u64)>>);

impl FakeTokens {
    /// Makes a token that ends after so long.
    pub(crate) fn make(&self, cluster: &str, number: u8, lives: SignedDuration) -> JoinCredential {
        let token = JoinCredential::from_random([number; 8], [number; 32]);
        let expires = clock::timestamp().checked_add(lives).unwrap();
        let record = JoinRecord::new(cluster.parse().unwrap(), &token, expires);
        self.0.lock().insert(token.id().clone(), (record, 1));
        token
    }

    pub(crate) fn used_at(&self, id: &TokenId) -> Option<Timestamp> {
        self.0.lock().get(id)?.0.used_at
    }
}

impl JoinTokens for FakeTokens {
    fn find<'a>(
        &'a self,
        id: &'a TokenId,
    ) -> BoxFuture<'a, Result<Option<(JoinRecord, RecordVersion)>, Unanswered>> {
        let found = self.0.lock().get(id).cloned();
        let found = found.map(|(record, version)| (record, RecordVersion(version.to_string())));
        Box::pin(async {
            // Lets another join read the same version.
            tokio::task::yield_now().await;
            Ok(found)
        })
    }

    fn consume<'a>(
        &'a self,
        id: &'a TokenId,
        version: RecordVersion,
        record: JoinRecord,
    ) -> BoxFuture<'a, Result<bool, Unanswered>> {
        Box::pin(async move {
            let mut tokens = self.0.lock();
            let stored = tokens
                .get_mut(id)
                .filter(|(_, now)| now.to_string() == version.0);
            let won = stored.is_some();
            if let Some(stored) = stored {
                *stored = (record, stored.1 + 1);
            }
            Ok(won)
        })
    }
}

// --- members ---

/// What the hub says of members.
#[derive(Debug, Default)]
pub(crate) struct FakeMembers(Mutex<Written>);

#[derive(Debug, Default)]
struct Written {
    ensured: BTreeSet<String>,
    /// How often a member was made, if not once.
    made: BTreeMap<String, usize>,
    reports: BTreeMap<String, MemberReport>,
}

impl FakeMembers {
    fn again(&self, cluster: &str, nth: usize) {
        self.0.lock().made.insert(cluster.to_owned(), nth);
    }

    pub(crate) fn ensured(&self, cluster: &str) -> bool {
        self.0.lock().ensured.contains(cluster)
    }

    pub(crate) fn report_of(&self, cluster: &str) -> Option<MemberReport> {
        self.0.lock().reports.get(cluster).cloned()
    }
}

impl Members for FakeMembers {
    fn ensure<'a>(&'a self, cluster: &'a ClusterName) -> BoxFuture<'a, Result<String, Unanswered>> {
        let mut written = self.0.lock();
        written.ensured.insert(cluster.to_string());
        let nth = written.made.get(cluster.as_str()).copied().unwrap_or(1);
        Box::pin(async move { Ok(uid(cluster.as_str(), nth)) })
    }

    fn report<'a>(
        &'a self,
        cluster: &'a ClusterName,
        report: &'a MemberReport,
    ) -> BoxFuture<'a, Result<(), Unanswered>> {
        self.0
            .lock()
            .reports
            .insert(cluster.to_string(), report.clone());
        Box::pin(async { Ok(()) })
    }
}

// --- the hub itself ---

/// What the hub says of itself.
#[derive(Debug, Default)]
pub(crate) struct FakeNotices(Mutex<Option<FileReport>>);

impl FakeNotices {
    pub(crate) fn files(&self) -> Option<FileReport> {
        self.0.lock().clone()
    }
}

impl Notices for FakeNotices {
    fn files<'a>(&'a self, report: &'a FileReport) -> BoxFuture<'a, Result<(), Unanswered>> {
        *self.0.lock() = Some(report.clone());
        Box::pin(async { Ok(()) })
    }
}
