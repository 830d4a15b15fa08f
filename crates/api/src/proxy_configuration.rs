//! `ManagedProxyConfiguration`: what the hub's administrator exposes, and of which members.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Condition;

/// Configuration of the hub. Fields of upstream that mean nothing here are kept as they are.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "proxy.open-cluster-management.io",
    version = "v1alpha1",
    kind = "ManagedProxyConfiguration",
    plural = "managedproxyconfigurations",
    status = "ManagedProxyConfigurationStatus",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct ManagedProxyConfigurationSpec {
    /// Services to expose: a map of `name: service.namespace.svc`, for every member, or a list of
    /// `{name, namespace, cluster}`. Kept raw, so that one wrong entry spoils only itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "anything")]
    pub services: Option<Value>,
    /// Host names by template, for every member: a list of `{hostnameTemplate, namespace, name}`,
    /// in which `$cluster` stands for the member's name. Kept raw as `services` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "anything")]
    pub service_resolvers: Option<Value>,
    /// Signer and Secret names of upstream.
    #[serde(default)]
    #[schemars(schema_with = "open_object")]
    pub authentication: BTreeMap<String, Value>,
    /// Image, replicas and entrypoint of upstream's proxy server.
    #[serde(default)]
    #[schemars(schema_with = "open_object")]
    pub proxy_server: BTreeMap<String, Value>,
    /// Image, replicas and arguments of upstream's agent.
    #[serde(default)]
    #[schemars(schema_with = "open_object")]
    pub proxy_agent: BTreeMap<String, Value>,
    /// Ports of upstream, which upstream itself does not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "open_object_or_null")]
    pub deploy: Option<Value>,
    /// Names for the user server's certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "open_object_or_null")]
    pub user_server: Option<Value>,
}

/// What the controller says of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedProxyConfigurationStatus {
    /// The generation that the conditions are about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_observed_generation: Option<i64>,
    /// `ServicesResolved`, `ImagesHonoured`, `ProxyServerDeployed`, `CertificatesValid`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Whatever it is: a structural schema can say neither "a map or a list" nor "one wrong entry is
/// no reason to refuse the object", so the controller checks it.
fn anything(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// An object that defaults to an empty one: the API server drops a `null` only where there is a
/// default, and the published manifests have `proxyServer:` with nothing behind it.
fn open_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "default": {},
        "x-kubernetes-preserve-unknown-fields": true
    })
}

fn open_object_or_null(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "nullable": true,
        "x-kubernetes-preserve-unknown-fields": true
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(spec: &Value) -> ManagedProxyConfigurationSpec {
        serde_json::from_value(spec.clone()).unwrap()
    }

    #[test]
    fn what_is_wrong_in_a_service_is_read_all_the_same() {
        let spec = serde_json::json!({
            "services": [{ "name": 7 }, null],
            "serviceResolvers": [{ "hostnameTemplate": [] }, "x"],
            "authentication": { "signer": { "type": "SelfSigned" } },
            "proxyServer": {},
        });
        let kept = read(&spec);
        assert_eq!(kept.services, Some(spec["services"].clone()));
        assert_eq!(
            kept.service_resolvers,
            Some(spec["serviceResolvers"].clone())
        );
    }

    #[test]
    fn what_the_published_manifests_leave_out_is_empty() {
        assert_eq!(
            read(&serde_json::json!({})),
            ManagedProxyConfigurationSpec::default()
        );
    }
}
