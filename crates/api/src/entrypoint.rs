//! `ClusterProxyEntrypoint`: one service of one member, made reachable.

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

/// As texts, also what is no port: whoever checks them says so with the field's name.
fn numbers_or_names<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Positive(u64),
        Number(i64),
        Broken(f64),
        Name(String),
    }
    let ports = Vec::<Written>::deserialize(from)?;
    let text = |port| match port {
        Written::Positive(number) => number.to_string(),
        Written::Number(number) => number.to_string(),
        Written::Broken(number) => number.to_string(),
        Written::Name(name) => name,
    };
    Ok(ports.into_iter().map(text).collect())
}

// === impl Subject ===

impl Subject {
    /// What is wrong with it, from the field on, if anything is. RBAC refuses a whole binding for
    /// one such subject, so it is nobody.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        if self.name.is_empty() {
            return Some("name must be given".to_owned());
        }
        if self.kind != SubjectKind::ServiceAccount {
            return None;
        }
        let namespace = self.namespace.as_deref().unwrap_or_default();
        if namespace.is_empty() {
            return Some("namespace must be given".to_owned());
        }
        if !is_label(namespace) {
            return Some(format!(
                "namespace: `{namespace}` is no name of a namespace"
            ));
        }
        let is_name = self.name.len() <= 253 && self.name.split('.').all(is_part);
        (!is_name).then(|| format!("name: `{}` is no name of a service account", self.name))
    }
}

/// A DNS label (RFC 1123).
fn is_label(text: &str) -> bool {
    text.len() <= 63 && is_part(text)
}

/// What may stand between the dots of a DNS subdomain, as Kubernetes reads it.
fn is_part(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !text.is_empty() && text.bytes().all(allowed) && !text.starts_with('-') && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_as_they_are_written() {
        let spec = serde_json::json!({
            "service": "s", "namespace": "n", "ports": [443, "https", 99_999_999_999_u64, -1, 1.5],
        });
        let spec: ClusterProxyEntrypointSpec = serde_json::from_value(spec).unwrap();
        assert_eq!(spec.ports, ["443", "https", "99999999999", "-1", "1.5"]);
    }

    #[test]
    fn a_subject_that_rbac_would_refuse_is_told() {
        let subject = |kind, name: &str, namespace: Option<&str>| Subject {
            kind,
            name: name.to_owned(),
            namespace: namespace.map(str::to_owned),
        };
        use SubjectKind::{Group, ServiceAccount, User};
        for good in [
            subject(User, "Dev One", None),
            subject(Group, "team:a", None),
            subject(ServiceAccount, "ci.bot-1", Some("tools")),
        ] {
            assert_eq!(good.problem(), None, "{good:?}");
        }
        for (wrong, field) in [
            (subject(User, "", None), "name"),
            (subject(ServiceAccount, "ci", None), "namespace"),
            (subject(ServiceAccount, "ci", Some("")), "namespace"),
            (subject(ServiceAccount, "ci", Some("To_ols")), "namespace"),
            (subject(ServiceAccount, "CI_Bot", Some("tools")), "name"),
            (subject(ServiceAccount, "ci.", Some("tools")), "name"),
        ] {
            let told = wrong.problem().unwrap();
            assert!(told.starts_with(field), "{wrong:?}: {told}");
        }
    }
}
