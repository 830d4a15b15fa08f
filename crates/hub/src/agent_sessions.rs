//! All sessions with agents, by cluster.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use strait_runtime::clock;
use strait_types::{ClusterName, SessionStatus};
use tokio::sync::watch;

use crate::{
    agent_session::AgentSession,
    config::Limits,
    member_report::MemberReport,
    metrics::{Counted, Metrics},
    select,
};

/// Every session, by cluster. A cluster may have several: agents may be replicated, and a new
/// session overlaps with the one that it replaces.
#[derive(Debug)]
pub(crate) struct AgentSessions {
    limits: Limits,
    metrics: Metrics,
    began: Instant,
    inner: Mutex<Inner>,
    /// Counts up whenever a session comes, goes, or is found well or ill.
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Inner {
    last: u64,
    clusters: BTreeMap<ClusterName, Cluster>,
}

#[derive(Debug, Default)]
struct Cluster {
    sessions: BTreeMap<u64, Arc<AgentSession>>,
    /// When and why the last session ended.
    last_end: Option<(Instant, String)>,
}

/// A session's place; given back when dropped.
#[derive(Debug)]
#[must_use = "dropping it says that the session is over"]
pub(crate) struct Registration {
    registry: Weak<AgentSessions>,
    cluster: ClusterName,
    generation: u64,
    _counted: Counted,
}

// === impl AgentSessions ===

impl AgentSessions {
    pub(crate) fn new(limits: Limits, metrics: Metrics) -> Self {
        Self {
            limits,
            metrics,
            began: clock::now(),
            inner: Mutex::default(),
            changes: watch::Sender::new(0),
        }
    }

    /// Adds a session, made with its generation, which no other session ever has. `None` when the
    /// cluster has as many as one may have.
    pub(crate) fn register(
        self: &Arc<Self>,
        cluster: &ClusterName,
        make: impl FnOnce(u64) -> AgentSession,
    ) -> Option<(Arc<AgentSession>, Registration)> {
        let mut inner = self.inner.lock();
        let present = inner
            .clusters
            .get(cluster)
            .map_or(0, |cluster| cluster.sessions.len());
        if present >= self.limits.sessions_per_cluster {
            return None;
        }
        inner.last += 1;
        let generation = inner.last;
        let session = Arc::new(make(generation));
        let entry = inner.clusters.entry(cluster.clone()).or_default();
        entry.sessions.insert(generation, Arc::clone(&session));
        drop(inner);
        self.changed();
        let registration = Registration {
            registry: Arc::downgrade(self),
            cluster: cluster.clone(),
            generation,
            _counted: self.metrics.open_session(),
        };
        Some((session, registration))
    }

    /// The sessions of a cluster in the order in which to try them.
    pub(crate) fn candidates(&self, cluster: &ClusterName) -> Vec<Arc<AgentSession>> {
        let inner = self.inner.lock();
        let Some(entry) = inner.clusters.get(cluster) else {
            return vec![];
        };
        let candidates: Vec<_> = entry.sessions.values().map(|s| s.candidate()).collect();
        let order = select::order(&candidates);
        order
            .iter()
            .filter_map(|generation| entry.sessions.get(generation))
            .cloned()
            .collect()
    }

    /// Whether an agent of a cluster is likely to come back at any moment: one is shutting down or
    /// went less than `patience` ago, or the hub is so young that none has had the time to come.
    pub(crate) fn expects(&self, cluster: &ClusterName, patience: Duration, now: Instant) -> bool {
        let recent = |at: Instant| now.saturating_duration_since(at) < patience;
        let inner = self.inner.lock();
        let Some(entry) = inner.clusters.get(cluster) else {
            return recent(self.began);
        };
        let going = entry.sessions.values().any(|s| s.candidate().draining);
        going || entry.last_end.as_ref().is_some_and(|(at, _)| recent(*at))
    }

    /// Every session, to look at without the lock.
    pub(crate) fn all(&self) -> Vec<Arc<AgentSession>> {
        let inner = self.inner.lock();
        inner
            .clusters
            .values()
            .flat_map(|c| c.sessions.values())
            .cloned()
            .collect()
    }

    /// Every session, for people.
    pub(crate) fn status(&self) -> Vec<SessionStatus> {
        self.all().iter().map(|session| session.status()).collect()
    }

    /// How a cluster is, from what its sessions have seen.
    pub(crate) fn report(&self, cluster: &ClusterName) -> MemberReport {
        let inner = self.inner.lock();
        let Some(entry) = inner.clusters.get(cluster) else {
            return MemberReport::NotConnected("No agent has connected to this hub".to_owned());
        };
        let probes: Vec<_> = entry.sessions.values().map(|s| s.probe()).collect();
        if probes.is_empty() {
            let why = entry.last_end.as_ref().map_or("", |(_, why)| why);
            return MemberReport::NotConnected(format!("No agent is connected; {why}"));
        }
        if probes.iter().any(|probe| matches!(probe, Some(Ok(())))) {
            return MemberReport::Reachable;
        }
        match probes.into_iter().flatten().find_map(Result::err) {
            Some(why) => MemberReport::ProbeFailed(why),
            None => MemberReport::Connecting,
        }
    }

    /// The clusters that have or had a session.
    pub(crate) fn clusters(&self) -> Vec<ClusterName> {
        self.inner.lock().clusters.keys().cloned().collect()
    }

    /// Says that something about a session has changed.
    pub(crate) fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Tells of changes.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

// === impl Registration ===

impl Registration {
    /// Gives the place back and remembers why.
    pub(crate) fn ended(self, why: String) {
        if let Some(registry) = self.registry.upgrade()
            && let Some(cluster) = registry.inner.lock().clusters.get_mut(&self.cluster)
        {
            cluster.last_end = Some((clock::now(), why));
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let Some(registry) = self.registry.upgrade() else {
            return;
        };
        if let Some(cluster) = registry.inner.lock().clusters.get_mut(&self.cluster) {
            cluster.sessions.remove(&self.generation);
        }
        registry.changed();
    }
}
