//! The hub's needs, met by the API server of its cluster.
//!
//! Watches keep the inventory, Secrets and ConfigMaps; callers are reviewed by TokenReview and
//! SubjectAccessReview. Nothing is written but ManagedClusters, their status, a
//! condition of the configuration, and the mark on a join token that was used.

#[cfg(test)]
mod api_server;
mod join_tokens;
mod material;
mod members;
mod notices;
mod reviews;

use std::{sync::Arc, time::Duration};

use kube::{Api, Client, core::DeserializeGuard, runtime::watcher};
use strait_api::{ClusterProxyEntrypoint, ManagedCluster, ManagedProxyConfiguration};
use strait_kube_kit::Objects as Watched;
use strait_runtime::Tasks;
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{Deps, HubConfig, Objects, Snapshot, deps::Unanswered};

/// How long the API server may take to answer.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// How long changes are gathered before a new inventory is made of them.
const GATHER: Duration = Duration::from_millis(20);

/// The hub's cluster cannot be used.
#[derive(Debug, Error)]
pub enum KubernetesError {
    /// A file that the hub was told to use cannot be.
    #[error("failed to load a file")]
    File(#[from] strait_pki::FileError),
    /// What was read cannot be used.
    #[error("failed to use the certificates of {0}")]
    Certificates(&'static str, #[source] strait_pki::PkiError),
    /// The hub was asked to stop before its cluster had answered.
    #[error("stopped before the API server had told what the hub needs")]
    Stopped,
}

/// Meets the hub's needs with this cluster. Returns when the inventory and the hub's certificates
/// have arrived, however long that takes; what is missing is logged. The watches belong to `tasks`.
///
/// # Errors
/// When a file cannot be used, or the process is asked to stop before everything is there.
pub async fn connect(
    client: &Client,
    config: &HubConfig,
    tasks: &Tasks,
) -> Result<Deps, KubernetesError> {
    let entrypoints = follow::<ClusterProxyEntrypoint>(client, tasks, "entrypoints");
    let members = follow::<ManagedCluster>(client, tasks, "members");
    let configurations = follow::<ManagedProxyConfiguration>(client, tasks, "configurations");
    let material = material::gather(client, config, tasks).await?;
    let ready = async {
        entrypoints.ready().await && members.ready().await && configurations.ready().await
    };
    tracing::info!("waiting for the inventory");
    tokio::select! {
        biased;
        () = tasks.stop().cancelled() => return Err(KubernetesError::Stopped),
        ready = ready => if !ready { return Err(KubernetesError::Stopped) },
    }
    let notices = notices::KubeNotices::new(client, configurations.clone());
    let source = Source {
        domain: config.domain.clone(),
        entrypoints,
        members,
        configurations,
    };
    let (sender, inventory) = watch::channel(Arc::new(source.snapshot(1)));
    tasks.spawn("inventory", |stop| source.keep(sender, stop));
    Ok(Deps {
        inventory,
        reviews: Arc::new(reviews::KubeReviews::new(client, config)),
        join_tokens: Arc::new(join_tokens::KubeJoinTokens::new(client)),
        members: Arc::new(members::KubeMembers::new(client)),
        notices: Arc::new(notices),
        material,
    })
}

/// The three kinds that the inventory is made of.
#[derive(Debug)]
struct Source {
    domain: String,
    entrypoints: Watched<ClusterProxyEntrypoint>,
    members: Watched<ManagedCluster>,
    configurations: Watched<ManagedProxyConfiguration>,
}

// === impl Source ===

impl Source {
    fn snapshot(&self, version: u64) -> Snapshot {
        let objects = Objects {
            entrypoints: self.entrypoints.all(),
            members: self.members.all(),
            configurations: self.configurations.all(),
        };
        Snapshot::new(version, &self.domain, &objects)
    }

    async fn keep(mut self, sender: watch::Sender<Arc<Snapshot>>, stop: CancellationToken) {
        let mut version = 1;
        loop {
            let going_on = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                changed = self.entrypoints.changed() => changed,
                changed = self.members.changed() => changed,
                changed = self.configurations.changed() => changed,
            };
            if !going_on {
                return;
            }
            tokio::time::sleep(GATHER).await;
            version += 1;
            sender.send_replace(Arc::new(self.snapshot(version)));
        }
    }
}

fn follow<K>(client: &Client, tasks: &Tasks, name: &'static str) -> Watched<K>
where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + serde::de::DeserializeOwned
        + std::fmt::Debug
        + Send
        + Sync
        + 'static,
{
    let api: Api<DeserializeGuard<K>> = Api::all(client.clone());
    let (objects, keep) =
        strait_kube_kit::watch(api, watcher::Config::default(), tasks.stop().clone());
    tasks.spawn(name, |_| keep);
    objects
}

/// Waits for an answer, but not for ever.
async fn answered<T>(
    what: &'static str,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, Unanswered> {
    match tokio::time::timeout(ANSWER_TIME, request).await {
        Ok(answer) => answer.map_err(|error| Unanswered::new(what, error)),
        Err(elapsed) => Err(Unanswered::new(what, elapsed)),
    }
}
