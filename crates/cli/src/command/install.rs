//! `strait install hub`.

use std::time::Duration;

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use serde::Serialize;
use strait_api::wire_names::{HUB_NAMESPACE, MANAGED_BY, PROXY_GROUP};
use strait_install::{HubInstall, Kind, Object, ServiceType, crds};

use crate::{
    args::{GlobalArgs, InstallHubArgs},
    cluster::{Cluster, Outcome},
    command::version::{IMAGE, VERSION},
    failure::Failure,
    printer::{Printer, Report},
    rollout,
    wait::{Seen, Waited, seconds, wait},
};

/// Name of the hub's Service and Deployment.
const HUB: &str = "strait-hub";

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Installed {
    addresses: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    domain: String,
    image: String,
    /// Whether it was waited for and became ready.
    ready: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    objects: Vec<Applied>,
}

/// What became of one object.
#[derive(Debug, Serialize)]
pub(crate) struct Applied {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    name: String,
    outcome: Outcome,
}

pub(crate) async fn run(
    global: &GlobalArgs,
    args: &InstallHubArgs,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    let cluster = Cluster::connect(global).await?;
    let limit = Duration::from_secs(args.timeout);
    let mut install = hub_install(args);
    let mut objects = definitions(&cluster, printer).await?;
    if install.addresses.is_empty() {
        let first = |o: &Object| matches!(o.kind(), Kind::Namespace | Kind::Service);
        let first = install.objects().into_iter().filter(first).collect();
        apply(&cluster, first, printer).await?;
        install.addresses = addresses(&cluster, &install, limit, printer).await?;
    }
    objects.extend(install.objects());
    let objects = apply(&cluster, objects, printer).await?;
    let waited = match args.wait {
        true => Some(ready(&cluster, limit, printer).await?),
        false => None,
    };
    let installed = Installed {
        addresses: install.addresses,
        domain: install.domain,
        image: install.image,
        ready: waited.is_some(),
        seconds: waited.map(seconds),
        objects,
    };
    printer.report(args.format.output, &installed)
}

fn hub_install(args: &InstallHubArgs) -> HubInstall {
    HubInstall {
        image: args.image.clone().unwrap_or_else(|| IMAGE.to_owned()),
        version: VERSION.to_owned(),
        addresses: args.addresses.clone(),
        domain: args.domain.clone().unwrap_or_default(),
        trust_domain: args.trust_domain.clone().unwrap_or_default(),
        replicas: args.replicas,
        service_type: args.service_type.into(),
        host_port: args.host_port,
    }
}

/// Applies objects in their order.
pub(crate) async fn apply(
    cluster: &Cluster,
    objects: Vec<Object>,
    printer: &mut Printer<'_>,
) -> Result<Vec<Applied>, Failure> {
    let mut applied = Vec::with_capacity(objects.len());
    for object in objects {
        printer.progress(
            &format!("applying {} {}", object.kind().name(), object.name()),
            false,
        )?;
        applied.push(Applied {
            kind: object.kind().name(),
            namespace: object.namespace().map(str::to_owned),
            name: object.name().to_owned(),
            outcome: cluster.apply(&object).await?,
        });
    }
    Ok(applied)
}

/// The definitions of our kinds, without those of another owner.
async fn definitions(cluster: &Cluster, printer: &mut Printer<'_>) -> Result<Vec<Object>, Failure> {
    let kind = Kind::CustomResourceDefinition;
    let managed = format!("{}={}", MANAGED_BY.0, MANAGED_BY.1);
    let ours = cluster.ours(kind, &managed).await?;
    let mut definitions = vec![];
    for crd in crds(VERSION) {
        let is_ours = ours
            .iter()
            .any(|o| o.metadata.name.as_deref() == Some(crd.name()));
        // Those of cluster-proxy lack fields of ours and require others: ours take their place.
        let replaced = crd.name().ends_with(&format!(".{PROXY_GROUP}"));
        if is_ours || replaced || !cluster.exists(kind, None, crd.name()).await? {
            definitions.push(crd);
        } else {
            printer.say(&format!(
                "{} is there and not ours; it stays as it is",
                crd.name()
            ))?;
        }
    }
    Ok(definitions)
}

/// Where the hub can be reached, when nobody said: as before, by its Service, or by its nodes.
async fn addresses(
    cluster: &Cluster,
    install: &HubInstall,
    limit: Duration,
    printer: &mut Printer<'_>,
) -> Result<Vec<String>, Failure> {
    if let Some(info) = cluster.hub_info().await?
        && !info.addresses.is_empty()
    {
        return Ok(info.addresses);
    }
    if let Some(port) = install.host_port {
        let nodes = cluster.node_addresses().await?;
        return Ok(nodes.iter().map(|node| joined(node, port)).collect());
    }
    if install.service_type == ServiceType::ClusterIp {
        return Err(Failure::usage("nobody could reach this hub: it needs an address").with_hint(
            "`--address HOST:PORT` says where it is reached, `--host-port` and `--service-type` open a way",
        ));
    }
    let nodes = cluster.node_addresses().await?;
    let look = async || {
        let service = cluster.service(HUB_NAMESPACE, HUB).await?;
        let found = service
            .map(|s| service_addresses(&s, &nodes))
            .unwrap_or_default();
        Ok(match found.is_empty() {
            true => Seen::Waiting("waiting for the hub's Service to get an address".to_owned()),
            false => Seen::Done(found),
        })
    };
    match wait(printer, limit, look).await? {
        Waited::Done(found, _) => Ok(found),
        Waited::TooLong(_) => Err(
            Failure::new("the hub's Service has got no address").with_hint(
                "does this cluster have load balancers? `--service-type node-port` needs none",
            ),
        ),
    }
}

fn service_addresses(service: &Service, nodes: &[String]) -> Vec<String> {
    let Some(spec) = &service.spec else {
        return vec![];
    };
    let ports = spec.ports.as_deref().unwrap_or_default();
    let number = |port: i32| u16::try_from(port).ok();
    let Some(port) = ports.first() else {
        return vec![];
    };
    if spec.type_.as_deref() == Some("NodePort") {
        let Some(port) = port.node_port.and_then(number) else {
            return vec![];
        };
        return nodes.iter().map(|node| joined(node, port)).collect();
    }
    let balancer = service
        .status
        .as_ref()
        .and_then(|s| s.load_balancer.as_ref());
    let ingress = balancer
        .and_then(|b| b.ingress.as_deref())
        .unwrap_or_default();
    let hosts = ingress
        .iter()
        .filter_map(|i| i.hostname.as_deref().or(i.ip.as_deref()));
    let Some(port) = number(port.port) else {
        return vec![];
    };
    hosts.map(|host| joined(host, port)).collect()
}

/// `host:port`, with brackets around an IPv6 address.
fn joined(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// Waits until hub and controller are ready and the hub has said where it is.
async fn ready(
    cluster: &Cluster,
    limit: Duration,
    printer: &mut Printer<'_>,
) -> Result<Duration, Failure> {
    let deployments = cluster.namespaced::<Deployment>(HUB_NAMESPACE);
    let look = async || {
        for name in ["strait-controller", HUB] {
            let deployment = cluster.get(deployments.clone(), name).await?;
            if let Some(missing) = rollout::missing(deployment.as_ref()) {
                return Ok(Seen::Waiting(format!("waiting for {name}: {missing}")));
            }
        }
        Ok(match cluster.hub_info().await? {
            Some(_) => Seen::Done(()),
            None => Seen::Waiting("waiting for the hub's certificates".to_owned()),
        })
    };
    match wait(printer, limit, look).await? {
        Waited::Done((), took) => Ok(took),
        Waited::TooLong(last) => {
            let why = rollout::trouble(cluster, HUB_NAMESPACE)
                .await
                .unwrap_or_default();
            Err(rollout::too_long(
                "the hub is not ready",
                &last,
                &why,
                HUB_NAMESPACE,
            ))
        }
    }
}

impl Report for Installed {
    fn table(&self) -> String {
        let count = |outcome| self.objects.iter().filter(|o| o.outcome == outcome).count();
        let mut lines = vec![
            ("hub", self.addresses.join(", ")),
            ("image", self.image.clone()),
            (
                "objects",
                format!(
                    "{} created, {} changed, {} as they were",
                    count(Outcome::Created),
                    count(Outcome::Changed),
                    count(Outcome::Unchanged)
                ),
            ),
        ];
        if !self.domain.is_empty() {
            lines.insert(1, ("domain", self.domain.clone()));
        }
        lines.push(match self.seconds {
            Some(seconds) => ("state", format!("ready after {seconds} s")),
            None => (
                "state",
                "starting; `--wait` waits until it is ready".to_owned(),
            ),
        });
        lines
            .iter()
            .map(|(name, value)| format!("{name:<9}{value}\n"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_service_tells_its_addresses() {
        let service = |value| serde_json::from_value::<Service>(value).unwrap();
        let nodes = ["10.0.0.5".to_owned(), "fd00::5".to_owned()];
        let balancer = service(json!({
            "spec": { "type": "LoadBalancer", "ports": [{ "port": 8443, "nodePort": 30443 }] },
            "status": { "loadBalancer": { "ingress": [{ "ip": "203.0.113.7" }, { "hostname": "lb.example.com" }] } },
        }));
        assert_eq!(
            service_addresses(&balancer, &nodes),
            ["203.0.113.7:8443", "lb.example.com:8443"]
        );
        let waiting =
            service(json!({ "spec": { "type": "LoadBalancer", "ports": [{ "port": 8443 }] } }));
        assert!(service_addresses(&waiting, &nodes).is_empty());
        let node_port = service(json!({
            "spec": { "type": "NodePort", "ports": [{ "port": 8443, "nodePort": 30443 }] },
        }));
        assert_eq!(
            service_addresses(&node_port, &nodes),
            ["10.0.0.5:30443", "[fd00::5]:30443"]
        );
    }

    #[test]
    fn the_report_counts_what_it_did() {
        let applied = |outcome| Applied {
            kind: "Role",
            namespace: None,
            name: "x".to_owned(),
            outcome,
        };
        let installed = Installed {
            addresses: vec!["hub:8443".to_owned()],
            domain: String::new(),
            image: "i:1".to_owned(),
            ready: true,
            seconds: Some(4.2),
            objects: vec![applied(Outcome::Created), applied(Outcome::Unchanged)],
        };
        assert_eq!(
            installed.table(),
            "hub      hub:8443\n\
             image    i:1\n\
             objects  1 created, 0 changed, 1 as they were\n\
             state    ready after 4.2 s\n"
        );
    }
}
