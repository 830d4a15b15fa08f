//! Everything that is decided about entrypoints by.

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Namespace, Secret},
};
use strait_api::{
    ClusterProxyEntrypoint, ManagedCluster, ManagedProxyConfiguration,
    wire_names::{AGENT_CA_SECRET, HUB_CA_SECRET, HUB_NAMESPACE},
};
use strait_kube_kit::Objects;
use strait_types::ClusterName;

use crate::inventory;

/// What there is at one moment.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) domain: String,
    pub(super) configurations: Vec<Arc<ManagedProxyConfiguration>>,
    /// Configurations and members that are there and cannot be read: what they say is not known, so
    /// nothing is taken to be unwanted.
    pub(super) unreadable: Vec<String>,
    pub(super) members: BTreeSet<ClusterName>,
    /// Namespaces in which objects can be made.
    pub(super) namespaces: BTreeSet<String>,
    pub(super) entrypoints: Vec<Arc<ClusterProxyEntrypoint>>,
    /// The hub's Deployment.
    pub(super) hub: Option<Arc<Deployment>>,
    /// The Secrets of the hub's authorities, by their names.
    pub(super) authorities: Vec<(&'static str, Option<Arc<Secret>>)>,
    pub(super) now: Timestamp,
}

/// The watches.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) configurations: Objects<ManagedProxyConfiguration>,
    pub(crate) clusters: Objects<ManagedCluster>,
    pub(crate) namespaces: Objects<Namespace>,
    pub(crate) entrypoints: Objects<ClusterProxyEntrypoint>,
    /// The hub's Deployment alone.
    pub(crate) hub: Objects<Deployment>,
    /// Those of the hub's namespace.
    pub(crate) secrets: Objects<Secret>,
}

// === impl Sources ===

impl Sources {
    pub(super) async fn ready(&self) -> bool {
        self.configurations.ready().await
            && self.clusters.ready().await
            && self.namespaces.ready().await
            && self.entrypoints.ready().await
            && self.hub.ready().await
            && self.secrets.ready().await
    }

    pub(super) async fn changed(&mut self) -> bool {
        tokio::select! {
            changed = self.configurations.changed() => changed,
            changed = self.clusters.changed() => changed,
            changed = self.namespaces.changed() => changed,
            changed = self.entrypoints.changed() => changed,
            changed = self.hub.changed() => changed,
            changed = self.secrets.changed() => changed,
        }
    }

    pub(super) fn observe(&self, domain: &str, now: Timestamp) -> Seen {
        Seen {
            domain: domain.to_owned(),
            configurations: self.configurations.all(),
            unreadable: [
                (
                    "ManagedProxyConfiguration",
                    self.configurations.unreadable(),
                ),
                ("ManagedCluster", self.clusters.unreadable()),
            ]
            .into_iter()
            .flat_map(|(kind, names)| names.into_iter().map(move |(_, n)| format!("{kind} {n}")))
            .collect(),
            members: inventory::members(&self.clusters.all()),
            namespaces: inventory::open_namespaces(&self.namespaces.all()),
            entrypoints: self.entrypoints.all(),
            hub: self.hub.all().into_iter().next(),
            authorities: [AGENT_CA_SECRET, HUB_CA_SECRET]
                .map(|name| (name, self.secrets.get(Some(HUB_NAMESPACE), name)))
                .into(),
            now,
        }
    }
}
