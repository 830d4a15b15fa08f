//! Writes what was decided.

use kube::{Api, Client};
use serde_json::json;
use strait_api::{ClusterProxyEntrypoint, ManagedProxyConfiguration, wire_names::PROXY_GROUP};
use strait_kube_kit::{FieldManager, Round, delete_same};

use super::decide::Decision;

const MANAGER: FieldManager = FieldManager("strait-entrypoints");

pub(super) async fn apply(client: &Client, decision: &Decision) -> Round {
    let mut round = Round::new();
    let entrypoints = |namespace: &str| -> Api<ClusterProxyEntrypoint> {
        Api::namespaced(client.clone(), namespace)
    };
    // What must go goes first: it is access that nobody wants any more.
    for doomed in &decision.delete {
        let api = entrypoints(&doomed.namespace);
        if round
            .note(delete_same(&api, &doomed.name, &doomed.uid).await)
            .is_some()
        {
            tracing::info!(
                cluster = doomed.namespace,
                name = doomed.name,
                "entrypoint deleted"
            );
        }
    }
    for made in &decision.make {
        let (api, name) = (entrypoints(made.namespace()), made.name());
        let want = made.to_json();
        let written = if made.exists {
            MANAGER.apply(&api, &name, &want).await.map(|_| true)
        } else {
            MANAGER.create(&api, &name, &want).await
        };
        if round.note(written) == Some(true) {
            tracing::info!(cluster = made.namespace(), name, "entrypoint written");
        }
    }
    for (namespace, name, status) in &decision.tell {
        let mut want = status_of("ClusterProxyEntrypoint", Some(namespace), name, status);
        // Of this object, and of no other of its name.
        want["metadata"]["uid"] = status.uid.as_deref().into();
        let api = entrypoints(namespace);
        round.note(MANAGER.apply_status(&api, name, &want).await);
    }
    let configurations: Api<ManagedProxyConfiguration> = Api::all(client.clone());
    for (name, version, status) in &decision.report {
        let mut want = status_of("ManagedProxyConfiguration", None, name, status);
        // The hub writes conditions of its own: of the object that was seen, or not at all.
        want["metadata"]["resourceVersion"] = version.as_str().into();
        round.note(MANAGER.apply_status(&configurations, name, &want).await);
    }
    round
}

fn status_of(
    kind: &str,
    namespace: Option<&str>,
    name: &str,
    status: &impl serde::Serialize,
) -> serde_json::Value {
    let mut metadata = json!({ "name": name });
    if let Some(namespace) = namespace {
        metadata["namespace"] = namespace.into();
    }
    json!({
        "apiVersion": format!("{PROXY_GROUP}/v1alpha1"),
        "kind": kind,
        "metadata": metadata,
        "status": status,
    })
}
