//! What the agent tells about itself, and where.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use serde_json::json;
use strait_api::wire_names::AGENT_STATUS_CONFIG_MAP;
use strait_install::{AgentState, AgentStatus};
use strait_kube_kit::{ApplyError, FieldManager};
use strait_runtime::{Backoff, admin::Condition};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Where a status is told.
pub trait StatusSink: fmt::Debug + Send + Sync + 'static {
    /// Tells it; what went wrong is logged by the caller.
    fn tell<'a>(
        &'a self,
        status: &'a AgentStatus,
    ) -> BoxFuture<'a, Result<(), Box<dyn std::error::Error + Send + Sync>>>;
}

/// Tells the status in the ConfigMap `strait-agent-status`.
#[derive(Clone)]
pub struct ConfigMapStatus {
    client: Client,
    namespace: String,
}

/// Tells the status in the log alone, for an agent outside of a cluster.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogStatus;

/// What the parts of the agent know of its state. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Board(watch::Sender<Known>);

#[derive(Clone, Debug, Default)]
struct Known {
    identity: IdentityState,
    hubs: BTreeMap<String, HubState>,
    stopping: bool,
}

/// What is known of the identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IdentityState {
    /// The cluster that it names; empty when there is none.
    pub(crate) cluster: String,
    /// When its certificate ends; empty when there is none.
    pub(crate) expires: String,
    /// The id of the token that this is about.
    pub(crate) token: String,
    pub(crate) phase: Phase,
}

/// How far the agent is on its way to an identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// There is nothing to get one with.
    #[default]
    Waiting,
    /// A hub is being asked; holds what went wrong the last time, or nothing.
    Joining(String),
    /// A hub refused: code and text.
    Refused(String, String),
    /// There is one.
    Good,
    /// There is one, and something is wrong with it.
    Troubled(String),
}

/// What is known of one hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HubState {
    /// A session stands, under an identity that was got with this token.
    Connected { token: String },
    /// It does not; says why.
    Apart(String),
}

// === impl Board ===

impl Board {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::default())
    }

    pub(crate) fn identity(&self, state: IdentityState) {
        self.change(|known| known.identity = state);
    }

    pub(crate) fn phase(&self, token: &str, phase: Phase) {
        self.change(|known| {
            token.clone_into(&mut known.identity.token);
            known.identity.phase = phase;
        });
    }

    pub(crate) fn hub(&self, hub: &str, state: HubState) {
        self.change(|known| {
            known.hubs.insert(hub.to_owned(), state);
        });
    }

    pub(crate) fn forget_hub(&self, hub: &str) {
        self.change(|known| {
            known.hubs.remove(hub);
        });
    }

    pub(crate) fn stopping(&self) {
        self.change(|known| known.stopping = true);
    }

    /// What the agent tells of itself now.
    #[cfg(test)]
    pub(crate) fn status(&self) -> AgentStatus {
        self.0.borrow().status()
    }

    /// Tells every change, until it is stopped, and the last one after that. What a sink does not
    /// take is told again, with the newest status then.
    pub(crate) async fn tell(
        self,
        sink: Arc<dyn StatusSink>,
        ready: Condition,
        stop: CancellationToken,
    ) {
        let mut changes = self.0.subscribe();
        let mut backoff = Backoff::random(Duration::from_millis(500), Duration::from_secs(30));
        let mut told = None;
        loop {
            let status = changes.borrow_and_update().status();
            report(&ready, &status);
            let news = told.as_ref() != Some(&status);
            let delay = match if news {
                sink.tell(&status).await
            } else {
                Ok(())
            } {
                Ok(()) => {
                    backoff.reset();
                    told = Some(status);
                    None
                }
                Err(error) => {
                    tracing::warn!(
                        error = &*error as &dyn std::error::Error,
                        "the status could not be told"
                    );
                    Some(backoff.next_delay())
                }
            };
            if stop.is_cancelled() {
                return;
            }
            tokio::select! {
                () = stop.cancelled() => self.stopping(),
                _ = changes.changed() => {}
                () = sleep(delay) => {}
            }
        }
    }

    fn change(&self, change: impl FnOnce(&mut Known)) {
        self.0.send_modify(change);
    }
}

// === impl Known ===

impl Known {
    fn status(&self) -> AgentStatus {
        let identity = &self.identity;
        let connected = |state: &HubState| matches!(state, HubState::Connected { token } if *token == identity.token);
        let hubs: Vec<String> = self
            .hubs
            .iter()
            .filter(|(_, s)| connected(s))
            .map(|(hub, _)| hub.clone())
            .collect();
        let apart = self.hubs.values().find_map(|state| match state {
            HubState::Apart(why) if !why.is_empty() => Some(why.clone()),
            HubState::Apart(_) | HubState::Connected { .. } => None,
        });
        let (state, reason, message) = match &identity.phase {
            Phase::Waiting => (AgentState::Waiting, "", "there is no join token".to_owned()),
            Phase::Joining(why) => (AgentState::Joining, "", why.clone()),
            Phase::Refused(code, text) => (AgentState::Refused, code.as_str(), text.clone()),
            Phase::Good if !hubs.is_empty() => (AgentState::Connected, "", String::new()),
            Phase::Troubled(why) if !hubs.is_empty() => (AgentState::Connected, "", why.clone()),
            Phase::Good => (AgentState::Connecting, "", apart.unwrap_or_default()),
            Phase::Troubled(why) => (AgentState::Connecting, "", why.clone()),
        };
        AgentStatus {
            cluster: identity.cluster.clone(),
            state: if self.stopping {
                AgentState::Stopping
            } else {
                state
            },
            reason: reason.to_owned(),
            message,
            token: identity.token.clone(),
            hubs,
            certificate_expires: identity.expires.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

// === impl ConfigMapStatus ===

impl ConfigMapStatus {
    /// Tells it in this namespace.
    #[must_use]
    pub fn new(client: Client, namespace: String) -> Self {
        Self { client, namespace }
    }

    async fn apply(&self, status: &AgentStatus) -> Result<(), ApplyError> {
        let want = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": AGENT_STATUS_CONFIG_MAP, "namespace": self.namespace },
            "data": status.to_data(),
        });
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.namespace);
        let manager = FieldManager("strait-agent");
        manager
            .apply(&api, AGENT_STATUS_CONFIG_MAP, &want)
            .await
            .map(|_| ())
    }
}

impl StatusSink for ConfigMapStatus {
    fn tell<'a>(
        &'a self,
        status: &'a AgentStatus,
    ) -> BoxFuture<'a, Result<(), Box<dyn std::error::Error + Send + Sync>>> {
        Box::pin(async move { Ok(self.apply(status).await?) })
    }
}

impl fmt::Debug for ConfigMapStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigMapStatus")
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

// === impl LogStatus ===

impl StatusSink for LogStatus {
    fn tell<'a>(
        &'a self,
        status: &'a AgentStatus,
    ) -> BoxFuture<'a, Result<(), Box<dyn std::error::Error + Send + Sync>>> {
        tracing::info!(
            state = ?status.state,
            hubs = ?status.hubs,
            reason = status.reason,
            message = status.message,
            "status"
        );
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Ready means: one session at least, under whatever identity.
fn report(ready: &Condition, status: &AgentStatus) {
    match status.state {
        AgentState::Connected => ready.holds(),
        // A token that does not help takes nothing away from what works.
        AgentState::Joining | AgentState::Refused if !status.hubs.is_empty() => ready.holds(),
        state if status.message.is_empty() => ready.fails(format!("{state:?}").to_lowercase()),
        _ => ready.fails(status.message.clone()),
    }
}

async fn sleep(delay: Option<Duration>) {
    match delay {
        Some(delay) => tokio::time::sleep(delay).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_counts_only_under_the_identity_in_question() {
        let board = Board::new();
        assert_eq!(board.status().state, AgentState::Waiting);
        board.phase("t1", Phase::Joining(String::new()));
        assert_eq!(board.status().state, AgentState::Joining);
        board.identity(IdentityState {
            token: "t1".into(),
            phase: Phase::Good,
            ..Default::default()
        });
        board.hub("a:1", HubState::Apart("no route".into()));
        let status = board.status();
        assert_eq!(
            (status.state, status.message.as_str()),
            (AgentState::Connecting, "no route")
        );
        board.hub("a:1", HubState::Connected { token: "t1".into() });
        let status = board.status();
        assert_eq!(
            (status.state, status.hubs.as_slice()),
            (AgentState::Connected, &["a:1".into()][..])
        );
        board.phase("t2", Phase::Refused("token-used".into(), "used".into()));
        let status = board.status();
        assert_eq!(
            (status.state, status.token.as_str()),
            (AgentState::Refused, "t2")
        );
        board.identity(IdentityState {
            token: "t2".into(),
            phase: Phase::Good,
            ..Default::default()
        });
        assert_eq!(board.status().state, AgentState::Connecting);
    }
}
