//! What makes a cluster a member.

use serde_json::{Value, json};
use strait_api::wire_names::{
    AGENT_IDENTITY_SECRET, AGENT_JOIN_SECRET, AGENT_NAMESPACE, AGENT_STATUS_CONFIG_MAP,
    CLUSTER_LABEL,
};

use crate::{
    object::{Kind, Object, Part, sorted},
    pod::{Container, Rollout, deployment_spec},
};

/// Name of the agent's ServiceAccount, roles and Deployment.
const NAME: &str = "strait-agent";

/// How a member's agent is installed.
#[derive(Clone, Debug)]
pub struct AgentInstall {
    /// The image, with its tag or digest.
    pub image: String,
    /// The version that the labels tell.
    pub version: String,
    /// The name of the cluster.
    pub cluster: String,
    /// How many agents run.
    pub replicas: u32,
    /// What the agent lets the hub reach, `namespace/service[:port]` each; empty means everything.
    pub allow: Vec<String>,
}

// === impl AgentInstall ===

impl AgentInstall {
    /// Everything that is applied to a member but the join token, in the order to apply in.
    #[must_use]
    pub fn objects(&self) -> Vec<Object> {
        let mut objects = vec![
            Object::new(
                Kind::Namespace,
                json!({ "name": AGENT_NAMESPACE, "labels": self.labels() }),
                json!({}),
            ),
            self.object(Kind::ServiceAccount, NAME, json!({})),
            // Made here, empty, so that the agent needs no right to create Secrets.
            self.object(
                Kind::Secret,
                AGENT_IDENTITY_SECRET,
                json!({ "type": "Opaque" }),
            ),
            self.object(Kind::ConfigMap, AGENT_STATUS_CONFIG_MAP, json!({})),
            self.object(Kind::Deployment, NAME, json!({ "spec": self.deployment() })),
        ];
        objects.extend(self.rbac());
        if self.replicas > 1 {
            let spec = json!({ "maxUnavailable": 1, "selector": { "matchLabels": {
                "app.kubernetes.io/name": "strait",
                "app.kubernetes.io/component": "agent",
            }}});
            objects.push(self.object(Kind::PodDisruptionBudget, NAME, json!({ "spec": spec })));
        }
        sorted(objects)
    }

    /// The Secret with the token file that the agent joins with.
    #[must_use]
    pub fn join_secret(&self, token_file: &str) -> Object {
        self.object(
            Kind::Secret,
            AGENT_JOIN_SECRET,
            json!({ "type": "Opaque", "stringData": { "token": token_file } }),
        )
    }

    fn rbac(&self) -> Vec<Object> {
        let subjects =
            json!([{ "kind": "ServiceAccount", "name": NAME, "namespace": AGENT_NAMESPACE }]);
        let role_ref = |kind: &str| json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": NAME });
        let cluster_wide = json!([
            { "apiGroups": [""], "resources": ["services"], "verbs": ["get"] },
            { "apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list"] },
        ]);
        let own = json!([
            {
                "apiGroups": [""],
                "resources": ["secrets"],
                "resourceNames": [AGENT_IDENTITY_SECRET, AGENT_JOIN_SECRET],
                "verbs": ["get", "list", "watch"],
            },
            {
                "apiGroups": [""],
                "resources": ["secrets"],
                "resourceNames": [AGENT_IDENTITY_SECRET],
                "verbs": ["patch"],
            },
            {
                "apiGroups": [""],
                "resources": ["configmaps"],
                "resourceNames": [AGENT_STATUS_CONFIG_MAP],
                "verbs": ["get", "patch"],
            },
        ]);
        let cluster =
            |kind, rest| Object::new(kind, json!({ "name": NAME, "labels": self.labels() }), rest);
        vec![
            cluster(Kind::ClusterRole, json!({ "rules": cluster_wide })),
            cluster(
                Kind::ClusterRoleBinding,
                json!({ "roleRef": role_ref("ClusterRole"), "subjects": subjects }),
            ),
            self.object(Kind::Role, NAME, json!({ "rules": own })),
            self.object(
                Kind::RoleBinding,
                NAME,
                json!({ "roleRef": role_ref("Role"), "subjects": subjects }),
            ),
        ]
    }

    fn deployment(&self) -> Value {
        let mut args = vec!["agent".to_owned()];
        for pattern in &self.allow {
            args.push(format!("--allow={pattern}"));
        }
        let env = json!([
            { "name": "STRAIT_POD_IPS", "valueFrom": { "fieldRef": { "apiVersion": "v1", "fieldPath": "status.podIPs" } } },
            { "name": "STRAIT_POD_NAME", "valueFrom": { "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.name" } } },
        ]);
        let container = Container {
            name: "agent",
            image: self.image.clone(),
            args,
            env,
            ports: vec![],
            cpu_request: "20m",
            memory_request: "32Mi",
            memory_limit: "512Mi",
        };
        deployment_spec(
            container,
            self.replicas,
            &Rollout::SurgeFirst,
            &self.pod_labels(),
        )
    }

    fn object(&self, kind: Kind, name: &str, rest: Value) -> Object {
        let metadata = json!({
            "name": name,
            "namespace": AGENT_NAMESPACE,
            "labels": self.labels(),
        });
        Object::new(kind, metadata, rest)
    }

    fn labels(&self) -> Value {
        let mut labels = self.pod_labels();
        labels[CLUSTER_LABEL] = self.cluster.clone().into();
        labels
    }

    fn pod_labels(&self) -> Value {
        Part::Agent.labels("agent", &self.version)
    }
}

#[cfg(test)]
mod tests;
