//! Who of the hub may do what, and the roles for people.

use serde_json::{Value, json};
use strait_api::{
    all_crds,
    wire_names::{
        CLUSTER_GROUP, CONNECT_VERB, ENTRYPOINTS, HUB_INFO_CONFIG_MAP, HUB_NAMESPACE, PROXY_GROUP,
    },
};

use super::{CONTROLLER, HUB, HubInstall};
use crate::object::{Kind, Object};

/// Label by which a ClusterRole becomes part of the built-in `admin`, `edit` or `view`.
const AGGREGATE: &str = "rbac.authorization.k8s.io/aggregate-to-";
const CRD_GROUP: &str = "apiextensions.k8s.io";
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

impl HubInstall {
    pub(super) fn rbac(&self) -> Vec<Object> {
        let mut objects = self.own_roles();
        objects.extend(self.peoples_roles());
        objects
    }

    fn own_roles(&self) -> Vec<Object> {
        let mut objects = vec![];
        for (component, name, everywhere, here) in [
            ("hub", HUB, hub_everywhere(), hub_here()),
            (
                "controller",
                CONTROLLER,
                controller_everywhere(),
                controller_here(),
            ),
        ] {
            let object = |kind, rest| self.object(kind, component, name, rest);
            objects.extend([
                object(Kind::ClusterRole, json!({ "rules": everywhere })),
                object(Kind::ClusterRoleBinding, binding("ClusterRole", name, name)),
                object(Kind::Role, json!({ "rules": here })),
                object(Kind::RoleBinding, binding("Role", name, name)),
            ]);
        }
        // The API server's client CA, by which callers' certificates are verified.
        objects.push(self.object_in(
            "kube-system",
            Kind::RoleBinding,
            "hub",
            "strait-hub-authentication-reader",
            binding("Role", "extension-apiserver-authentication-reader", HUB),
        ));
        objects
    }

    /// Roles that come to people by the built-in ones, one to be bound, and the right of everybody
    /// who is logged in to find the hub.
    fn peoples_roles(&self) -> Vec<Object> {
        let write = ["create", "delete", "deletecollection", "patch", "update"];
        let read = ["get", "list", "watch"];
        let mut edit = self.object(
            Kind::ClusterRole,
            "controller",
            "strait-entrypoints-edit",
            json!({ "rules": [entrypoint_rule(&write)] }),
        );
        let mut view = self.object(
            Kind::ClusterRole,
            "controller",
            "strait-entrypoints-view",
            json!({ "rules": [entrypoint_rule(&read)] }),
        );
        edit = edit.with_label(&format!("{AGGREGATE}admin"), "true");
        edit = edit.with_label(&format!("{AGGREGATE}edit"), "true");
        view = view.with_label(&format!("{AGGREGATE}view"), "true");
        let connect = self.object(
            Kind::ClusterRole,
            "hub",
            "strait-connect",
            json!({ "rules": [entrypoint_rule(&[CONNECT_VERB, "get", "list", "watch"])] }),
        );
        let info = json!({ "rules": [{
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": [HUB_INFO_CONFIG_MAP],
            "verbs": ["get"],
        }]});
        let everybody = json!({
            "roleRef": { "apiGroup": RBAC_GROUP, "kind": "Role", "name": HUB_INFO_CONFIG_MAP },
            "subjects": [{ "apiGroup": RBAC_GROUP, "kind": "Group", "name": "system:authenticated" }],
        });
        vec![
            edit,
            view,
            connect,
            self.object(Kind::Role, "hub", HUB_INFO_CONFIG_MAP, info),
            self.object(Kind::RoleBinding, "hub", HUB_INFO_CONFIG_MAP, everybody),
        ]
    }
}

fn binding(kind: &str, role: &str, account: &str) -> Value {
    json!({
        "roleRef": { "apiGroup": RBAC_GROUP, "kind": kind, "name": role },
        "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": HUB_NAMESPACE }],
    })
}

fn entrypoint_rule(verbs: &[&str]) -> Value {
    rule(PROXY_GROUP, &[ENTRYPOINTS], verbs)
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({ "apiGroups": [group], "resources": resources, "verbs": verbs })
}

fn hub_everywhere() -> Value {
    json!([
        rule(
            PROXY_GROUP,
            &[ENTRYPOINTS, "managedproxyconfigurations"],
            &["get", "list", "watch"]
        ),
        rule(
            CLUSTER_GROUP,
            &["managedclusters"],
            &["get", "list", "watch", "create"]
        ),
        rule(
            CLUSTER_GROUP,
            &["managedclusters/status"],
            &["get", "patch"]
        ),
        rule(
            PROXY_GROUP,
            &["managedproxyconfigurations/status"],
            &["patch"]
        ),
        rule("authentication.k8s.io", &["tokenreviews"], &["create"]),
        rule(
            "authorization.k8s.io",
            &["subjectaccessreviews"],
            &["create"]
        ),
    ])
}

fn hub_here() -> Value {
    json!([rule("", &["secrets"], &["get", "list", "watch", "patch"])])
}

fn controller_everywhere() -> Value {
    json!([
        rule(
            PROXY_GROUP,
            &[ENTRYPOINTS],
            &["get", "list", "watch", "create", "patch", "delete"]
        ),
        // The right to connect is here so that the controller may hand it on: it makes a Role and
        // a RoleBinding of each entrypoint's `subjects`.
        rule(PROXY_GROUP, &[ENTRYPOINTS], &[CONNECT_VERB]),
        rule(
            RBAC_GROUP,
            &["roles", "rolebindings"],
            &["get", "list", "watch", "create", "patch", "delete"]
        ),
        rule(
            PROXY_GROUP,
            &["managedproxyconfigurations"],
            &["get", "list", "watch"]
        ),
        rule(
            PROXY_GROUP,
            &[
                "clusterproxyentrypoints/status",
                "managedproxyconfigurations/status"
            ],
            &["get", "patch"]
        ),
        rule(
            CLUSTER_GROUP,
            &["managedclusters"],
            &["get", "list", "watch"]
        ),
        rule(
            CLUSTER_GROUP,
            &["managedclusters/status"],
            &["get", "patch"]
        ),
        rule(
            "",
            &["namespaces"],
            &["get", "list", "watch", "create", "delete"]
        ),
        // Names cannot limit the right to create.
        rule(CRD_GROUP, &["customresourcedefinitions"], &["create"]),
        {
            "apiGroups": [CRD_GROUP],
            "resources": ["customresourcedefinitions"],
            "resourceNames": all_crds().into_iter().filter_map(|crd| crd.metadata.name).collect::<Vec<_>>(),
            "verbs": ["get", "list", "watch", "patch"],
        },
        rule("events.k8s.io", &["events"], &["create", "patch"]),
    ])
}

fn controller_here() -> Value {
    json!([
        rule(
            "",
            &["secrets"],
            &["get", "list", "watch", "create", "patch", "delete"]
        ),
        rule(
            "",
            &["configmaps"],
            &["get", "list", "watch", "create", "patch"]
        ),
        rule("apps", &["deployments"], &["get", "list", "watch"]),
        rule(
            "coordination.k8s.io",
            &["leases"],
            &[
                "get", "list", "watch", "create", "patch", "update", "delete"
            ]
        ),
    ])
}
