//! Gives each member its namespace at the hub, and takes those back that it gave.

mod apply;
mod decide;

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use strait_api::{ClusterProxyEntrypoint, ManagedCluster};
use strait_kube_kit::{Controller, Objects, Round};
use strait_runtime::clock;

/// When a failure is told that a round has met.
const TELL: Duration = Duration::from_millis(100);

/// The controller.
pub(crate) struct Clusters {
    pub(crate) client: Client,
    pub(crate) clusters: Objects<ManagedCluster>,
    pub(crate) namespaces: Objects<Namespace>,
    pub(crate) entrypoints: Objects<ClusterProxyEntrypoint>,
    /// Members whose namespace could not be made the last time, and why.
    pub(crate) failed: BTreeMap<String, String>,
}

impl Controller for Clusters {
    const NAME: &'static str = "clusters";

    async fn ready(&self) -> bool {
        self.clusters.ready().await
            && self.namespaces.ready().await
            && self.entrypoints.ready().await
    }

    async fn changed(&mut self) -> bool {
        tokio::select! {
            changed = self.clusters.changed() => changed,
            changed = self.namespaces.changed() => changed,
            changed = self.entrypoints.changed() => changed,
        }
    }

    async fn round(&mut self) -> Round {
        let seen = decide::Seen {
            inventory: self.clusters.all(),
            unreadable: self
                .clusters
                .unreadable()
                .into_iter()
                .map(|(_, name)| name)
                .collect(),
            namespaces: self.namespaces.all(),
            by_hand: decide::by_hand(&self.entrypoints.all(), self.entrypoints.unreadable()),
            failed: self.failed.clone(),
            now: clock::timestamp(),
        };
        let (mut round, failed) = apply::apply(&self.client, &decide::decide(&seen)).await;
        if failed != self.failed {
            // What is new is told, whatever happens to be tried again when.
            round.again_in(TELL);
            self.failed = failed;
        }
        round
    }
}
