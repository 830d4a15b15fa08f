//! `strait uninstall`.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::{Resource, ResourceExt};
use serde::{Serialize, de::DeserializeOwned};
use strait_api::{
    ClusterProxyEntrypoint, ManagedCluster, ManagedProxyConfiguration,
    wire_names::{
        AGENT_NAMESPACE, CLUSTER_GROUP, CONFIGURATION_LABEL, HUB_NAMESPACE, MANAGED_BY,
        NAMESPACE_OWNER_ANNOTATION,
    },
};
use strait_install::{Kind, Part};

use crate::{
    args::{GlobalArgs, UninstallArgs, UninstallTarget},
    cluster::Cluster,
    failure::Failure,
    printer::{Printer, Report},
    wait::{Seen, Waited, wait},
};

#[derive(Debug, Default, Serialize)]
struct Removed {
    removed: Vec<String>,
    /// What people made and `--all` was not given for.
    kept: Vec<String>,
}

pub(crate) async fn run(
    global: &GlobalArgs,
    args: &UninstallArgs,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    let cluster = Cluster::connect(global).await?;
    let mut removed = Removed::default();
    let limit = Duration::from_secs(args.timeout);
    if args.target != Some(UninstallTarget::Agent) {
        remove_part(&cluster, Part::Hub, Kind::Deployment, &mut removed, printer).await?;
        no_pods(&cluster, HUB_NAMESPACE, limit, printer).await?;
        remove_hub_data(&cluster, args.all, &mut removed, printer).await?;
        remove_rest(&cluster, Part::Hub, &mut removed, printer).await?;
        no_namespace(&cluster, HUB_NAMESPACE, limit, printer).await?;
    }
    if args.target != Some(UninstallTarget::Hub) {
        remove_part(
            &cluster,
            Part::Agent,
            Kind::Deployment,
            &mut removed,
            printer,
        )
        .await?;
        no_pods(&cluster, AGENT_NAMESPACE, limit, printer).await?;
        remove_rest(&cluster, Part::Agent, &mut removed, printer).await?;
        no_namespace(&cluster, AGENT_NAMESPACE, limit, printer).await?;
    }
    printer.report(args.format.output, &removed)
}

/// Everything of a part but its definitions, last made first.
async fn remove_rest(
    cluster: &Cluster,
    part: Part,
    removed: &mut Removed,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    for kind in Kind::ALL.into_iter().rev() {
        if kind != Kind::CustomResourceDefinition {
            remove_part(cluster, part, kind, removed, printer).await?;
        }
    }
    Ok(())
}

async fn remove_part(
    cluster: &Cluster,
    part: Part,
    kind: Kind,
    removed: &mut Removed,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    for object in cluster.ours(kind, &part.selector()).await? {
        let name = object.name_any();
        printer.progress(&format!("removing {} {name}", kind.name()), false)?;
        cluster
            .delete(kind, object.namespace().as_deref(), &name)
            .await?;
        removed
            .removed
            .push(describe(kind.name(), object.namespace().as_deref(), &name));
    }
    Ok(())
}

/// What the controllers made, then what people made if that is wanted, then the definitions that
/// nothing needs any more. The controllers do not run by now, so nobody makes it again.
async fn remove_hub_data(
    cluster: &Cluster,
    all: bool,
    removed: &mut Removed,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    let definitions = cluster
        .ours(Kind::CustomResourceDefinition, &managed())
        .await?;
    let defined = |group: &str| {
        definitions
            .iter()
            .any(|crd| crd.name_any().ends_with(group))
    };
    let (mut entrypoints, mut members) = (vec![], vec![]);
    let mut kept = vec![];
    if defined("clusterproxyentrypoints.proxy.open-cluster-management.io") {
        let found: Vec<ClusterProxyEntrypoint> = cluster.list(&cluster.all(), "").await?;
        (entrypoints, kept) = found
            .into_iter()
            .partition(|e| all || e.labels().contains_key(CONFIGURATION_LABEL));
    }
    for entrypoint in &entrypoints {
        let namespace = entrypoint.namespace().unwrap_or_default();
        remove_one(
            cluster,
            &cluster.namespaced(&namespace),
            entrypoint,
            removed,
            printer,
        )
        .await?;
    }
    removed.kept.extend(kept.iter().map(described));
    if defined("managedproxyconfigurations.proxy.open-cluster-management.io") {
        let found: Vec<ManagedProxyConfiguration> = cluster.list(&cluster.all(), "").await?;
        for configuration in &found {
            if all {
                remove_one(cluster, &cluster.all(), configuration, removed, printer).await?;
            } else {
                removed.kept.push(described(configuration));
            }
        }
    }
    if defined(&format!("managedclusters.{CLUSTER_GROUP}")) {
        members = cluster.list(&cluster.all::<ManagedCluster>(), "").await?;
    }
    for member in &members {
        let ours = member
            .labels()
            .get(MANAGED_BY.0)
            .is_some_and(|by| by == MANAGED_BY.1);
        if ours || all {
            remove_one(cluster, &cluster.all(), member, removed, printer).await?;
        } else {
            removed.kept.push(described(member));
        }
    }
    remove_member_namespaces(cluster, removed, printer).await?;
    remove_definitions(cluster, removed, printer).await
}

/// The members' namespaces that we made and nobody's entrypoints lie in.
async fn remove_member_namespaces(
    cluster: &Cluster,
    removed: &mut Removed,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    let found: Vec<Namespace> = cluster.list(&cluster.all(), "").await?;
    for namespace in found {
        let name = namespace.name_any();
        let ours = namespace
            .annotations()
            .contains_key(NAMESPACE_OWNER_ANNOTATION);
        let used = removed
            .kept
            .iter()
            .any(|kept| kept.contains(&format!(" {name}/")));
        if ours && !used {
            remove_one(cluster, &cluster.all(), &namespace, removed, printer).await?;
        }
    }
    Ok(())
}

async fn remove_definitions(
    cluster: &Cluster,
    removed: &mut Removed,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    let kind = Kind::CustomResourceDefinition;
    for definition in cluster.ours(kind, &managed()).await? {
        let name = definition.name_any();
        let object_kind = definition.data["spec"]["names"]["kind"]
            .as_str()
            .unwrap_or_default();
        let used = removed
            .kept
            .iter()
            .any(|kept| kept.starts_with(&format!("{object_kind} ")));
        if used {
            removed.kept.push(describe(kind.name(), None, &name));
            continue;
        }
        printer.progress(&format!("removing {} {name}", kind.name()), false)?;
        cluster.delete(kind, None, &name).await?;
        removed.removed.push(describe(kind.name(), None, &name));
    }
    Ok(())
}

async fn remove_one<K>(
    cluster: &Cluster,
    api: &kube::Api<K>,
    object: &K,
    removed: &mut Removed,
    printer: &mut Printer<'_>,
) -> Result<(), Failure>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Serialize,
{
    let described = described(object);
    printer.progress(&format!("removing {described}"), false)?;
    cluster.remove(api, object).await?;
    removed.removed.push(described);
    Ok(())
}

async fn no_pods(
    cluster: &Cluster,
    namespace: &str,
    limit: Duration,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    let look = async || {
        let pods: Vec<Pod> = cluster.list(&cluster.namespaced(namespace), "").await?;
        Ok(match pods.len() {
            0 => Seen::Done(()),
            left => Seen::Waiting(format!("waiting for {left} pods in {namespace} to stop")),
        })
    };
    in_time(wait(printer, limit, look).await?)
}

async fn no_namespace(
    cluster: &Cluster,
    name: &str,
    limit: Duration,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    let look = async || {
        Ok(match cluster.exists(Kind::Namespace, None, name).await? {
            false => Seen::Done(()),
            true => Seen::Waiting(format!("waiting for namespace {name} to go")),
        })
    };
    in_time(wait(printer, limit, look).await?)
}

fn in_time(waited: Waited<()>) -> Result<(), Failure> {
    match waited {
        Waited::Done((), _) => Ok(()),
        Waited::TooLong(last) => {
            let cause = anyhow::anyhow!("{last}");
            Err(
                Failure::from(cause.context("not everything has gone in time"))
                    .with_hint("run it again; what has gone is left alone"),
            )
        }
    }
}

/// The controller installs definitions as well, and knows nothing of parts.
fn managed() -> String {
    format!("{}={}", MANAGED_BY.0, MANAGED_BY.1)
}

fn described<K: Resource<DynamicType = ()>>(object: &K) -> String {
    describe(
        &K::kind(&()),
        object.namespace().as_deref(),
        &object.name_any(),
    )
}

fn describe(kind: &str, namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

impl Report for Removed {
    fn table(&self) -> String {
        if self.removed.is_empty() && self.kept.is_empty() {
            return "nothing to remove\n".to_owned();
        }
        let mut text = format!("removed {} objects\n", self.removed.len());
        for kept in &self.kept {
            text.push_str(&format!("kept {kept}\n"));
        }
        if !self.kept.is_empty() {
            text.push_str("`--all` removes these as well\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_made_is_named_when_it_stays() {
        let mut removed = Removed::default();
        assert_eq!(removed.table(), "nothing to remove\n");
        removed.removed = vec!["Role strait-system/strait-hub".to_owned()];
        assert_eq!(removed.table(), "removed 1 objects\n");
        removed.kept = vec!["ClusterProxyEntrypoint cluster1/search".to_owned()];
        assert_eq!(
            removed.table(),
            "removed 1 objects\nkept ClusterProxyEntrypoint cluster1/search\n`--all` removes these as well\n"
        );
    }
}
