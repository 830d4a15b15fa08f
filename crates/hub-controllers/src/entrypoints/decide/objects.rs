//! Which entrypoints are made, and which go.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use serde_json::{Value, json};
use strait_api::{
    ClusterProxyEntrypoint, ManagedProxyConfiguration,
    wire_names::{CLUSTER_LABEL, CONFIGURATION_LABEL, MANAGED_BY, PROXY_GROUP, SOURCE_ANNOTATION},
};
use strait_names::{Exposure, Problem, ProblemReason, WantedEntrypoint};
use strait_types::ServiceName;

use super::{Seen, status::declared};
use crate::inventory::lives;

/// An entrypoint as the configuration wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::entrypoints) struct Made {
    service: ServiceName,
    source: String,
    /// Name and uid of the configuration that owns it.
    owner: (String, String),
    /// Whether it is there and says something else.
    pub(in crate::entrypoints) exists: bool,
}

/// An entrypoint to delete: this object, and no other of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::entrypoints) struct Doomed {
    pub(in crate::entrypoints) namespace: String,
    pub(in crate::entrypoints) name: String,
    pub(in crate::entrypoints) uid: String,
}

/// An entry of the configuration whose place an object made by hand has taken for another service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ByHand {
    pub(super) field: String,
    pub(super) message: String,
}

#[derive(Default)]
pub(super) struct Objects {
    pub(super) make: Vec<Made>,
    pub(super) delete: Vec<Doomed>,
    pub(super) by_hand: Vec<ByHand>,
    /// How many entries an object made by hand stands in for, with the same service.
    pub(super) stand_ins: usize,
    /// Members whose namespace is not there yet, or on its way out.
    pub(super) without_namespace: BTreeSet<String>,
}

pub(super) fn decide(
    seen: &Seen,
    configuration: Option<&ManagedProxyConfiguration>,
    exposure: &Exposure,
) -> Objects {
    let mut objects = Objects::default();
    let index = Index::new(seen);
    let mut wanted = BTreeSet::new();
    if let Some(configuration) = configuration {
        let owner = (
            configuration.name_any(),
            configuration.uid().unwrap_or_default(),
        );
        for entrypoint in &exposure.entrypoints {
            wanted.insert(entrypoint.service.clone());
            index.place(entrypoint, &owner, seen, &mut objects);
        }
    }
    if !seen.unreadable.is_empty() {
        return objects;
    }
    let unwanted = seen.entrypoints.iter().filter(|e| {
        let named = place(e).is_some_and(|(_, name)| {
            let service: Result<ServiceName, _> = name.parse();
            service.is_ok_and(|service| wanted.contains(&service))
        });
        is_ours(e) && lives(e.as_ref()) && !named && !in_doubt(e, &exposure.problems)
    });
    objects
        .delete
        .extend(unwanted.filter_map(|e| Doomed::of(e)));
    objects
}

/// Whether the entry that made an object, or the field that had the entry, cannot be understood
/// any more: then nobody knows that it is unwanted.
fn in_doubt(object: &ClusterProxyEntrypoint, problems: &[Problem]) -> bool {
    let Some(source) = object.annotations().get(SOURCE_ANNOTATION) else {
        return false;
    };
    let within = |field: &str, outer: &str| {
        let rest = field.strip_prefix(outer);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    problems.iter().any(|problem| {
        // What these say is understood, and is something else than before.
        let understood = matches!(
            problem.reason,
            ProblemReason::UnknownCluster | ProblemReason::Collision
        );
        !understood && (within(&problem.field, source) || within(source, &problem.field))
    })
}

/// Whether a configuration made the object.
fn is_ours(object: &ClusterProxyEntrypoint) -> bool {
    object.labels().contains_key(CONFIGURATION_LABEL)
}

/// Whether a configuration with another uid owns the object.
fn is_of_another(object: &ClusterProxyEntrypoint, uid: &str) -> bool {
    let mut owners = object.owner_references().iter();
    owners.any(|owner| owner.kind == "ManagedProxyConfiguration" && owner.uid != uid)
}

/// Whether nothing is wrong with what an object declares.
fn is_valid(object: &ClusterProxyEntrypoint, cluster: &str) -> bool {
    let cluster = cluster.parse().ok();
    cluster.is_some_and(|cluster| declared(object).check(&cluster, ()).is_ok())
}

/// Namespace and name.
fn place(object: &ClusterProxyEntrypoint) -> Option<(&str, &str)> {
    let metadata = &object.metadata;
    Some((metadata.namespace.as_deref()?, metadata.name.as_deref()?))
}

/// What is there, by where it is and by what it exposes.
struct Index<'a> {
    by_place: BTreeMap<(&'a str, &'a str), &'a ClusterProxyEntrypoint>,
    /// `(cluster, namespace, service)` of the living objects made by hand that can be resolved.
    by_hand: BTreeSet<(&'a str, &'a str, &'a str)>,
}

// === impl Index ===

impl<'a> Index<'a> {
    fn new(seen: &'a Seen) -> Self {
        let mut index = Self {
            by_place: BTreeMap::new(),
            by_hand: BTreeSet::new(),
        };
        for object in &seen.entrypoints {
            let Some((namespace, name)) = place(object) else {
                continue;
            };
            index.by_place.insert((namespace, name), object);
            if !is_ours(object) && lives(object.as_ref()) && is_valid(object, namespace) {
                let spec = &object.spec;
                let service = (namespace, spec.namespace.as_str(), spec.service.as_str());
                index.by_hand.insert(service);
            }
        }
        index
    }

    /// Decides about one entrypoint that the configuration wants.
    fn place(
        &self,
        wanted: &WantedEntrypoint,
        owner: &(String, String),
        seen: &Seen,
        objects: &mut Objects,
    ) {
        let service = &wanted.service;
        let (cluster, name) = (service.cluster().as_str(), service.to_string());
        if !seen.namespaces.contains(cluster) {
            // It is being made; its arrival is the next round.
            objects.without_namespace.insert(cluster.to_owned());
            return;
        }
        let mut made = Made {
            service: service.clone(),
            source: wanted.source.clone(),
            owner: owner.clone(),
            exists: false,
        };
        let key = (cluster, service.namespace(), service.service());
        match self.by_place.get(&(cluster, name.as_str())) {
            Some(found) if !lives(*found) => {}
            // Its configuration is gone, and another has its name now.
            Some(found) if is_ours(found) && is_of_another(found, &owner.1) => {
                objects.delete.extend(Doomed::of(found));
            }
            // A member's administrator has made their own: it stands in from now on.
            Some(found) if is_ours(found) && self.by_hand.contains(&key) => {
                objects.delete.extend(Doomed::of(found));
                objects.stand_ins += 1;
            }
            Some(found) if is_ours(found) => {
                if !made.is(found) {
                    made.exists = true;
                    objects.make.push(made);
                }
            }
            // A second one would make the name ambiguous.
            _ if self.by_hand.contains(&key) => objects.stand_ins += 1,
            Some(found) => objects.by_hand.push(ByHand {
                field: wanted.source.clone(),
                message: format!(
                    "ClusterProxyEntrypoint {cluster}/{name} was made by hand, exposes {}.{} and stays as it is",
                    found.spec.service, found.spec.namespace
                ),
            }),
            None => objects.make.push(made),
        }
    }
}

// === impl Made ===

impl Made {
    pub(in crate::entrypoints) fn namespace(&self) -> &str {
        self.service.cluster().as_str()
    }

    pub(in crate::entrypoints) fn name(&self) -> String {
        self.service.to_string()
    }

    /// The fields that the controller owns; all others of the object are its users'.
    pub(in crate::entrypoints) fn to_json(&self) -> Value {
        let (owner, uid) = &self.owner;
        json!({
            "apiVersion": format!("{PROXY_GROUP}/v1alpha1"),
            "kind": "ClusterProxyEntrypoint",
            "metadata": {
                "name": self.name(),
                "namespace": self.namespace(),
                "labels": {
                    MANAGED_BY.0: MANAGED_BY.1,
                    CLUSTER_LABEL: self.namespace(),
                    CONFIGURATION_LABEL: owner,
                },
                "annotations": { SOURCE_ANNOTATION: self.source },
                "ownerReferences": [{
                    "apiVersion": format!("{PROXY_GROUP}/v1alpha1"),
                    "kind": "ManagedProxyConfiguration",
                    "name": owner,
                    "uid": uid,
                    "controller": true,
                }],
            },
            "spec": {
                "service": self.service.service(),
                "namespace": self.service.namespace(),
            },
        })
    }

    /// Whether the object says all of this already.
    fn is(&self, found: &ClusterProxyEntrypoint) -> bool {
        let label = |key: &str| found.labels().get(key).map(String::as_str);
        let (owner, uid) = &self.owner;
        label(MANAGED_BY.0) == Some(MANAGED_BY.1)
            && label(CLUSTER_LABEL) == Some(self.namespace())
            && label(CONFIGURATION_LABEL) == Some(owner)
            && found.annotations().get(SOURCE_ANNOTATION) == Some(&self.source)
            && found.owner_references().iter().any(|o| o.uid == *uid)
            && found.spec.service == self.service.service()
            && found.spec.namespace == self.service.namespace()
    }
}

// === impl Doomed ===

impl Doomed {
    fn of(object: &ClusterProxyEntrypoint) -> Option<Self> {
        let (namespace, name) = place(object)?;
        Some(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: object.uid()?,
        })
    }
}
