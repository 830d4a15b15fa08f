//! A name that leads nowhere, and what could be meant.

use strait_types::{ClusterName, Refusal, RefusalCode, ServiceName};

use super::{Entry, NameTable};
use crate::nearest::{distance, nearest};

/// How many candidates are kept. More would only be noise in a hint.
const MOST: usize = 5;

/// Why a host name leads to no entry. The refusal names no entrypoint that the caller did not
/// name; the candidates are for callers who may connect to them.
#[derive(Clone, Debug)]
pub struct Miss<'a, P> {
    refusal: Refusal,
    candidates: Vec<&'a Entry<P>>,
}

// === impl Miss ===

impl<'a, P> Miss<'a, P> {
    pub(super) fn new(refusal: Refusal, candidates: Vec<&'a Entry<P>>) -> Self {
        Self {
            refusal,
            candidates,
        }
    }

    /// What anybody may be told.
    #[must_use]
    pub fn refusal(&self) -> &Refusal {
        &self.refusal
    }

    /// What could be meant, the likeliest first.
    pub fn candidates(&self) -> impl Iterator<Item = &'a Entry<P>> + use<'a, P> {
        self.candidates.clone().into_iter()
    }

    /// The refusal with a hint that names those candidates that the caller may connect to.
    #[must_use]
    pub fn with_hint(self, allowed: &[&Entry<P>]) -> Refusal {
        let Some(first) = allowed.first() else {
            return self.refusal;
        };
        if self.refusal.code == RefusalCode::AmbiguousName {
            let uids: Vec<_> = allowed
                .iter()
                .map(|e| format!("{} ({})", e.uid(), e.service()))
                .collect();
            return self
                .refusal
                .with_hint(format!("use one of {}", uids.join(", ")));
        }
        let hint = format!("did you mean `{}`?", first.service());
        self.refusal.with_hint(hint)
    }
}

impl<P> NameTable<P> {
    pub(super) fn no_host(&self, host: &str) -> Miss<'_, P> {
        let shown: String = host.chars().filter(|c| !c.is_control()).take(80).collect();
        let message = format!("`{shown}` is no host name");
        Miss::new(
            Refusal::new(RefusalCode::BadRequest, message)
                .with_hint("names have the form `service.namespace.cluster`"),
            vec![],
        )
    }

    /// `host` as it was asked for, `short` without the hub's domain.
    pub(super) fn nothing(&self, host: &str, short: &str) -> Miss<'_, P> {
        match self.meant(short) {
            Some(name) if self.members.contains(name.cluster()) => {
                let refusal = Refusal::new(
                    RefusalCode::EntrypointNotFound,
                    format!(
                        "{} has no entrypoint for service `{}` in namespace `{}`",
                        name.cluster(),
                        name.service(),
                        name.namespace()
                    ),
                );
                Miss::new(refusal, self.near(&name))
            }
            Some(name) => Miss::new(self.no_cluster(name.cluster().as_str()), self.near(&name)),
            None => match short.parse::<ClusterName>() {
                Ok(cluster) if self.members.contains(&cluster) => {
                    let message = format!("the API server of {cluster} is not exposed");
                    Miss::new(
                        Refusal::new(RefusalCode::EntrypointNotFound, message),
                        vec![],
                    )
                }
                _ => self.stranger(host, short),
            },
        }
    }

    /// The service that a name of either canonical form would be, entry or not. A one-label name is
    /// read with the longest member's name that fits its end.
    fn meant(&self, short: &str) -> Option<ServiceName> {
        if let Ok(name) = short.parse() {
            return Some(name);
        }
        let (before, cluster) = self
            .members
            .iter()
            .filter_map(|cluster| {
                let before = short.strip_suffix(cluster.as_str())?.strip_suffix("--")?;
                Some((before, cluster))
            })
            .min_by_key(|(before, _)| before.len())?;
        let (service, namespace) = before.split_once("--")?;
        ServiceName::new(service, namespace, cluster.clone()).ok()
    }

    fn stranger(&self, host: &str, short: &str) -> Miss<'_, P> {
        let refusal = if short.contains('.') || short.contains("--") {
            let message = format!("`{host}` is no name of this hub");
            Refusal::new(RefusalCode::EntrypointNotFound, message)
                .with_hint("names have the form `service.namespace.cluster`")
        } else {
            self.no_cluster(short)
        };
        let mut near: Vec<_> = self
            .aliases
            .iter()
            .filter_map(|(alias, services)| Some((distance(short, alias)?, services)))
            .collect();
        near.sort_by_key(|(edits, _)| *edits);
        let candidates = near.into_iter().flat_map(|(_, services)| services);
        let candidates = candidates
            .flat_map(|service| self.by_service(service))
            .take(MOST);
        Miss::new(refusal, candidates.collect())
    }

    /// Cluster names are no secret among callers that the hub knows; entrypoints are.
    fn no_cluster(&self, asked: &str) -> Refusal {
        let refusal = Refusal::new(
            RefusalCode::ClusterNotFound,
            format!("no cluster is called `{asked}`"),
        );
        match nearest(asked, self.members.iter().map(ClusterName::as_str)) {
            Some(near) => refusal.with_hint(format!("did you mean cluster `{near}`?")),
            None => refusal.with_hint("`strait clusters` lists the clusters"),
        }
    }

    /// Entries that could be meant: the same service elsewhere, then the fewest edits.
    fn near(&self, asked: &ServiceName) -> Vec<&Entry<P>> {
        let key = (asked.service().to_owned(), asked.namespace().to_owned());
        let elsewhere = self.same_service.get(&key).map_or(&[][..], Vec::as_slice);
        let mut near: Vec<(usize, &Entry<P>)> =
            self.at(elsewhere).map(|entry| (1, entry)).collect();
        let text = asked.to_string();
        let misspelt = self.of_cluster(asked.cluster()).iter().filter_map(|entry| {
            let edits = distance(&text, &entry.service().to_string())?;
            Some((edits, entry))
        });
        near.extend(misspelt);
        let same_name = self
            .of_cluster(asked.cluster())
            .iter()
            .filter(|entry| entry.service().service() == asked.service());
        near.extend(same_name.map(|entry| (2, entry)));
        near.sort_by_key(|(edits, entry)| {
            (*edits, entry.service().clone(), entry.uid().to_owned())
        });
        near.dedup_by(|(_, a), (_, b)| a.uid() == b.uid());
        near.into_iter()
            .map(|(_, entry)| entry)
            .take(MOST)
            .collect()
    }
}
