//! Writes what was decided.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::json;
use strait_api::{
    ManagedCluster,
    wire_names::{CLUSTER_LABEL, MANAGED_BY, NAMESPACE_OWNER_ANNOTATION},
};
use strait_kube_kit::{Round, delete_same};
use strait_types::ClusterName;

use super::decide::{Decision, Told, owner};

/// Returns how it went, and the members whose namespace could not be made, with the reason.
pub(super) async fn apply(
    client: &Client,
    decision: &Decision,
) -> (Round, BTreeMap<String, String>) {
    let (mut round, mut failed) = (Round::new(), BTreeMap::new());
    let namespaces: Api<Namespace> = Api::all(client.clone());
    for (name, uid) in &decision.delete {
        if round
            .note(delete_same(&namespaces, name, uid).await)
            .is_some()
        {
            tracing::info!(cluster = name, "namespace of a former member deleted");
        }
    }
    for cluster in &decision.create {
        let created = create(&namespaces, cluster).await;
        if let Err(error) = &created {
            let why = match error {
                kube::Error::Api(status) => status.message.clone(),
                error => error.to_string(),
            };
            failed.insert(cluster.to_string(), why);
        }
        if round.note(created).is_some() {
            tracing::info!(%cluster, "namespace made");
        }
    }
    let clusters: Api<ManagedCluster> = Api::all(client.clone());
    for told in &decision.tell {
        round.note(tell(&clusters, told).await);
    }
    (round, failed)
}

/// Makes the namespace; one that somebody else has made meanwhile stays as it is.
async fn create(api: &Api<Namespace>, cluster: &ClusterName) -> Result<(), kube::Error> {
    let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(cluster.to_string()),
            labels: Some(
                [
                    label(MANAGED_BY.0, MANAGED_BY.1),
                    label(CLUSTER_LABEL, cluster.as_str()),
                ]
                .into(),
            ),
            annotations: Some(
                [(
                    NAMESPACE_OWNER_ANNOTATION.to_owned(),
                    owner(cluster.as_str()),
                )]
                .into(),
            ),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    match api.create(&PostParams::default(), &namespace).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(error) => Err(error),
    }
}

/// Writes the conditions if nobody has written to the object since it was looked at; otherwise the
/// next round looks again.
async fn tell(api: &Api<ManagedCluster>, told: &Told) -> Result<(), kube::Error> {
    let patch = json!({
        "metadata": { "resourceVersion": told.version },
        "status": { "conditions": told.conditions },
    });
    let params = PatchParams::default();
    match api
        .patch_status(&told.name, &params, &Patch::Merge(&patch))
        .await
    {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(error),
    }
}
