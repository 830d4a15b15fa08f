//! What the hub knows of the world at one moment. Pure.

use std::{collections::BTreeMap, sync::Arc};

use kube::ResourceExt;
use strait_api::{
    ClusterProxyEntrypoint, ClusterProxyEntrypointSpec, ManagedCluster, ManagedProxyConfiguration,
    Protocol, Subject, UpstreamTls, is_reserved_cluster, wire_names::CONFIGURATION_NAME,
};
use strait_names::{Declared, Entry, InvalidEntry, NameTable, NameTableBuilder, expand};
use strait_pki::AgentName;
use strait_types::{
    AcceptDetail, ClusterName, Port, PortChoice, Refusal, RefusalCode, ServiceName,
};

/// Where a name leads: one entrypoint.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Destination {
    /// Stands for the entrypoint in caches: its namespace and name.
    pub(crate) key: Arc<str>,
    /// The name of the `ClusterProxyEntrypoint`, which rights are about.
    pub(crate) object: String,
    /// Its uid.
    pub(crate) uid: String,
    /// The service.
    pub(crate) service: ServiceName,
    /// The ports that are exposed; none means all.
    pub(crate) ports: Vec<Port>,
    /// How the service is spoken to by HTTP.
    pub(crate) protocol: Option<Protocol>,
    /// How its TLS is verified.
    pub(crate) tls: Option<UpstreamTls>,
    /// Who may connect besides those whom RBAC allows.
    pub(crate) subjects: Vec<Subject>,
}

/// The objects that a [`Snapshot`] is made of.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// The entrypoints of all members.
    pub entrypoints: Vec<Arc<ClusterProxyEntrypoint>>,
    /// The inventory.
    pub members: Vec<Arc<ManagedCluster>>,
    /// The configurations; the one called `cluster-proxy` counts.
    pub configurations: Vec<Arc<ManagedProxyConfiguration>>,
}

/// What the hub knows at one moment. Never changed; the next one takes its place.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Counts up.
    pub(crate) version: u64,
    /// Every name.
    pub(crate) names: NameTable<Arc<Destination>>,
    /// The members.
    pub(crate) members: BTreeMap<ClusterName, Member>,
}

/// A member of the inventory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// The uid of its object; empty where the inventory has none.
    pub(crate) uid: String,
    /// Whether the hub's administrator accepts it.
    pub(crate) accepted: bool,
}

// === impl Destination ===

impl Destination {
    /// What a checked entry of the table and the rest of its object come to.
    fn new(entry: &Entry<()>, spec: &ClusterProxyEntrypointSpec) -> Self {
        Self {
            key: format!("{}/{}", entry.service().cluster(), entry.object()).into(),
            object: entry.object().to_owned(),
            uid: entry.uid().to_owned(),
            service: entry.service().clone(),
            ports: entry.ports().to_vec(),
            protocol: spec.protocol,
            tls: spec.tls.clone(),
            subjects: spec.subjects.clone(),
        }
    }

    /// The port to ask the agent for.
    ///
    /// A number may be that of a port which is listed by name, and the other way round; only the
    /// agent knows, and [`exposes`](Self::exposes) looks at what it says.
    pub(crate) fn choose_port(&self, wanted: &PortChoice) -> Result<PortChoice, Refusal> {
        let listed = |kind: fn(&Port) -> bool| self.ports.iter().any(kind);
        match (wanted, self.ports.as_slice()) {
            (PortChoice::Default, [only]) => Ok(PortChoice::Port(only.clone())),
            (PortChoice::Default, _)
                if self.protocol == Some(Protocol::Http) && self.tls.is_none() =>
            {
                Ok(PortChoice::DefaultHttp)
            }
            (PortChoice::Default | PortChoice::DefaultHttp, _) | (PortChoice::Port(_), []) => {
                Ok(wanted.clone())
            }
            (PortChoice::Port(port), ports) => {
                let maybe = match port {
                    Port::Number(_) => listed(|port| matches!(port, Port::Name(_))),
                    Port::Name(_) => listed(|port| matches!(port, Port::Number(_))),
                };
                if maybe || ports.contains(port) {
                    Ok(wanted.clone())
                } else {
                    Err(self.port_not_exposed(wanted))
                }
            }
        }
    }

    /// Whether the port that the agent connected to is exposed.
    pub(crate) fn exposes(&self, detail: &AcceptDetail) -> bool {
        self.ports.is_empty()
            || self.ports.iter().any(|port| match port {
                Port::Number(number) => number.get() == detail.port,
                Port::Name(name) => **name == *detail.name,
            })
    }

    pub(crate) fn port_not_exposed(&self, wanted: &PortChoice) -> Refusal {
        let message = match wanted {
            PortChoice::Port(port) => format!("port {port} of `{}` is not exposed", self.service),
            PortChoice::Default | PortChoice::DefaultHttp => {
                format!("`{}` has no port that is exposed", self.service)
            }
        };
        let ports: Vec<String> = self.ports.iter().map(ToString::to_string).collect();
        Refusal::new(RefusalCode::PortNotExposed, message)
            .with_hint(format!("exposed is {}", ports.join(", ")))
    }
}

// === impl Snapshot ===

impl Snapshot {
    /// What these objects come to. An object that is not valid spoils only itself.
    #[must_use]
    pub fn new(version: u64, domain: &str, objects: &Objects) -> Self {
        let members: BTreeMap<ClusterName, Member> = objects
            .members
            .iter()
            .filter(|member| member.metadata.deletion_timestamp.is_none())
            // Who may write in a namespace of the hub itself would speak for such a member.
            .filter(|member| !is_reserved_cluster(&member.name_any()))
            .filter_map(|member| {
                let name = member.name_any().parse().ok()?;
                let member = Member {
                    uid: member.uid().unwrap_or_default(),
                    accepted: member.spec.hub_accepts_client,
                };
                Some((name, member))
            })
            .collect();
        let mut names = NameTable::builder(domain, members.keys().cloned());
        for object in &objects.entrypoints {
            if let Err(error) = add(&mut names, object) {
                // The controller says so in a condition, where its owner looks.
                tracing::debug!(entrypoint = object.name_any(), %error, "entrypoint left out");
            }
        }
        let configuration = objects
            .configurations
            .iter()
            .find(|c| c.name_any() == CONFIGURATION_NAME);
        if let Some(configuration) = configuration {
            let spec = &configuration.spec;
            let resolvers = serde_json::to_value(&spec.service_resolvers).ok();
            let known = members.keys().cloned().collect();
            let exposure = expand(spec.services.as_ref(), resolvers.as_ref(), &known);
            exposure.aliases.iter().for_each(|alias| names.alias(alias));
        }
        Self {
            version,
            names: names.build(),
            members,
        }
    }

    /// Whether the entrypoint is there and still exposes the same.
    pub(crate) fn still_leads(&self, destination: &Destination) -> bool {
        let accepted = self.objection(destination.service.cluster()).is_none();
        let entry = self.names.by_uid(&destination.uid);
        accepted
            && entry.is_some_and(|entry| {
                let now = entry.policy();
                now.service == destination.service && now.ports == destination.ports
            })
    }

    /// Why nothing of a cluster may be reached, if it may not.
    pub(crate) fn objection(&self, cluster: &ClusterName) -> Option<String> {
        match self.members.get(cluster) {
            Some(member) if member.accepted => None,
            Some(_) => Some(format!(
                "the hub does not accept {cluster}: spec.hubAcceptsClient of its ManagedCluster is false"
            )),
            None => Some(format!("{cluster} is not in the hub's inventory")),
        }
    }

    /// Why an agent may have no session, if it may not.
    pub(crate) fn objection_to(&self, agent: &AgentName) -> Option<String> {
        let cluster = &agent.cluster;
        self.objection(cluster).or_else(|| {
            let other = self
                .members
                .get(cluster)
                .is_some_and(|member| member.uid != agent.member);
            other.then(|| {
                format!(
                    "the certificate is that of an earlier {cluster}: its ManagedCluster was \
                     deleted since; join again with a new token"
                )
            })
        })
    }
}

/// Adds one entrypoint. Whether its callers must be known to the hub (`spec.access`) makes no
/// difference here: without a credential only TLS that passes through could reach it.
fn add(
    names: &mut NameTableBuilder<Arc<Destination>>,
    object: &ClusterProxyEntrypoint,
) -> Result<(), InvalidEntry> {
    let cluster = object
        .namespace()
        .and_then(|namespace| namespace.parse().ok());
    let (Some(cluster), Some(uid), None) =
        (cluster, object.uid(), &object.metadata.deletion_timestamp)
    else {
        return Ok(());
    };
    let declared = Declared {
        object: object.name_any(),
        uid,
        service: object.spec.service.clone(),
        namespace: object.spec.namespace.clone(),
        ports: object.spec.ports.clone(),
    };
    let entry = declared.check(&cluster, ())?;
    names.entry(
        &cluster,
        &declared,
        Arc::new(Destination::new(&entry, &object.spec)),
    )
}
