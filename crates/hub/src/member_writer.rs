//! Writes how members are into the inventory, when it changes.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use strait_runtime::Backoff;
use strait_types::ClusterName;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    agent_sessions::AgentSessions,
    deps::Members,
    member_report::MemberReport,
    snapshot::{Member, Snapshot},
};

/// How long a hub that has just started waits for agents before it says that one is missing.
/// Agents come back within seconds.
const SETTLE: Duration = Duration::from_secs(30);
/// Time between two tries to write.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// What was last written of a member: how it is, and of which object.
type Written = (MemberReport, Member);

/// Writes how members are.
#[derive(Debug)]
pub(crate) struct MemberWriter {
    pub(crate) members: Arc<dyn Members>,
    pub(crate) sessions: Arc<AgentSessions>,
    pub(crate) inventory: watch::Receiver<Arc<Snapshot>>,
}

// === impl MemberWriter ===

impl MemberWriter {
    /// Writes each change until `stop`; what could not be written is tried again.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut changes = self.sessions.watch();
        let mut written: BTreeMap<ClusterName, Written> = BTreeMap::new();
        let mut backoff = Backoff::random(RETRY.0, RETRY.1);
        let settled = tokio::time::Instant::now() + SETTLE;
        loop {
            changes.borrow_and_update();
            let snapshot = Arc::clone(&self.inventory.borrow_and_update());
            let quiet = tokio::time::Instant::now() < settled;
            let done = self.write_all(&snapshot, quiet, &mut written).await;
            if done {
                backoff.reset();
            }
            let again = async {
                match (done, quiet) {
                    (false, _) => tokio::time::sleep(backoff.next_delay()).await,
                    (true, true) => tokio::time::sleep_until(settled).await,
                    (true, false) => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                changed = changes.changed() => if changed.is_err() { return },
                changed = self.inventory.changed() => if changed.is_err() { return },
                () = again => {}
            }
        }
    }

    /// Returns whether everything that had to be written was.
    async fn write_all(
        &self,
        snapshot: &Snapshot,
        quiet: bool,
        written: &mut BTreeMap<ClusterName, Written>,
    ) -> bool {
        written.retain(|cluster, _| snapshot.members.contains_key(cluster));
        let seen = self.sessions.clusters();
        let mut done = true;
        for (cluster, member) in &snapshot.members {
            // Who never connected to this hub may be connected to another one.
            if quiet && !seen.contains(cluster) {
                continue;
            }
            let wanted = (self.sessions.report(cluster), member.clone());
            if written.get(cluster) == Some(&wanted) {
                continue;
            }
            match self.members.report(cluster, &wanted.0).await {
                Ok(()) => {
                    written.insert(cluster.clone(), wanted);
                }
                Err(error) => {
                    let cause = std::error::Error::source(&error).map(ToString::to_string);
                    tracing::warn!(%cluster, %error, cause, "a member's state was not written");
                    done = false;
                }
            }
        }
        done
    }
}
