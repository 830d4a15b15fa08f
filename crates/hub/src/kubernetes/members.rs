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

    async fn create(&self, cluster: &ClusterName) -> Result<String, Unanswered> {
        let mut wanted = ManagedCluster::new(
            cluster.as_str(),
            ManagedClusterSpec {
                hub_accepts_client: true,
                ..ManagedClusterSpec::default()
            },
        );
        let (key, value) = MANAGED_BY;
        wanted.labels_mut().insert(key.to_owned(), value.to_owned());
        let member = answered("ManagedCluster", async {
            match self.clusters.create(&PostParams::default(), &wanted).await {
                // It is there already, and stays as its owner wants it.
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    self.clusters.get(cluster.as_str()).await
                }
                created => created,
            }
        })
        .await?;
        if member.metadata.deletion_timestamp.is_some() {
            return Err(Unanswered::new("ManagedCluster", "it is being deleted"));
        }
        Ok(member.uid().unwrap_or_default())
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
        let accepted = present.spec.hub_accepts_client;
        let Some(conditions) = report.conditions(existing.unwrap_or_default(), accepted, now)
        else {
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
    fn ensure<'a>(&'a self, cluster: &'a ClusterName) -> BoxFuture<'a, Result<String, Unanswered>> {
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

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::kubernetes::api_server::{refusal, scripted};

    fn member() -> Value {
        json!({
            "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": { "name": "cluster1", "resourceVersion": "7", "uid": "u" },
            "spec": { "hubAcceptsClient": true },
        })
    }

    fn cluster() -> ClusterName {
        "cluster1".parse().unwrap()
    }

    #[tokio::test]
    async fn a_member_that_is_there_stays_as_it_is() {
        for answer in [(201, member()), refusal(409, "AlreadyExists")] {
            let (client, asked) = scripted(move |method, _| match method {
                "POST" => answer.clone(),
                _ => (200, member()),
            });
            let uid = KubeMembers::new(&client).ensure(&cluster()).await.unwrap();
            assert_eq!(uid, "u");
            let asked = asked.lock();
            assert!(
                asked
                    .iter()
                    .all(|(method, ..)| matches!(&**method, "POST" | "GET"))
            );
            assert_eq!(asked[0].2["spec"], json!({ "hubAcceptsClient": true }));
        }
        let (client, _) = scripted(|_, _| refusal(403, "Forbidden"));
        assert!(KubeMembers::new(&client).ensure(&cluster()).await.is_err());
    }

    #[tokio::test]
    async fn a_member_that_is_being_deleted_is_none() {
        let mut leaving = member();
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let (client, _) = scripted(move |method, _| match method {
            "POST" => refusal(409, "AlreadyExists"),
            _ => (200, leaving.clone()),
        });
        assert!(KubeMembers::new(&client).ensure(&cluster()).await.is_err());
    }

    #[tokio::test]
    async fn conditions_are_written_with_the_version_that_was_read() {
        let (client, asked) = scripted(|_, _| (200, member()));
        KubeMembers::new(&client)
            .report(&cluster(), &MemberReport::Reachable)
            .await
            .unwrap();
        let asked = asked.lock();
        let (method, path, body) = &asked[1];
        assert_eq!(method, "PATCH");
        assert!(path.contains("/managedclusters/cluster1/status?"), "{path}");
        assert_eq!(body["metadata"]["resourceVersion"], "7");
        assert_eq!(body["status"]["conditions"][0]["type"], "TunnelReachable");
    }

    #[tokio::test]
    async fn a_conflict_is_read_again_but_not_for_ever() {
        let (client, asked) = scripted(|method, _| match method {
            "PATCH" => refusal(409, "Conflict"),
            _ => (200, member()),
        });
        let report = MemberReport::Reachable;
        assert!(
            KubeMembers::new(&client)
                .report(&cluster(), &report)
                .await
                .is_err()
        );
        assert_eq!(asked.lock().len(), 2 * TRIES);
    }
}
