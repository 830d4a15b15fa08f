//! `strait services`.

use kube::ResourceExt;
use serde::Serialize;
use strait_api::{ClusterProxyEntrypoint, ConditionStatus, ManagedCluster, wire_names};
use strait_types::ClusterName;

use crate::{
    args::{Format, GlobalArgs},
    cluster::Cluster,
    failure::Failure,
    printer::{Printer, Report},
    table::Table,
};

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Reachable {
    name: String,
    cluster: String,
    ports: Vec<String>,
    accepted: Option<bool>,
    /// Why it is not, in one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    aliases: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// Where it was written down: a field of the configuration, or the entrypoint itself.
    source: String,
}

#[derive(Debug, PartialEq, Serialize)]
struct Services {
    services: Vec<Reachable>,
}

pub(crate) async fn run(
    global: &GlobalArgs,
    only: Option<&ClusterName>,
    format: Format,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    let cluster = Cluster::connect(global).await?;
    if let Some(name) = only {
        must_be_known(&cluster, name).await?;
    }
    let api = match only {
        Some(name) => cluster.namespaced(name.as_str()),
        None => cluster.all(),
    };
    let found: Vec<ClusterProxyEntrypoint> = match (cluster.list(&api, "").await, only) {
        (Err(failure), None) if failure.is_forbidden() => {
            return Err(failure.with_hint("`strait services CLUSTER` lists those of one cluster"));
        }
        (Err(failure), Some(name)) if failure.is_forbidden() => {
            return Err(failure.with_hint(format!(
                "the ClusterRole `strait-connect`, bound in namespace {name}, lets list; to reach a service \
                 whose name you know, `strait proxy` needs no right to list"
            )));
        }
        (found, _) => found?,
    };
    let services = services(&found);
    if services.services.is_empty() {
        let of = only.map(|name| format!(" of {name}")).unwrap_or_default();
        printer.say(&format!("no service{of} is exposed"))?;
    }
    printer.report(format, &services)
}

/// Fails when the inventory has no such cluster. Whoever may not read the inventory is let through.
async fn must_be_known(cluster: &Cluster, name: &ClusterName) -> Result<(), Failure> {
    let found: Vec<ManagedCluster> = match cluster.list(&cluster.all(), "").await {
        Err(failure) if failure.is_forbidden() => return Ok(()),
        found => found?,
    };
    let names: Vec<String> = found.iter().map(ResourceExt::name_any).collect();
    if names.iter().any(|known| known == name.as_str()) {
        return Ok(());
    }
    let failure = Failure::new(format!("there is no cluster `{name}`"));
    Err(match nearest(name.as_str(), &names) {
        Some(near) => failure.with_hint(format!(
            "did you mean `{near}`?  `strait clusters` lists all"
        )),
        None => failure.with_hint("`strait clusters` lists all"),
    })
}

/// The known name that looks most like the one that was typed, if any does.
pub(crate) fn nearest<'a>(typed: &str, known: &'a [String]) -> Option<&'a str> {
    let near = |name: &&String| strsim::damerau_levenshtein(typed, name);
    let best = known.iter().min_by_key(near)?;
    (near(&best) <= 1 + typed.len() / 4).then_some(best.as_str())
}

fn services(found: &[ClusterProxyEntrypoint]) -> Services {
    let mut services: Vec<Reachable> = found.iter().map(reachable).collect();
    services
        .sort_by(|a, b| (&a.cluster, &a.name, &a.source).cmp(&(&b.cluster, &b.name, &b.source)));
    Services { services }
}

fn reachable(entrypoint: &ClusterProxyEntrypoint) -> Reachable {
    let cluster = entrypoint.namespace().unwrap_or_default();
    let spec = &entrypoint.spec;
    let name = format!("{}.{}.{cluster}", spec.service, spec.namespace);
    let status = entrypoint.status.clone().unwrap_or_default();
    let accepted = status
        .conditions
        .iter()
        .find(|c| c.r#type == wire_names::ACCEPTED);
    let wrong = accepted.filter(|c| c.status != ConditionStatus::True);
    let (reason, message) = wrong
        .map(|c| (c.reason.clone(), c.message.clone()))
        .unwrap_or_default();
    let annotation = entrypoint.annotations().get(wire_names::SOURCE_ANNOTATION);
    let by_hand = || format!("ClusterProxyEntrypoint {cluster}/{}", entrypoint.name_any());
    Reachable {
        ports: spec.ports.clone(),
        accepted: accepted.map(|c| c.status == ConditionStatus::True),
        reason,
        message,
        aliases: status
            .hostnames
            .into_iter()
            .filter(|alias| *alias != name)
            .collect(),
        url: status.url,
        source: annotation.cloned().unwrap_or_else(by_hand),
        name,
        cluster,
    }
}

impl Report for Services {
    fn table(&self) -> String {
        let mut table = Table::new(&["NAME", "PORTS", "STATE", "URL", ""]);
        for service in &self.services {
            let state = match service.accepted {
                Some(true) => "accepted",
                Some(false) => &service.reason,
                None => "new",
            };
            let ports = if service.ports.is_empty() {
                "all".to_owned()
            } else {
                service.ports.join(",")
            };
            table.row(vec![
                service.name.clone(),
                ports,
                state.to_owned(),
                service.url.clone().unwrap_or_default(),
                service.message.clone(),
            ]);
        }
        table.render()
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use strait_api::{ClusterProxyEntrypointSpec, ClusterProxyEntrypointStatus, Condition};

    use super::*;

    #[test]
    fn the_table_shows_names_ports_and_what_is_wrong() {
        let found = [
            entrypoint("foo", "default", "cluster2", true, ""),
            entrypoint("search", "default", "cluster1", true, ""),
            entrypoint(
                "Bad",
                "default",
                "cluster1",
                false,
                "spec.service: `B` is not allowed",
            ),
        ];
        assert_eq!(
            services(&found).table(),
            "NAME                     PORTS  STATE        URL\n\
             Bad.default.cluster1     443    InvalidSpec  https://uid-Bad/     spec.service: `B` is not allowed\n\
             search.default.cluster1  443    accepted     https://uid-search/\n\
             foo.default.cluster2     443    accepted     https://uid-foo/\n"
        );
    }

    #[test]
    fn a_slip_of_the_pen_is_recognised() {
        let known = ["cluster1", "cluster2", "lab"].map(str::to_owned);
        assert_eq!(nearest("clutser1", &known), Some("cluster1"));
        assert_eq!(nearest("lan", &known), Some("lab"));
        assert_eq!(nearest("production", &known), None);
        assert_eq!(nearest("x", &[]), None);
    }

    fn entrypoint(
        service: &str,
        namespace: &str,
        cluster: &str,
        good: bool,
        message: &str,
    ) -> ClusterProxyEntrypoint {
        let spec = ClusterProxyEntrypointSpec {
            service: service.to_owned(),
            namespace: namespace.to_owned(),
            ports: vec!["443".to_owned()],
            ..ClusterProxyEntrypointSpec::default()
        };
        let mut made = ClusterProxyEntrypoint::new(&format!("object-{service}"), spec);
        made.metadata.namespace = Some(cluster.to_owned());
        let status = if good {
            ConditionStatus::True
        } else {
            ConditionStatus::False
        };
        let condition = Condition::new(
            wire_names::ACCEPTED,
            status,
            "InvalidSpec",
            message,
            Timestamp::UNIX_EPOCH,
        );
        made.status = Some(ClusterProxyEntrypointStatus {
            url: Some(format!("https://uid-{service}/")),
            conditions: vec![condition],
            ..ClusterProxyEntrypointStatus::default()
        });
        made
    }
}
