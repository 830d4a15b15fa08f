//! The agent as a whole.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use prometheus_client::registry::Registry;
use strait_runtime::{
    Tasks,
    admin::{Condition, Readiness},
};
use strait_tunnel::InstanceId;
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    address::{forbidden, forbidden_everywhere},
    config::AgentConfig,
    connect::Way,
    dial::{AddressPolicy, Dialer},
    identity::{Active, HubJoiner, IdentityStore, Keeper},
    link::{Sessions, Shared},
    metrics::Metrics,
    services::{Cache, Services},
    session::Service,
    status::{Board, StatusSink},
};

/// How long sessions get to say good-bye after their drain.
const FAREWELL: Duration = Duration::from_secs(2);

/// What the agent needs of the world.
#[derive(Clone, Debug)]
pub struct Deps {
    /// Keeps the identity and has the token.
    pub store: Arc<dyn IdentityStore>,
    /// Looks Services up.
    pub services: Arc<dyn Services>,
    /// Takes the status.
    pub status: Arc<dyn StatusSink>,
    /// Where the member's API server listens, `host:port`; probes go there.
    pub api_server: Option<String>,
}

/// The agent, made and not yet running.
#[derive(Debug)]
pub struct Agent {
    config: AgentConfig,
    deps: Deps,
    shared: Arc<Shared>,
    active: watch::Sender<Option<Arc<Active>>>,
    ready: Condition,
}

/// A task that the agent cannot do without has ended; the log says which.
#[derive(Clone, Copy, Debug, Error)]
#[error("a part of the agent has ended")]
pub struct PartEnded;

// === impl Agent ===

impl Agent {
    /// Makes an agent. It is ready once it has a session with one hub at least.
    #[must_use]
    pub fn new(
        config: AgentConfig,
        deps: Deps,
        readiness: &Readiness,
        registry: &mut Registry,
    ) -> Self {
        let policy = if deps.services.written_down() {
            forbidden_everywhere
        } else {
            forbidden
        };
        Self::by(Way::from_env(), config, deps, (readiness, registry), policy)
    }

    pub(crate) fn by(
        way: Way,
        config: AgentConfig,
        deps: Deps,
        (readiness, registry): (&Readiness, &mut Registry),
        policy: AddressPolicy,
    ) -> Self {
        let dialer = Dialer::new(
            Cache::new(Arc::clone(&deps.services)),
            config.allow.clone().into(),
            config.own_addresses.clone().into(),
            policy,
        );
        let metrics = Metrics::new(registry);
        let shared = Shared {
            service: Service::new(dialer, deps.api_server.as_deref(), metrics.clone()),
            board: Board::new(),
            sessions: Sessions::default(),
            tasks: Tasks::default(),
            instance: InstanceId(rand::random()),
            way,
            metrics,
        };
        let ready = readiness.condition("session");
        let (active, _) = watch::channel(None);
        Self {
            config,
            deps,
            shared: Arc::new(shared),
            active,
            ready,
        }
    }

    /// Works until `stop` completes; then takes no more streams, gives the open ones time to
    /// finish, and ends.
    ///
    /// # Errors
    /// When it ended because one of its parts did, and not because it was asked to.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), PartEnded> {
        let tasks = Tasks::default();
        let status = Tasks::default();
        let Self {
            config,
            deps,
            shared,
            active,
            ready,
        } = self;
        let board = shared.board.clone();
        status.spawn_one(
            board
                .clone()
                .tell(deps.status, ready, status.stop().clone()),
        );
        let keeper = Keeper::new(
            deps.store,
            Arc::new(HubJoiner::new(shared.way.clone())),
            Arc::new(shared.sessions.clone()),
            active.clone(),
            board,
        );
        tasks.spawn("identity", |stop| keeper.run(stop));
        tasks.spawn("hubs", |stop| keep_hubs(Arc::clone(&shared), active, stop));
        let ended = tokio::select! {
            biased;
            () = stop => Ok(()),
            () = tasks.stop().cancelled() => Err(PartEnded),
        };
        status.shutdown(FAREWELL).await;
        // No new sessions; those that stand have tasks of their own.
        tasks.shutdown(FAREWELL).await;
        tracing::info!(sessions = shared.sessions.count(), grace = ?config.drain, "draining");
        shared.sessions.drain(config.drain);
        let left = shared.tasks.shutdown(config.drain + FAREWELL).await;
        if left > 0 {
            tracing::warn!(left, "streams were cut");
        }
        ended
    }
}

/// Keeps a link to every hub that the identity names.
async fn keep_hubs(
    shared: Arc<Shared>,
    active: watch::Sender<Option<Arc<Active>>>,
    stop: CancellationToken,
) {
    let mut identities = active.subscribe();
    let links = Tasks::new(stop.child_token());
    let mut kept: BTreeMap<String, CancellationToken> = BTreeMap::new();
    loop {
        let wanted = identities
            .borrow_and_update()
            .as_ref()
            .map(|a| a.stored.hubs.clone());
        let wanted = wanted.unwrap_or_default();
        kept.retain(|hub, link| {
            let keep = wanted.contains(hub);
            if !keep {
                link.cancel();
            }
            keep
        });
        for hub in wanted {
            kept.entry(hub.clone()).or_insert_with(|| {
                let link = links.stop().child_token();
                links.spawn_one(Arc::clone(&shared).keep(hub, active.subscribe(), link.clone()));
                link
            });
        }
        tokio::select! {
            () = stop.cancelled() => break,
            changed = identities.changed() => if changed.is_err() { break },
        }
    }
    links.shutdown(FAREWELL).await;
}

#[cfg(test)]
mod tests;
