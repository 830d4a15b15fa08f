//! What makes a cluster a hub: the data path (`strait hub`) and the controllers
//! (`strait controller`), two Deployments of one image with rights of their own.

mod rbac;

use serde_json::{Value, json};
use strait_api::wire_names::HUB_NAMESPACE;

use crate::{
    object::{Kind, Object, Part, sorted},
    pod::{Container, Rollout, deployment_spec},
};

/// Where the hub listens, in its pods and in its Service.
const PORT: u16 = 8443;
const HUB: &str = "strait-hub";
const CONTROLLER: &str = "strait-controller";

/// The type of the hub's Service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServiceType {
    /// Reached inside the cluster, or by a host port.
    #[default]
    ClusterIp,
    /// A port on every node.
    NodePort,
    /// A load balancer of the cloud.
    LoadBalancer,
}

/// How a hub is installed.
#[derive(Clone, Debug)]
pub struct HubInstall {
    /// The image, with its tag or digest.
    pub image: String,
    /// The version that the labels tell.
    pub version: String,
    /// Where agents and callers reach the hub, `host:port` each.
    pub addresses: Vec<String>,
    /// The DNS domain below which names are served by HTTPS; empty for none.
    pub domain: String,
    /// The trust domain in agents' SPIFFE names; empty for the default.
    pub trust_domain: String,
    /// How many hubs run.
    pub replicas: u32,
    /// The type of the Service.
    pub service_type: ServiceType,
    /// A port of the nodes that leads to the hub's pods.
    pub host_port: Option<u16>,
}

// === impl ServiceType ===

impl ServiceType {
    /// As a Service spells it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClusterIp => "ClusterIP",
            Self::NodePort => "NodePort",
            Self::LoadBalancer => "LoadBalancer",
        }
    }
}

// === impl HubInstall ===

impl HubInstall {
    /// Everything that is applied to the hub's cluster but the definitions of our kinds
    /// ([`crds`](crate::crds)), in the order to apply in.
    #[must_use]
    pub fn objects(&self) -> Vec<Object> {
        let mut objects = vec![
            Object::new(
                Kind::Namespace,
                json!({ "name": HUB_NAMESPACE, "labels": self.labels("hub") }),
                json!({}),
            ),
            self.object(Kind::ServiceAccount, "hub", HUB, json!({})),
            self.object(Kind::ServiceAccount, "controller", CONTROLLER, json!({})),
            self.object(Kind::Service, "hub", HUB, json!({ "spec": self.service() })),
            self.object(
                Kind::Deployment,
                "hub",
                HUB,
                json!({ "spec": self.hub_deployment() }),
            ),
            self.object(
                Kind::Deployment,
                "controller",
                CONTROLLER,
                json!({ "spec": self.controller_deployment() }),
            ),
        ];
        objects.extend(self.rbac());
        if self.replicas > 1 {
            let spec =
                json!({ "maxUnavailable": 1, "selector": { "matchLabels": selector("hub") } });
            objects.push(self.object(
                Kind::PodDisruptionBudget,
                "hub",
                HUB,
                json!({ "spec": spec }),
            ));
        }
        sorted(objects)
    }

    fn service(&self) -> Value {
        let mut spec = json!({
            "type": self.service_type.as_str(),
            "selector": selector("hub"),
            "ports": [{ "name": "https", "port": PORT, "targetPort": "https", "protocol": "TCP" }],
        });
        if self.service_type != ServiceType::ClusterIp {
            // Keeps the caller's address for the audit log.
            spec["externalTrafficPolicy"] = "Local".into();
        }
        spec
    }

    fn hub_deployment(&self) -> Value {
        let mut port = json!({ "name": "https", "containerPort": PORT, "protocol": "TCP" });
        let mut rollout = Rollout::SurgeFirst;
        if let Some(host_port) = self.host_port {
            port["hostPort"] = host_port.into();
            rollout = Rollout::GoFirst;
        }
        let container = Container {
            name: "hub",
            image: self.image.clone(),
            args: self.args("hub"),
            env: json!([
                { "name": "STRAIT_POD_NAME", "valueFrom": { "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.name" } } },
            ]),
            ports: vec![port],
            cpu_request: "50m",
            memory_request: "64Mi",
            memory_limit: "1Gi",
        };
        deployment_spec(container, self.replicas, &rollout, &self.labels("hub"))
    }

    fn controller_deployment(&self) -> Value {
        let container = Container {
            name: "controller",
            image: self.image.clone(),
            args: self.args("controller"),
            env: json!([
                { "name": "STRAIT_POD_NAME", "valueFrom": { "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.name" } } },
            ]),
            ports: vec![],
            cpu_request: "20m",
            memory_request: "32Mi",
            memory_limit: "512Mi",
        };
        deployment_spec(
            container,
            1,
            &Rollout::SurgeFirst,
            &self.labels("controller"),
        )
    }

    fn args(&self, role: &str) -> Vec<String> {
        let mut args = vec![role.to_owned()];
        for address in &self.addresses {
            args.push(format!("--address={address}"));
        }
        if !self.domain.is_empty() {
            args.push(format!("--domain={}", self.domain));
        }
        if !self.trust_domain.is_empty() {
            args.push(format!("--trust-domain={}", self.trust_domain));
        }
        args
    }

    fn object(&self, kind: Kind, component: &str, name: &str, rest: Value) -> Object {
        self.object_in(HUB_NAMESPACE, kind, component, name, rest)
    }

    fn object_in(
        &self,
        namespace: &str,
        kind: Kind,
        component: &str,
        name: &str,
        rest: Value,
    ) -> Object {
        let mut metadata = json!({ "name": name, "labels": self.labels(component) });
        if kind.is_namespaced() {
            metadata["namespace"] = namespace.into();
        }
        Object::new(kind, metadata, rest)
    }

    fn labels(&self, component: &str) -> Value {
        Part::Hub.labels(component, &self.version)
    }
}

fn selector(component: &str) -> Value {
    json!({ "app.kubernetes.io/name": "strait", "app.kubernetes.io/component": component })
}

#[cfg(test)]
mod tests;
