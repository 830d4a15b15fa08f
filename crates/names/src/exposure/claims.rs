//! Collects what entries ask for, and notices when two ask for what only one can have.

use std::collections::{BTreeMap, BTreeSet};

use strait_types::{ClusterName, ServiceName};

use super::{Alias, Exposure, Problem, ProblemReason, WantedEntrypoint};
use crate::{host, nearest};

/// One host name and the service it shall lead to.
type Host = (String, ServiceName);

/// What was asked for so far.
pub(super) struct Claims<'a> {
    members: &'a BTreeSet<ClusterName>,
    entrypoints: BTreeMap<ServiceName, String>,
    aliases: Vec<Alias>,
    /// Host names in use: where they lead and who said so first.
    hosts: BTreeMap<String, (ServiceName, String)>,
    problems: Vec<Problem>,
}

// === impl Claims ===

impl<'a> Claims<'a> {
    pub(super) fn new(members: &'a BTreeSet<ClusterName>) -> Self {
        Self {
            members,
            entrypoints: BTreeMap::new(),
            aliases: vec![],
            hosts: BTreeMap::new(),
            problems: vec![],
        }
    }

    pub(super) fn members(&self) -> &'a BTreeSet<ClusterName> {
        self.members
    }

    pub(super) fn problem(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// The member of this name, or the problem that there is none.
    pub(super) fn member(&self, field: &str, name: &str) -> Result<ClusterName, Problem> {
        let known = name.parse().ok().filter(|c| self.members.contains(c));
        if let Some(member) = known {
            return Ok(member);
        }
        let near = nearest(name, self.members.iter().map(ClusterName::as_str));
        let hint = near.map_or_else(String::new, |near| format!(", did you mean `{near}`?"));
        Err(Problem::new(
            field,
            ProblemReason::UnknownCluster,
            format!("no cluster is called `{name}`{hint}"),
        ))
    }

    /// The field that asked first for an entrypoint of this service.
    pub(super) fn source_of(&self, service: &ServiceName) -> Option<&str> {
        self.entrypoints.get(service).map(String::as_str)
    }

    /// Asks for an entrypoint; asking again for the same is no problem.
    pub(super) fn entrypoint(&mut self, service: ServiceName, source: &str) {
        self.entrypoints
            .entry(service)
            .or_insert_with(|| source.to_owned());
    }

    /// Asks for a host name and an entrypoint for every member, as one entry: when two services of
    /// one member would have the same host, the later entry is not followed at all.
    pub(super) fn for_members(&mut self, source: &str, field: &str, hosts: Vec<Host>) {
        let taken = hosts.iter().find_map(|(host, service)| {
            let (other, by) = self.hosts.get(host)?;
            let clash = other != service && other.cluster() == service.cluster();
            clash.then(|| format!("`{host}` already leads to {other}, by {by}"))
        });
        if let Some(taken) = taken {
            self.problem(Problem::new(field, ProblemReason::Collision, taken));
            return;
        }
        for (host, service) in hosts {
            self.entrypoint(service.clone(), source);
            self.alias(source, field, host, service);
        }
    }

    /// Everything, in a stable order.
    pub(super) fn finish(mut self) -> Exposure {
        self.aliases.sort();
        Exposure {
            entrypoints: self
                .entrypoints
                .into_iter()
                .map(|(service, source)| WantedEntrypoint { service, source })
                .collect(),
            aliases: self.aliases,
            problems: self.problems,
        }
    }

    fn alias(&mut self, source: &str, field: &str, host: String, service: ServiceName) {
        if let Some(owner) = self.belongs_to_another(&host, service.cluster()) {
            let message = format!(
                "`{host}` is a name of cluster {owner} and cannot lead to cluster {}",
                service.cluster()
            );
            self.problem(Problem::new(field, ProblemReason::Collision, message));
            return;
        }
        match self.hosts.get(&host) {
            Some((other, _)) if *other == service => return,
            Some((other, by)) => {
                // Two clusters: both claims stand, so that the table refuses the name.
                let message = format!("`{host}` leads to {other}, by {by}, and to {service}");
                self.problem(Problem::new(field, ProblemReason::Collision, message));
            }
            None => {
                let claim = (service.clone(), source.to_owned());
                self.hosts.insert(host.clone(), claim);
            }
        }
        self.aliases.push(Alias {
            host,
            service,
            source: source.to_owned(),
        });
    }

    /// The other member whose own name, or canonical name of a service, the host is.
    fn belongs_to_another(&self, host: &str, cluster: &ClusterName) -> Option<ClusterName> {
        let labels: Vec<&str> = host.split('.').collect();
        let owners: Vec<&str> = match labels.as_slice() {
            // `service--namespace--cluster`, where each part may itself hold `--`.
            [label] => host::tails(label).collect(),
            [_, _, cluster] => vec![cluster],
            _ => return None,
        };
        owners
            .into_iter()
            .filter_map(|owner| owner.parse().ok())
            .find(|owner| owner != cluster && self.members.contains(owner))
    }
}
