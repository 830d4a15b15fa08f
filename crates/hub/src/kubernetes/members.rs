//! `ManagedCluster`s.

use futures::future::BoxFuture;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use strait_api::{ManagedCluster, ManagedClusterSpec, wire_names::MANAGED_BY};
use strait_runtime::clock;
use strait_types::ClusterName;

use super::answered;
use crate::{
    deps::{Members, Unanswered},
    member_report::MemberReport,
};

/// Writers of one status may be faster than we are this many times.
const TRIES: usize = 5;

/// Members as `ManagedCluster`s.
#[derive(Debug)]
pub(super) struct KubeMembers {
    clusters: Api<ManagedCluster>,
}

// === impl KubeMembers ===

impl KubeMembers {
    pub(super) fn new(client: &Client) -> Self {
        Self {
            clusters: Api::all(client.clone()),
        }
    }

    async fn create(&self, cluster: &ClusterName) -> Result<(), Unanswered> {
        let mut wanted = ManagedCluster::new(
            cluster.as_str(),
            ManagedClusterSpec {
                hub_accepts_client: true,
                ..ManagedClusterSpec::default()
            },
        );
        let (key, value) = MANAGED_BY;
        wanted.labels_mut().insert(key.to_owned(), value.to_owned());
        answered("ManagedCluster", async {
            match self.clusters.create(&PostParams::default(), &wanted).await {
                Ok(_) => Ok(()),
                // It is there already, and stays as its owner wants it.
                Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
                Err(error) => Err(error),
            }
        })
        .await
    }

    /// Reads, changes and writes the conditions, with the version that was read: the list belongs
    /// to several writers.
    async fn write(&self, cluster: &ClusterName, report: &MemberReport) -> Result<(), Unanswered> {
        for _ in 0..TRIES {
            if answered("ManagedCluster", self.try_write(cluster, report)).await? {
                return Ok(());
            }
        }
        Err(Unanswered::new(
            "ManagedCluster",
            "others change its status all the time",
        ))
    }

    /// Returns whether nothing is left to do.
    async fn try_write(&self, cluster: &ClusterName, report: &MemberReport) -> kube::Result<bool> {
        let Some(present) = self.clusters.get_opt(cluster.as_str()).await? else {
            return Ok(true);
        };
        let existing = present
            .status
            .as_ref()
            .map(|status| status.conditions.as_slice());
        let now = clock::timestamp();
        let Some(conditions) = report.conditions(existing.unwrap_or_default(), now) else {
            return Ok(true);
        };
        let patch = json!({
            "metadata": { "resourceVersion": present.resource_version() },
            "status": { "conditions": conditions },
        });
        let params = PatchParams::default();
        match self
            .clusters
            .patch_status(cluster.as_str(), &params, &Patch::Merge(&patch))
            .await
        {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(true),
            Err(error) => Err(error),
        }
    }
}

impl Members for KubeMembers {
    fn ensure<'a>(&'a self, cluster: &'a ClusterName) -> BoxFuture<'a, Result<(), Unanswered>> {
        Box::pin(self.create(cluster))
    }

    fn report<'a>(
        &'a self,
        cluster: &'a ClusterName,
        report: &'a MemberReport,
    ) -> BoxFuture<'a, Result<(), Unanswered>> {
        Box::pin(self.write(cluster, report))
    }
}
