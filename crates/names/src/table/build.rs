//! Puts a table together.

use std::collections::{BTreeMap, BTreeSet};

use strait_types::{ClusterName, ServiceName};

use super::{Declared, Entry, InvalidEntry, NameTable, Places, entry::one_label};
use crate::{Alias, host};

/// A table in the making.
#[derive(Debug)]
pub struct NameTableBuilder<P> {
    domain: String,
    members: BTreeSet<ClusterName>,
    entries: Vec<Entry<P>>,
    aliases: BTreeMap<String, BTreeSet<ServiceName>>,
}

// === impl NameTableBuilder ===

impl<P> NameTableBuilder<P> {
    pub(super) fn new(domain: &str, members: BTreeSet<ClusterName>) -> Self {
        Self {
            domain: host::normalise(domain).unwrap_or_default(),
            members,
            entries: vec![],
            aliases: BTreeMap::new(),
        }
    }

    /// Adds an entrypoint of this cluster. One of a cluster that is no member is never found.
    ///
    /// # Errors
    /// When a field of the declaration is wrong; the table is as before.
    pub fn entry(
        &mut self,
        cluster: &ClusterName,
        declared: &Declared,
        policy: P,
    ) -> Result<(), InvalidEntry> {
        let entry = declared.check(cluster, policy)?;
        if self.members.contains(cluster) {
            self.entries.push(entry);
        }
        Ok(())
    }

    /// Adds a host name beside the canonical one. It leads nowhere while its service has no entry.
    pub fn alias(&mut self, alias: &Alias) {
        if let Some(host) = host::normalise(&alias.host) {
            self.aliases
                .entry(host)
                .or_default()
                .insert(alias.service.clone());
        }
    }

    /// The table.
    #[must_use]
    pub fn build(mut self) -> NameTable<P> {
        self.entries.sort_by(|a, b| {
            let place = |entry: &Entry<P>| {
                let service = entry.service().clone();
                (service, entry.object().to_owned(), entry.uid().to_owned())
            };
            place(a).cmp(&place(b))
        });
        let mut aliases_of: BTreeMap<ServiceName, Vec<String>> = BTreeMap::new();
        for (host, services) in &self.aliases {
            for service in services {
                aliases_of
                    .entry(service.clone())
                    .or_default()
                    .push(host.clone());
            }
        }
        NameTable {
            canonical: self.index(|entry| entry.service().clone()),
            one_label: self.index(|entry| one_label(entry.service())),
            uids: self.index(|entry| entry.uid().to_owned()),
            same_service: self.index(|entry| {
                (
                    entry.service().service().to_owned(),
                    entry.service().namespace().to_owned(),
                )
            }),
            domain: self.domain,
            members: self.members,
            entries: self.entries,
            aliases: self
                .aliases
                .into_iter()
                .map(|(host, services)| (host, services.into_iter().collect()))
                .collect(),
            aliases_of,
        }
    }

    fn index<K: Ord>(&self, key: impl Fn(&Entry<P>) -> K) -> BTreeMap<K, Places> {
        let mut index: BTreeMap<K, Places> = BTreeMap::new();
        for (place, entry) in self.entries.iter().enumerate() {
            index.entry(key(entry)).or_default().push(place);
        }
        index
    }
}
