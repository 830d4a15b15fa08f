//! One object to apply, and the labels by which it is found again.

use serde_json::{Map, Value, json};
use strait_api::wire_names::MANAGED_BY;

/// What an object belongs to, and so what removes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The hub's cluster.
    Hub,
    /// A member's agent.
    Agent,
}

/// The kinds that are ever applied. The order is the one to apply in; objects are removed in the
/// opposite order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `Namespace`
    Namespace,
    /// `CustomResourceDefinition`
    CustomResourceDefinition,
    /// `ServiceAccount`
    ServiceAccount,
    /// `ClusterRole`
    ClusterRole,
    /// `ClusterRoleBinding`
    ClusterRoleBinding,
    /// `Role`
    Role,
    /// `RoleBinding`
    RoleBinding,
    /// `ConfigMap`
    ConfigMap,
    /// `Secret`
    Secret,
    /// `Service`
    Service,
    /// `PodDisruptionBudget`
    PodDisruptionBudget,
    /// `Deployment`
    Deployment,
}

/// One object to apply by server-side apply. Its `Debug` leaves out what a Secret holds.
#[derive(Clone, PartialEq)]
pub struct Object {
    kind: Kind,
    value: Value,
}

// === impl Part ===

impl Part {
    /// The value of `app.kubernetes.io/part-of` on everything of this part.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hub => "strait-hub",
            Self::Agent => "strait-agent",
        }
    }

    /// The label selector that finds everything that was applied for this part.
    #[must_use]
    pub fn selector(self) -> String {
        format!(
            "{}={},app.kubernetes.io/part-of={}",
            MANAGED_BY.0,
            MANAGED_BY.1,
            self.name()
        )
    }

    /// The labels of an object of this part; `component` is the role that it serves.
    pub(crate) fn labels(self, component: &str, version: &str) -> Value {
        json!({
            "app.kubernetes.io/name": "strait",
            "app.kubernetes.io/component": component,
            "app.kubernetes.io/part-of": self.name(),
            "app.kubernetes.io/version": version,
            (MANAGED_BY.0): MANAGED_BY.1,
        })
    }
}

// === impl Kind ===

impl Kind {
    /// Every kind, in the order to apply in.
    pub const ALL: [Self; 12] = [
        Self::Namespace,
        Self::CustomResourceDefinition,
        Self::ServiceAccount,
        Self::ClusterRole,
        Self::ClusterRoleBinding,
        Self::Role,
        Self::RoleBinding,
        Self::ConfigMap,
        Self::Secret,
        Self::Service,
        Self::PodDisruptionBudget,
        Self::Deployment,
    ];

    /// Its API group, empty for the core.
    #[must_use]
    pub fn group(self) -> &'static str {
        match self {
            Self::Namespace
            | Self::ServiceAccount
            | Self::ConfigMap
            | Self::Secret
            | Self::Service => "",
            Self::CustomResourceDefinition => "apiextensions.k8s.io",
            Self::ClusterRole | Self::ClusterRoleBinding | Self::Role | Self::RoleBinding => {
                "rbac.authorization.k8s.io"
            }
            Self::PodDisruptionBudget => "policy",
            Self::Deployment => "apps",
        }
    }

    /// Its version, which is `v1` for every kind here.
    #[must_use]
    pub fn version(self) -> &'static str {
        "v1"
    }

    /// Its name in manifests.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespace => "Namespace",
            Self::CustomResourceDefinition => "CustomResourceDefinition",
            Self::ServiceAccount => "ServiceAccount",
            Self::ClusterRole => "ClusterRole",
            Self::ClusterRoleBinding => "ClusterRoleBinding",
            Self::Role => "Role",
            Self::RoleBinding => "RoleBinding",
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::Service => "Service",
            Self::PodDisruptionBudget => "PodDisruptionBudget",
            Self::Deployment => "Deployment",
        }
    }

    /// Its name in paths.
    #[must_use]
    pub fn plural(self) -> &'static str {
        match self {
            Self::Namespace => "namespaces",
            Self::CustomResourceDefinition => "customresourcedefinitions",
            Self::ServiceAccount => "serviceaccounts",
            Self::ClusterRole => "clusterroles",
            Self::ClusterRoleBinding => "clusterrolebindings",
            Self::Role => "roles",
            Self::RoleBinding => "rolebindings",
            Self::ConfigMap => "configmaps",
            Self::Secret => "secrets",
            Self::Service => "services",
            Self::PodDisruptionBudget => "poddisruptionbudgets",
            Self::Deployment => "deployments",
        }
    }

    /// Whether objects of it lie in a namespace.
    #[must_use]
    pub fn is_namespaced(self) -> bool {
        !matches!(
            self,
            Self::Namespace
                | Self::CustomResourceDefinition
                | Self::ClusterRole
                | Self::ClusterRoleBinding
        )
    }

    fn api_version(self) -> String {
        match self.group() {
            "" => self.version().to_owned(),
            group => format!("{group}/{}", self.version()),
        }
    }
}

// === impl Object ===

impl Object {
    /// An object of its kind, metadata and remaining fields. `rest` is a JSON object.
    pub(crate) fn new(kind: Kind, metadata: Value, rest: Value) -> Self {
        let mut value = Map::new();
        value.insert("apiVersion".to_owned(), kind.api_version().into());
        value.insert("kind".to_owned(), kind.name().into());
        value.insert("metadata".to_owned(), metadata);
        if let Value::Object(rest) = rest {
            value.extend(rest);
        }
        Self {
            kind,
            value: Value::Object(value),
        }
    }

    pub(crate) fn with_label(mut self, key: &str, value: &str) -> Self {
        self.value["metadata"]["labels"][key] = value.into();
        self
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.value["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Its namespace; `None` for what lies in no namespace.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.value["metadata"]["namespace"].as_str()
    }

    /// The whole object as it is applied.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }
}

impl std::fmt::Debug for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("Object");
        out.field("kind", &self.kind).field("name", &self.name());
        if self.kind != Kind::Secret {
            out.field("value", &self.value);
        }
        out.finish_non_exhaustive()
    }
}

/// Puts objects into the order to apply in: by kind, then namespace, then name.
pub(crate) fn sorted(mut objects: Vec<Object>) -> Vec<Object> {
    objects
        .sort_by(|a, b| (a.kind, a.namespace(), a.name()).cmp(&(b.kind, b.namespace(), b.name())));
    objects
}

#[cfg(test)]
pub(crate) mod tests {
    use k8s_openapi::{
        api::{
            apps::v1::Deployment,
            core::v1::{ConfigMap, Namespace, Secret, Service, ServiceAccount},
            policy::v1::PodDisruptionBudget,
            rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
        },
        apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    };
    use serde_json::json;

    use super::*;

    #[test]
    fn kinds_are_listed_in_their_order() {
        assert!(Kind::ALL.is_sorted());
    }

    /// What must hold of whatever we apply.
    pub(crate) fn assert_sound(objects: &[Object], part: Part) {
        for object in objects {
            let value = object.value();
            let name = format!("{:?} {}", object.kind(), object.name());
            assert!(!object.name().is_empty(), "{value}");
            assert_eq!(
                object.namespace().is_some(),
                object.kind().is_namespaced(),
                "{name}"
            );
            let labels = &value["metadata"]["labels"];
            assert_eq!(labels["app.kubernetes.io/managed-by"], "strait", "{name}");
            assert_eq!(labels["app.kubernetes.io/part-of"], part.name(), "{name}");
            assert_eq!(labels["app.kubernetes.io/version"], "1.2.3", "{name}");
            assert_eq!(&as_typed(object), value, "{name} has fields nobody knows");
            for rule in value["rules"].as_array().into_iter().flatten() {
                assert!(!rule.to_string().contains('*'), "{name}: {rule}");
            }
            if object.kind() == Kind::Deployment {
                assert_restricted(&value["spec"]["template"]["spec"]);
            }
        }
    }

    pub(crate) fn find<'a>(objects: &'a [Object], kind: Kind, name: &str) -> &'a Object {
        objects
            .iter()
            .find(|o| o.kind() == kind && o.name() == name)
            .unwrap_or_else(|| panic!("no {kind:?} {name}"))
    }

    /// Pods keep to the `restricted` Pod Security Standard.
    fn assert_restricted(pod: &Value) {
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert_eq!(
            pod["securityContext"]["seccompProfile"]["type"],
            "RuntimeDefault"
        );
        for container in pod["containers"].as_array().unwrap() {
            let security = &container["securityContext"];
            assert_eq!(security["allowPrivilegeEscalation"], false);
            assert_eq!(security["readOnlyRootFilesystem"], true);
            assert_eq!(security["capabilities"]["drop"], json!(["ALL"]));
            assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz");
            assert_eq!(container["livenessProbe"]["httpGet"]["path"], "/livez");
            assert!(container["resources"]["limits"]["memory"].is_string());
        }
    }

    /// The object after a round trip through its type, which drops unknown fields.
    fn as_typed(object: &Object) -> Value {
        fn round<K: serde::de::DeserializeOwned + serde::Serialize>(value: &Value) -> Value {
            let typed: K = serde_json::from_value(value.clone()).unwrap();
            serde_json::to_value(typed).unwrap()
        }
        let value = object.value();
        match object.kind() {
            Kind::Namespace => round::<Namespace>(value),
            Kind::CustomResourceDefinition => round::<CustomResourceDefinition>(value),
            Kind::ServiceAccount => round::<ServiceAccount>(value),
            Kind::ClusterRole => round::<ClusterRole>(value),
            Kind::ClusterRoleBinding => round::<ClusterRoleBinding>(value),
            Kind::Role => round::<Role>(value),
            Kind::RoleBinding => round::<RoleBinding>(value),
            Kind::ConfigMap => round::<ConfigMap>(value),
            Kind::Secret => round::<Secret>(value),
            Kind::Service => round::<Service>(value),
            Kind::PodDisruptionBudget => round::<PodDisruptionBudget>(value),
            Kind::Deployment => round::<Deployment>(value),
        }
    }
}
