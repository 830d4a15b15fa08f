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
    /// Host names by template, for every member.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub service_resolvers: Vec<ServiceResolver>,
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

/// Makes a host name for one Service of every member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceResolver {
    /// The host name, in which `$cluster` stands for the member's name.
    pub hostname_template: String,
    /// The Service's namespace.
    pub namespace: String,
    /// The Service's name.
    pub name: String,
}

/// What the controller says of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedProxyConfigurationStatus {
    /// The generation that the conditions are about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_observed_generation: Option<i64>,
    /// `ServicesResolved`, `ImagesHonoured`, `ProxyServerDeployed`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// A map or a list: no structural schema can say that, so the controller checks it.
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
