//! What all our pods have in common.

use serde_json::{Value, json};

/// The port of health, readiness and metrics in every role.
pub(crate) const ADMIN_PORT: u16 = 9090;
/// The user in every image of ours; any number but 0 does.
const USER: u32 = 65532;
/// Seconds that a role may take to let its streams finish after SIGTERM; the roles themselves stop
/// waiting 5 s earlier.
const GRACE_SECONDS: u32 = 35;

/// One container of ours, before it becomes a Deployment.
pub(crate) struct Container {
    pub(crate) name: &'static str,
    pub(crate) image: String,
    pub(crate) args: Vec<String>,
    pub(crate) env: Value,
    pub(crate) ports: Vec<Value>,
    pub(crate) cpu_request: &'static str,
    pub(crate) memory_request: &'static str,
    pub(crate) memory_limit: &'static str,
}

/// How a Deployment is rolled out.
pub(crate) enum Rollout {
    /// A new pod first, then the old one goes.
    SurgeFirst,
    /// An old pod first: two of one kind cannot be on one node, as with a host port.
    GoFirst,
}

/// The `spec` of a Deployment with one container.
pub(crate) fn deployment_spec(
    container: Container,
    replicas: u32,
    rollout: &Rollout,
    labels: &Value,
) -> Value {
    let (surge, unavailable) = match rollout {
        Rollout::SurgeFirst => (1, 0),
        Rollout::GoFirst => (0, 1),
    };
    let selector = json!({
        "app.kubernetes.io/name": labels["app.kubernetes.io/name"],
        "app.kubernetes.io/component": labels["app.kubernetes.io/component"],
    });
    let account = format!("strait-{}", container.name);
    json!({
        "replicas": replicas,
        "selector": { "matchLabels": selector },
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": { "maxSurge": surge, "maxUnavailable": unavailable },
        },
        "template": {
            "metadata": { "labels": labels },
            "spec": {
                "serviceAccountName": account,
                "securityContext": {
                    "runAsNonRoot": true,
                    "runAsUser": USER,
                    "runAsGroup": USER,
                    "seccompProfile": { "type": "RuntimeDefault" },
                },
                "terminationGracePeriodSeconds": GRACE_SECONDS,
                "topologySpreadConstraints": [{
                    "maxSkew": 1,
                    "topologyKey": "kubernetes.io/hostname",
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": { "matchLabels": selector },
                }],
                "containers": [container_value(container)],
            },
        },
    })
}

fn container_value(container: Container) -> Value {
    let mut ports = container.ports;
    ports.push(json!({ "name": "admin", "containerPort": ADMIN_PORT, "protocol": "TCP" }));
    json!({
        "name": container.name,
        "image": container.image,
        "imagePullPolicy": "IfNotPresent",
        "args": container.args,
        "env": container.env,
        "ports": ports,
        "readinessProbe": probe("/readyz", 2),
        "livenessProbe": probe("/livez", 10),
        "resources": {
            "requests": { "cpu": container.cpu_request, "memory": container.memory_request },
            "limits": { "memory": container.memory_limit },
        },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": { "drop": ["ALL"] },
        },
    })
}

fn probe(path: &str, period_seconds: u32) -> Value {
    json!({
        "httpGet": { "path": path, "port": "admin", "scheme": "HTTP" },
        "periodSeconds": period_seconds,
        "timeoutSeconds": 2,
        "failureThreshold": 3,
    })
}
