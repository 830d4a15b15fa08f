//! Keeps a session to one hub.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use parking_lot::Mutex;
use strait_runtime::{Backoff, Tasks, clock};
use strait_tunnel::{Config, EndReason, EstablishError, InstanceId, Session, Side};
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::{
    connect::{ConnectError, Way},
    identity::{Active, RenewError, Renewer, StoredIdentity, chain, renew_over},
    metrics::Metrics,
    session::Service,
    status::{Board, HubState},
    table::Table,
};

/// Between two tries to reach a hub. At most two seconds, so that members are back soon after the
/// hub is; ten thousand agents that knock then are a few thousand cheap connections a second.
const DELAYS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// A session that lasted this long was a good one: the next try comes soon again.
const HEALTHY: Duration = Duration::from_secs(30);
/// How long the streams of a session may go on once another session of the same hub, under the
/// next certificate, has taken its place: as long as a DRAIN can say, 49 days. The hub ends them
/// earlier if the certificate that replaced the session's ends.
const REPLACED: Duration = Duration::from_millis(u32::MAX as u64);

/// What the hub is told of this software.
const SOFTWARE: &str = concat!("strait/", env!("CARGO_PKG_VERSION"));

/// What all links share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) service: Service,
    pub(crate) board: Board,
    pub(crate) sessions: Sessions,
    /// The tasks of sessions and streams; they end with their session, not with a signal.
    pub(crate) tasks: Tasks,
    pub(crate) instance: InstanceId,
    pub(crate) way: Way,
    pub(crate) metrics: Metrics,
}

/// The sessions that stand now, by hub.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sessions(Arc<Mutex<List>>);

#[derive(Debug, Default)]
struct List {
    next: u64,
    sessions: BTreeMap<u64, (String, Session)>,
}

/// One session in [`Sessions`]; dropped, it leaves.
#[derive(Debug)]
#[must_use = "dropping it takes the session out"]
struct Listed {
    sessions: Sessions,
    key: u64,
}

/// Why there is no session.
#[derive(Debug, Error)]
enum LinkError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("the session with {hub} did not begin")]
    Establish { hub: String, source: EstablishError },
}

/// A session and the identity that it stands under.
#[derive(Debug)]
struct Standing {
    session: Session,
    /// What the hub exposes in it.
    table: Table,
    identity: Arc<Active>,
}

// === impl Shared ===

impl Shared {
    /// Keeps one session to `hub` until it is stopped: under the newest identity, again when it
    /// ends, and a new one before the old one goes when the identity changes.
    pub(crate) async fn keep(
        self: Arc<Self>,
        hub: String,
        mut identities: watch::Receiver<Option<Arc<Active>>>,
        stop: CancellationToken,
    ) {
        let keeping = async {
            let mut backoff = Backoff::random(DELAYS.0, DELAYS.1);
            let mut standing = None;
            loop {
                let identity = identities.borrow_and_update().clone();
                if let Some(identity) = identity {
                    self.renew_session(&hub, identity, &mut standing).await;
                }
                let began = clock::now();
                let wait = self.until_news(&hub, &mut standing, &mut identities).await;
                if clock::now() - began >= HEALTHY {
                    backoff.reset();
                }
                if wait {
                    // A new identity is tried at once.
                    tokio::select! {
                        () = tokio::time::sleep(backoff.next_delay()) => {}
                        changed = identities.changed() => if changed.is_err() { return },
                    }
                }
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = keeping => {}
        }
        self.board.forget_hub(&hub);
    }

    /// Begins a session and lets it take the place of the one that stands; that one goes on if
    /// the new one does not come about.
    async fn renew_session(
        &self,
        hub: &str,
        identity: Arc<Active>,
        standing: &mut Option<Standing>,
    ) {
        match self.begin(hub, &identity).await {
            Ok((session, table)) => {
                let token = identity.stored.token.clone();
                self.board.hub(hub, HubState::Connected { token });
                let new = Standing {
                    session,
                    table: table.clone(),
                    identity,
                };
                if let Some(old) = standing.replace(new) {
                    old.table.replaced_by(table);
                    old.session.drain(REPLACED);
                }
            }
            Err(error) => {
                let cause = &error as &dyn std::error::Error;
                tracing::warn!(hub, error = cause, "the hub cannot be reached");
                let same = |s: &Standing| s.identity.stored.token == identity.stored.token;
                if !standing.as_ref().is_some_and(same) {
                    self.board.hub(hub, HubState::Apart(chain(cause)));
                }
            }
        }
    }

    /// Waits for a reason to begin another session. Returns whether to wait before that.
    async fn until_news(
        &self,
        hub: &str,
        standing: &mut Option<Standing>,
        identities: &mut watch::Receiver<Option<Arc<Active>>>,
    ) -> bool {
        let current = identities.borrow().clone();
        let Some(Standing {
            session, identity, ..
        }) = standing
        else {
            if current.is_none() {
                let _ = identities.changed().await;
                return false;
            }
            return true;
        };
        if let Some(reason) = session.closed().now_or_never() {
            self.ended(hub, &reason);
            *standing = None;
            return true;
        }
        // The newest identity did not get a session; the old one stands.
        if !current.is_some_and(|current| Arc::ptr_eq(&current, identity)) {
            return true;
        }
        tokio::select! {
            biased;
            reason = session.closed() => {
                self.ended(hub, &reason);
                *standing = None;
                true
            }
            // The hub goes; another of its replicas may be there already.
            () = session.draining() => {
                tracing::info!(hub, "the hub drains the session");
                true
            }
            changed = identities.changed() => changed.is_err(),
        }
    }

    fn ended(&self, hub: &str, reason: &EndReason) {
        tracing::info!(hub, %reason, "session ended");
        let why = format!("the session with {hub} ended: {reason}");
        self.board.hub(hub, HubState::Apart(why));
    }

    async fn begin(&self, hub: &str, identity: &Active) -> Result<(Session, Table), LinkError> {
        let started = clock::now();
        let (tls, carrier) = self.way.connect(hub, &identity.tls).await?;
        let config = Config {
            instance: self.instance,
            software: SOFTWARE.into(),
            ..Config::default()
        };
        let established = Session::establish(tls, Side::Dialer, config).await;
        let (session, incoming, driver) = established.map_err(|source| {
            self.way.failed(hub, carrier);
            LinkError::Establish {
                hub: hub.to_owned(),
                source,
            }
        })?;
        let span = tracing::info_span!("session", hub);
        span.in_scope(
            || tracing::info!(%carrier, latency = ?(clock::now() - started), "connected"),
        );
        let listed = self.sessions.list(hub, session.clone());
        let table = Table::new();
        let serving = self
            .service
            .clone()
            .serve(incoming, table.clone(), self.tasks.clone());
        self.tasks.spawn_one(serving.instrument(span.clone()));
        let counted = self.metrics.session();
        let driving = async move {
            let _guards = (listed, counted);
            driver.run().await;
        };
        self.tasks.spawn_one(driving.instrument(span));
        Ok((session, table))
    }
}

// === impl Sessions ===

impl Sessions {
    fn list(&self, hub: &str, session: Session) -> Listed {
        let mut standing = self.0.lock();
        let key = standing.next;
        standing.next += 1;
        standing.sessions.insert(key, (hub.to_owned(), session));
        Listed {
            sessions: self.clone(),
            key,
        }
    }

    /// How many stand.
    pub(crate) fn count(&self) -> usize {
        self.0.lock().sessions.len()
    }

    /// Lets every session take no more streams and end after `deadline` at the latest.
    pub(crate) fn drain(&self, deadline: Duration) {
        for session in self.newest_first() {
            session.drain(deadline);
        }
    }

    fn newest_first(&self) -> Vec<Session> {
        let standing = self.0.lock();
        standing
            .sessions
            .values()
            .rev()
            .map(|(_, session)| session.clone())
            .collect()
    }
}

impl Renewer for Sessions {
    fn renew(
        &self,
        current: Arc<StoredIdentity>,
    ) -> BoxFuture<'_, Result<StoredIdentity, RenewError>> {
        Box::pin(async move {
            let mut last = RenewError::NoSession;
            for session in self.newest_first() {
                if session.is_draining() {
                    continue;
                }
                match renew_over(&session, &current).await {
                    Ok(identity) => return Ok(identity),
                    Err(error) => last = error,
                }
            }
            Err(last)
        })
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.sessions.0.lock().sessions.remove(&self.key);
    }
}
