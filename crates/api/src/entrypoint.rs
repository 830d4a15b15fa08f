//! `ClusterProxyEntrypoint`: one service of one member, made reachable.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

use crate::Condition;

/// Permission and address in one: makes one service of one member reachable. It lies in the
/// member's namespace at the hub, and that namespace says which member is meant.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "proxy.open-cluster-management.io",
    version = "v1alpha1",
    kind = "ClusterProxyEntrypoint",
    plural = "clusterproxyentrypoints",
    shortname = "cpe",
    namespaced,
    status = "ClusterProxyEntrypointStatus",
    derive = "PartialEq",
    derive = "Default",
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Service","type":"string","jsonPath":".spec.service"}"#,
    printcolumn = r#"{"name":"Namespace","type":"string","jsonPath":".spec.namespace"}"#,
    printcolumn = r#"{"name":"ManagedCluster","type":"string","jsonPath":".metadata.namespace"}"#,
    printcolumn = r#"{"name":"URL","type":"string","jsonPath":".status.url"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterProxyEntrypointSpec {
    /// Name of the Service in the member.
    pub service: String,
    /// Namespace of the Service in the member.
    pub namespace: String,
    /// Ports that are exposed, by number or by name; none means all ports of the Service.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "numbers_or_names"
    )]
    #[schemars(schema_with = "ports")]
    pub ports: Vec<String>,
    /// How the hub speaks to the service for callers who come by HTTPS; when absent, as the port's
    /// name and `appProtocol` say. CONNECT callers speak whatever they like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// How the hub verifies the service's TLS for callers who come by HTTPS. Its presence means
    /// `protocol: https`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<UpstreamTls>,
    /// Who may connect, besides those whom RBAC allows the verb `connect` on this object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subjects: Vec<Subject>,
    /// Whether callers must be known to the hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
}

/// The protocol in which the hub speaks to a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Bytes; not reachable by HTTPS by host.
    Tcp,
    /// HTTP in clear inside the tunnel.
    Http,
    /// HTTP over TLS, end to end between hub and service.
    Https,
}

/// How the hub verifies a service's certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamTls {
    /// The name that the certificate must carry; `<service>.<namespace>.svc` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// PEM certificates that the service's must chain to; the system's roots when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle: Option<String>,
    /// Accept any certificate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure_skip_verify: bool,
}

/// The kind of a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SubjectKind {
    /// A user by name.
    User,
    /// A group by name.
    Group,
    /// A service account of the hub's cluster.
    ServiceAccount,
}

/// Somebody who may connect, in the form of RBAC subjects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    /// What it is.
    pub kind: SubjectKind,
    /// Its name.
    pub name: String,
    /// Namespace of a service account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// Whether callers must be known to the hub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Access {
    /// Only callers that the hub knows and allows.
    #[default]
    Authenticated,
    /// The service itself authenticates its callers; only reachable by TLS pass-through.
    Anonymous,
}

/// What the controller says of an entrypoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterProxyEntrypointStatus {
    /// `https://<uid>/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The object's uid: a name that never means anything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Every host name that leads here, the canonical one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hostnames: Vec<String>,
    /// `Accepted`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// People write `443` as often as `"443"`.
fn ports(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": { "x-kubernetes-int-or-string": true } })
}

fn numbers_or_names<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let ports = Vec::<IntOrString>::deserialize(from)?;
    Ok(ports
        .into_iter()
        .map(|port| match port {
            IntOrString::Int(number) => number.to_string(),
            IntOrString::String(name) => name,
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_may_be_numbers_or_texts() {
        let spec: ClusterProxyEntrypointSpec = serde_json::from_value(serde_json::json!({
            "service": "a", "namespace": "b", "ports": [443, "8080", "https"],
        }))
        .unwrap();
        assert_eq!(spec.ports, ["443", "8080", "https"]);
    }
}
