//! The table by which host names are resolved.

mod build;
mod entry;
mod miss;

use std::collections::{BTreeMap, BTreeSet};

use strait_types::{ClusterName, ExposedService, Refusal, RefusalCode, ServiceName};

pub use build::NameTableBuilder;
pub use entry::{Declared, Entry, InvalidEntry};
pub use miss::Miss;

use crate::host;

/// The Service that stands for a cluster's API server.
const API_SERVER: (&str, &str) = ("kubernetes", "default");

/// Positions in the list of entries.
type Places = Vec<usize>;

/// What a name was found to be.
struct Claim {
    places: Places,
    /// Two services claim it, whether both have an entrypoint or not.
    contested: bool,
}

/// Every name that leads somewhere. Never changed once built; each look-up costs O(log n), only a
/// miss looks at the entries of a cluster for the nearest right name.
///
/// In order: canonical names, one-label names, uids, aliases, names of clusters; each bare, then
/// under the hub's domain. The first that is claimed at all decides, so an alias never hides a
/// canonical name, and a name that two claim is refused rather than given to one of them.
///
/// `P` is what the owner of the table keeps with each entry, its policy.
#[derive(Clone, Debug)]
pub struct NameTable<P> {
    domain: String,
    members: BTreeSet<ClusterName>,
    entries: Vec<Entry<P>>,
    canonical: BTreeMap<ServiceName, Places>,
    one_label: BTreeMap<String, Places>,
    uids: BTreeMap<String, Places>,
    /// Host to the services that it is an alias of; more than one is ambiguous.
    aliases: BTreeMap<String, Vec<ServiceName>>,
    /// The reverse, for [`NameTable::hostnames`].
    aliases_of: BTreeMap<ServiceName, Vec<String>>,
    /// `(service, namespace)` to the entries in every cluster, for the nearest right name.
    same_service: BTreeMap<(String, String), Places>,
}

// === impl NameTable ===

impl<P> NameTable<P> {
    /// Starts a table for a hub with this domain (empty: none) and these members.
    #[must_use]
    pub fn builder(
        domain: &str,
        members: impl IntoIterator<Item = ClusterName>,
    ) -> NameTableBuilder<P> {
        NameTableBuilder::new(domain, members.into_iter().collect())
    }

    /// The entry that a host name leads to. Case and a dot at the end do not matter; the host has
    /// no port.
    ///
    /// # Errors
    /// A [`Miss`], which holds a refusal that tells nothing of other entrypoints: `bad-request` for
    /// what is no host name, `cluster-not-found`, `entrypoint-not-found` or `ambiguous-name`; and
    /// apart from it what could be meant.
    pub fn resolve(&self, host: &str) -> Result<&Entry<P>, Box<Miss<'_, P>>> {
        let Some(name) = host::normalise(host) else {
            return Err(Box::new(self.no_host(host)));
        };
        let short = host::under(&name, &self.domain).unwrap_or(&name);
        if let Some(claimed) = self.claim(&name) {
            return self.only_one(&name, short, &claimed);
        }
        Err(Box::new(self.nothing(&name, short)))
    }

    /// Whether a host name leads to an entry. Unlike a [`resolve`](Self::resolve) that fails it
    /// never looks for what could be meant, so it is cheap enough for strangers to ask.
    #[must_use]
    pub fn leads(&self, host: &str) -> bool {
        let name = host::normalise(host);
        let claimed = name.and_then(|name| self.claim(&name));
        claimed.is_some_and(|claim| claim.places.len() == 1 && !claim.contested)
    }

    /// The entry with this uid.
    #[must_use]
    pub fn by_uid(&self, uid: &str) -> Option<&Entry<P>> {
        match self.uids.get(&uid.to_ascii_lowercase())?.as_slice() {
            [place] => self.entries.get(*place),
            _ => None,
        }
    }

    /// Every entry of this service: more than one make its name ambiguous.
    pub fn by_service(&self, service: &ServiceName) -> impl Iterator<Item = &Entry<P>> {
        let places = self.canonical.get(service).map_or(&[][..], Vec::as_slice);
        self.at(places)
    }

    /// Every entry, sorted by service, then by object.
    #[must_use]
    pub fn entries(&self) -> &[Entry<P>] {
        &self.entries
    }

    /// The entries of one cluster, sorted.
    #[must_use]
    pub fn of_cluster(&self, cluster: &ClusterName) -> &[Entry<P>] {
        let from = self
            .entries
            .partition_point(|e| e.service().cluster() < cluster);
        let to = self
            .entries
            .partition_point(|e| e.service().cluster() <= cluster);
        self.entries.get(from..to).unwrap_or_default()
    }

    /// The members that the table knows.
    #[must_use]
    pub fn members(&self) -> &BTreeSet<ClusterName> {
        &self.members
    }

    /// The hub's domain, empty when it has none.
    #[must_use]
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// What the agent of a cluster must let through, sorted: each service once, with the ports of
    /// all its entries together.
    #[must_use]
    pub fn exposed(&self, cluster: &ClusterName) -> Vec<ExposedService> {
        let mut services: BTreeMap<(&str, &str), Option<BTreeSet<String>>> = BTreeMap::new();
        for entry in self.of_cluster(cluster) {
            let key = (entry.service().namespace(), entry.service().service());
            let ports = services.entry(key).or_insert_with(|| Some(BTreeSet::new()));
            match ports {
                Some(ports) if !entry.ports().is_empty() => {
                    ports.extend(entry.ports().iter().map(ToString::to_string));
                }
                // One entry without ports exposes all of them.
                _ => *ports = None,
            }
        }
        services
            .into_iter()
            .map(|((namespace, service), ports)| ExposedService {
                namespace: namespace.to_owned(),
                service: service.to_owned(),
                ports: ports.into_iter().flatten().collect(),
            })
            .collect()
    }

    /// The host names that lead to this entry and to no other, the canonical one first.
    #[must_use]
    pub fn hostnames(&self, entry: &Entry<P>) -> Vec<String> {
        let canonical = entry.service().to_string();
        let one_label = entry::one_label(entry.service());
        let under = |name: &str| format!("{name}.{}", self.domain);
        let mut names = vec![canonical.clone()];
        if !self.domain.is_empty() {
            names.extend([under(&canonical), under(&one_label)]);
        }
        for alias in self.aliases_of.get(entry.service()).into_iter().flatten() {
            names.push(alias.clone());
            if !self.domain.is_empty() {
                names.push(under(alias));
            }
        }
        names.retain(|name| {
            self.resolve(name)
                .is_ok_and(|found| found.uid() == entry.uid())
        });
        names
    }

    fn at(&self, places: &[usize]) -> impl Iterator<Item = &Entry<P>> {
        places.iter().filter_map(|place| self.entries.get(*place))
    }

    fn only_one(
        &self,
        host: &str,
        short: &str,
        claim: &Claim,
    ) -> Result<&Entry<P>, Box<Miss<'_, P>>> {
        let found: Vec<_> = self.at(&claim.places).collect();
        match found.as_slice() {
            [entry] if !claim.contested => Ok(entry),
            [] if !claim.contested => Err(Box::new(self.nothing(host, short))),
            _ => Err(Box::new(Miss::new(
                Refusal::new(
                    RefusalCode::AmbiguousName,
                    format!("more than one entrypoint claims the name `{host}`"),
                ),
                found,
            ))),
        }
    }

    /// What the first kind of name that claims this one makes of it.
    fn claim(&self, name: &str) -> Option<Claim> {
        let inner = host::under(name, &self.domain);
        let claims = [
            Self::canonical_claim,
            Self::one_label_claim,
            Self::uid_claim,
            Self::alias_claim,
            Self::cluster_claim,
        ];
        claims.into_iter().find_map(|claim| {
            [Some(name), inner]
                .into_iter()
                .flatten()
                .find_map(|form| claim(self, form))
        })
    }

    fn canonical_claim(&self, host: &str) -> Option<Claim> {
        Claim::of(self.canonical.get(&host.parse().ok()?))
    }

    /// Where a part of the label is the name of another member, it may be meant to be that one's.
    fn one_label_claim(&self, host: &str) -> Option<Claim> {
        let mut claim = Claim::of(self.one_label.get(host))?;
        let of = |cluster: &ClusterName| {
            self.at(&claim.places)
                .all(|e| e.service().cluster() == cluster)
        };
        let mut others = host::tails(host).filter_map(|tail| tail.parse().ok());
        claim.contested = others.any(|tail| self.members.contains(&tail) && !of(&tail));
        Some(claim)
    }

    fn uid_claim(&self, host: &str) -> Option<Claim> {
        Claim::of(self.uids.get(host))
    }

    fn alias_claim(&self, host: &str) -> Option<Claim> {
        let services = self.aliases.get(host)?;
        let places = services.iter().filter_map(|s| self.canonical.get(s));
        Some(Claim {
            places: places.flatten().copied().collect(),
            contested: services.len() > 1,
        })
    }

    /// The name of a member alone stands for its API server.
    fn cluster_claim(&self, host: &str) -> Option<Claim> {
        let (service, namespace) = API_SERVER;
        let name = ServiceName::new(service, namespace, host.parse().ok()?).ok()?;
        Claim::of(self.canonical.get(&name))
    }
}

// === impl Claim ===

impl Claim {
    fn of(places: Option<&Places>) -> Option<Self> {
        Some(Self {
            places: places?.clone(),
            contested: false,
        })
    }
}

#[cfg(test)]
mod tests;
