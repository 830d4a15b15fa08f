//! Every field that the original kinds have is taken here as well, with the same type.
#![expect(clippy::unwrap_used, reason = "the schema of a test may fail the test")]

use serde_json::Value;
use strait_api::all_crds;

/// Fields of `ManagedProxyConfiguration` (cluster-proxy 0.11): path and type.
const CONFIGURATION: &[(&str, &str)] = &[
    (
        "spec.authentication.dump.secrets.signingAgentServerSecretName",
        "string",
    ),
    (
        "spec.authentication.dump.secrets.signingProxyClientSecretName",
        "string",
    ),
    (
        "spec.authentication.dump.secrets.signingProxyServerSecretName",
        "string",
    ),
    (
        "spec.authentication.signer.selfSigned.additionalSANs",
        "array",
    ),
    ("spec.authentication.signer.type", "string"),
    ("spec.deploy.ports.adminServer", "integer"),
    ("spec.deploy.ports.agentServer", "integer"),
    ("spec.deploy.ports.healthServer", "integer"),
    ("spec.deploy.ports.proxyServer", "integer"),
    ("spec.proxyAgent.additionalArgs", "array"),
    ("spec.proxyAgent.additionalServiceCAConfigMap", "string"),
    ("spec.proxyAgent.additionalServiceProxyArgs", "array"),
    ("spec.proxyAgent.image", "string"),
    ("spec.proxyAgent.imagePullSecrets", "array"),
    ("spec.proxyAgent.replicas", "integer"),
    ("spec.proxyServer.additionalArgs", "array"),
    ("spec.proxyServer.entrypoint.hostname.value", "string"),
    (
        "spec.proxyServer.entrypoint.loadBalancerService.annotations",
        "array",
    ),
    (
        "spec.proxyServer.entrypoint.loadBalancerService.name",
        "string",
    ),
    ("spec.proxyServer.entrypoint.port", "integer"),
    ("spec.proxyServer.entrypoint.type", "string"),
    ("spec.proxyServer.image", "string"),
    ("spec.proxyServer.inClusterServiceName", "string"),
    ("spec.proxyServer.namespace", "string"),
    ("spec.proxyServer.nodePlacement.nodeSelector", "object"),
    ("spec.proxyServer.nodePlacement.tolerations", "array"),
    ("spec.proxyServer.replicas", "integer"),
    ("spec.userServer.additionalSANs", "array"),
    ("status.conditions", "array"),
    ("status.lastObservedGeneration", "integer"),
];

/// Fields of `ManagedCluster` (Open Cluster Management 0.16).
const CLUSTER: &[(&str, &str)] = &[
    ("spec.hubAcceptsClient", "boolean"),
    ("spec.leaseDurationSeconds", "integer"),
    ("spec.managedClusterClientConfigs", "array"),
    ("status.allocatable", "object"),
    ("status.capacity", "object"),
    ("status.clusterClaims", "array"),
    ("status.conditions", "array"),
    ("status.version.kubernetes", "string"),
];

#[test]
fn every_field_of_the_originals_is_taken() {
    for (name, fields) in [
        (
            "managedproxyconfigurations.proxy.open-cluster-management.io",
            CONFIGURATION,
        ),
        (
            "managedclusters.cluster.open-cluster-management.io",
            CLUSTER,
        ),
    ] {
        let schema = schema(name);
        for (path, kind) in fields {
            assert!(takes(&schema, path, kind), "{name}: {path} is not a {kind}");
        }
    }
}

#[test]
fn what_the_published_manifests_leave_out_has_a_default() {
    let schema = schema("managedproxyconfigurations.proxy.open-cluster-management.io");
    let spec = &schema["properties"]["spec"];
    assert!(spec.get("required").is_none(), "{}", spec["required"]);
    for field in ["authentication", "proxyServer", "proxyAgent"] {
        assert_eq!(
            spec["properties"][field]["default"],
            serde_json::json!({}),
            "{field}"
        );
    }
}

fn schema(name: &str) -> Value {
    let all: Vec<Value> = all_crds()
        .iter()
        .map(|crd| serde_json::to_value(crd).unwrap())
        .collect();
    let crd = all
        .iter()
        .find(|crd| crd["metadata"]["name"] == name)
        .unwrap();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// Whether the schema takes a value of this type at this path.
fn takes(schema: &Value, path: &str, kind: &str) -> bool {
    let mut at = schema;
    for field in path.split('.') {
        if let Some(next) = at["properties"].get(field) {
            at = next;
        } else {
            return at["x-kubernetes-preserve-unknown-fields"] == true;
        }
    }
    at["type"] == kind || at["x-kubernetes-preserve-unknown-fields"] == true
}
