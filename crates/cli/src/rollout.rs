//! What a Deployment lacks, and why.

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::ResourceExt;
use strait_install::Part;

use crate::{cluster::Cluster, failure::Failure};

/// What a Deployment lacks to be rolled out; `None` when nothing.
pub(crate) fn missing(deployment: Option<&Deployment>) -> Option<String> {
    let Some(deployment) = deployment else {
        return Some("it is not there yet".to_owned());
    };
    let wanted = deployment
        .spec
        .as_ref()
        .and_then(|s| s.replicas)
        .unwrap_or(1);
    let status = deployment.status.clone().unwrap_or_default();
    let observed = status.observed_generation >= deployment.metadata.generation;
    let (updated, ready) = (
        status.updated_replicas.unwrap_or(0),
        status.ready_replicas.unwrap_or(0),
    );
    let old = status.replicas.unwrap_or(0) - updated;
    if !observed || updated < wanted {
        Some(format!("{updated} of {wanted} pods made"))
    } else if ready < wanted {
        Some(format!("{ready} of {wanted} pods ready"))
    } else if old > 0 {
        Some(format!("{old} old pods still run"))
    } else {
        None
    }
}

/// Why our pods in a namespace do not run; empty when nothing can be seen.
pub(crate) async fn trouble(cluster: &Cluster, namespace: &str) -> Result<String, Failure> {
    let part = if namespace == Part::Agent.name() {
        Part::Agent
    } else {
        Part::Hub
    };
    let selector = format!("app.kubernetes.io/part-of={}", part.name());
    let pods: Vec<Pod> = cluster
        .list(&cluster.namespaced(namespace), &selector)
        .await?;
    Ok(pods.iter().find_map(pod_trouble).unwrap_or_default())
}

/// The failure of having waited in vain.
pub(crate) fn too_long(what: &str, waited_for: &str, trouble: &str, namespace: &str) -> Failure {
    let mut error = anyhow::anyhow!("{waited_for}");
    if !trouble.is_empty() {
        error = anyhow::anyhow!("{trouble}").context(error.to_string());
    }
    let hint = format!(
        "`kubectl -n {namespace} get pods,events` shows more; the objects stay, so try again"
    );
    Failure::from(error.context(what.to_owned())).with_hint(hint)
}

fn pod_trouble(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let name = pod.name_any();
    let containers = status.container_statuses.as_deref().unwrap_or_default();
    let told = |reason: &str, message: Option<&str>| match message {
        Some(message) if !message.is_empty() => format!("pod {name}: {reason}: {message}"),
        _ => format!("pod {name}: {reason}"),
    };
    for container in containers {
        let waiting = container.state.as_ref().and_then(|s| s.waiting.as_ref());
        if let Some(waiting) = waiting
            && let Some(reason) = waiting.reason.as_deref()
            && reason != "ContainerCreating"
        {
            let ended = container
                .last_state
                .as_ref()
                .and_then(|s| s.terminated.as_ref());
            let message = ended
                .and_then(|e| e.message.as_deref())
                .or(waiting.message.as_deref());
            return Some(told(reason, message));
        }
    }
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let unscheduled = conditions
        .iter()
        .find(|c| c.type_ == "PodScheduled" && c.status == "False");
    unscheduled.map(|c| {
        told(
            c.reason.as_deref().unwrap_or("Pending"),
            c.message.as_deref(),
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rollout_is_over_when_every_pod_is_new_and_ready() {
        let deployment = |status: serde_json::Value| -> Deployment {
            serde_json::from_value(json!({
                "metadata": { "generation": 2 },
                "spec": { "replicas": 2, "selector": {}, "template": {} },
                "status": status,
            }))
            .unwrap()
        };
        let told = |status| missing(Some(&deployment(status)));
        assert_eq!(missing(None).as_deref(), Some("it is not there yet"));
        assert_eq!(
            told(json!({ "observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2 })).as_deref(),
            Some("2 of 2 pods made")
        );
        let at = |updated: i32, ready: i32, all: i32| {
            told(
                json!({ "observedGeneration": 2, "replicas": all, "updatedReplicas": updated, "readyReplicas": ready }),
            )
        };
        assert_eq!(at(1, 1, 2).as_deref(), Some("1 of 2 pods made"));
        assert_eq!(at(2, 1, 2).as_deref(), Some("1 of 2 pods ready"));
        assert_eq!(at(2, 2, 3).as_deref(), Some("1 old pods still run"));
        assert_eq!(at(2, 2, 2), None);
    }

    #[test]
    fn a_pod_tells_why_it_does_not_run() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": "strait-hub-x" },
            "status": { "containerStatuses": [{
                "name": "hub", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": { "waiting": { "reason": "ImagePullBackOff", "message": "no such image" } },
            }]},
        }))
        .unwrap();
        assert_eq!(
            pod_trouble(&pod).as_deref(),
            Some("pod strait-hub-x: ImagePullBackOff: no such image")
        );
        let unscheduled: Pod = serde_json::from_value(json!({
            "metadata": { "name": "p" },
            "status": { "conditions": [{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node" }] },
        }))
        .unwrap();
        assert_eq!(
            pod_trouble(&unscheduled).as_deref(),
            Some("pod p: Unschedulable: no node")
        );
    }
}
