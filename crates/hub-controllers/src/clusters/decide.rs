//! Which namespaces are made, which go, and which members cannot have one.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;
use strait_api::{
    ClusterProxyEntrypoint, Condition, ConditionStatus, ManagedCluster, is_reserved_cluster,
    set_condition,
    wire_names::{CONFIGURATION_LABEL, NAMESPACE_OWNER_ANNOTATION, NAMESPACE_READY},
};
use strait_types::ClusterName;

use crate::inventory::lives;

/// What there is at one moment.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) inventory: Vec<Arc<ManagedCluster>>,
    /// Names of members that are there and cannot be read.
    pub(super) unreadable: BTreeSet<String>,
    pub(super) namespaces: Vec<Arc<Namespace>>,
    /// Namespaces that hold entrypoints which people made.
    pub(super) by_hand: BTreeSet<String>,
    /// Members whose namespace could not be made the last time, and why.
    pub(super) failed: BTreeMap<String, String>,
    pub(super) now: Timestamp,
}

/// The namespaces of entrypoints that no configuration made, or that cannot be read, by namespace
/// and name.
pub(super) fn by_hand(
    entrypoints: &[Arc<ClusterProxyEntrypoint>],
    unreadable: BTreeSet<(Option<String>, String)>,
) -> BTreeSet<String> {
    let made = entrypoints
        .iter()
        .filter(|e| lives(e.as_ref()) && !e.labels().contains_key(CONFIGURATION_LABEL))
        .map(|e| e.namespace());
    made.chain(unreadable.into_iter().map(|(namespace, _)| namespace))
        .flatten()
        .collect()
}

/// What must be written.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Decision {
    /// Members without a namespace.
    pub(super) create: Vec<ClusterName>,
    /// Name and uid of namespaces that we made for clusters that are members no more.
    pub(super) delete: Vec<(String, String)>,
    /// Members whose conditions are others.
    pub(super) tell: Vec<Told>,
}

/// The conditions of a member, all of them, for the version of it that was looked at: the list
/// has several writers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Told {
    pub(super) name: String,
    pub(super) version: Option<String>,
    pub(super) conditions: Vec<Condition>,
}

pub(super) fn decide(seen: &Seen) -> Decision {
    let mut decision = Decision::default();
    let namespaces: BTreeMap<String, &Namespace> = seen
        .namespaces
        .iter()
        .map(|namespace| (namespace.name_any(), namespace.as_ref()))
        .collect();
    for member in seen.inventory.iter().filter(|m| lives(m.as_ref())) {
        let namespace = namespaces.get(&member.name_any()).copied();
        let said = match usable(member) {
            Err(said) => Some(said),
            Ok(cluster) => {
                let failed = seen.failed.get(cluster.as_str());
                if namespace.is_none() {
                    decision.create.push(cluster);
                }
                match (namespace, failed) {
                    (None, Some(why)) => Some(not_made(why)),
                    _ => ready(member, namespace),
                }
            }
        };
        decision
            .tell
            .extend(said.and_then(|said| told(member, said, seen.now)));
    }
    decision.delete = seen
        .namespaces
        .iter()
        .filter(|namespace| lives(namespace.as_ref()) && is_orphan(namespace, seen))
        .filter_map(|namespace| Some((namespace.name_any(), namespace.uid()?)))
        .collect();
    decision
}

/// What the annotation of a namespace says that we made for a member of this name.
pub(super) fn owner(cluster: &str) -> String {
    format!("ManagedCluster/{cluster}")
}

/// A condition without type and time.
type Said = (ConditionStatus, &'static str, String);

/// The member's name, or why no namespace can have it.
fn usable(member: &ManagedCluster) -> Result<ClusterName, Said> {
    let name = member.name_any();
    if is_reserved_cluster(&name) {
        let message = format!(
            "metadata.name: `{name}` is a namespace of the hub itself, so no entrypoint of a cluster of this name is in force"
        );
        return Err((ConditionStatus::False, "ReservedName", message));
    }
    name.parse().map_err(|error| {
        let message = format!("metadata.name: `{name}` cannot be a namespace's name: {error}");
        (ConditionStatus::False, "InvalidName", message)
    })
}

/// What to say of a member that can have a namespace. One that has it, and had no trouble before,
/// needs no words.
fn ready(member: &ManagedCluster, namespace: Option<&Namespace>) -> Option<Said> {
    let name = member.name_any();
    if namespace.is_some_and(|namespace| !lives(namespace)) {
        let message = format!("namespace {name} is being deleted, it is made again afterwards");
        return Some((ConditionStatus::False, "NamespaceTerminating", message));
    }
    let conditions = &member.status.as_ref()?.conditions;
    let spoken = conditions.iter().any(|c| c.r#type == NAMESPACE_READY);
    let message = format!("entrypoints of the cluster lie in namespace {name}");
    (spoken && namespace.is_some()).then_some((ConditionStatus::True, "NamespaceExists", message))
}

fn not_made(why: &str) -> Said {
    let message = format!("the namespace could not be made: {why}");
    (ConditionStatus::False, "NamespaceNotMade", message)
}

fn told(member: &ManagedCluster, said: Said, now: Timestamp) -> Option<Told> {
    let (status, reason, message) = said;
    let before = member.status.as_ref();
    let mut conditions = before.map_or_else(Vec::new, |status| status.conditions.clone());
    let condition = Condition::new(NAMESPACE_READY, status, reason, message, now)
        .observed(member.metadata.generation);
    set_condition(&mut conditions, condition).then(|| Told {
        name: member.name_any(),
        version: member.resource_version(),
        conditions,
    })
}

/// Whether we made the namespace for a member that is gone, and nobody keeps entrypoints of his own
/// in it. A member that is being deleted is not gone yet.
fn is_orphan(namespace: &Namespace, seen: &Seen) -> bool {
    let name = namespace.name_any();
    let made_by_us = namespace
        .annotations()
        .get(NAMESPACE_OWNER_ANNOTATION)
        .is_some_and(|made| *made == owner(&name));
    made_by_us
        && !seen.unreadable.contains(&name)
        && !seen.by_hand.contains(&name)
        && !seen
            .inventory
            .iter()
            .any(|member| member.name_any() == name)
}

#[cfg(test)]
mod tests {
    use kube::core::ObjectMeta;
    use strait_api::{ManagedClusterSpec, ManagedClusterStatus};

    use super::*;

    fn member(name: &str) -> ManagedCluster {
        ManagedCluster::new(name, ManagedClusterSpec::default())
    }

    fn namespace(name: &str, owner: Option<&str>) -> Namespace {
        let annotations =
            owner.map(|owner| [(NAMESPACE_OWNER_ANNOTATION.to_owned(), owner.to_owned())].into());
        Namespace {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                uid: Some(format!("uid-{name}")),
                annotations,
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        }
    }

    fn seen(inventory: Vec<ManagedCluster>, namespaces: Vec<Namespace>) -> Seen {
        Seen {
            inventory: inventory.into_iter().map(Arc::new).collect(),
            unreadable: BTreeSet::new(),
            namespaces: namespaces.into_iter().map(Arc::new).collect(),
            by_hand: BTreeSet::new(),
            failed: BTreeMap::new(),
            now: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn a_member_without_a_namespace_gets_one_and_an_existing_one_stays_as_it_is() {
        let decision = decide(&seen(
            vec![member("cluster1"), member("cluster2")],
            vec![namespace("cluster2", None)],
        ));
        assert_eq!(decision.create, ["cluster1".parse().unwrap()]);
        assert_eq!((decision.delete, decision.tell), (vec![], vec![]));
    }

    #[test]
    fn only_a_namespace_that_we_made_goes_with_its_member() {
        let decision = decide(&seen(
            vec![],
            vec![
                namespace("cluster1", Some("ManagedCluster/cluster1")),
                namespace("cluster2", None),
                namespace("cluster3", Some("ManagedCluster/other")),
            ],
        ));
        assert_eq!(
            decision.delete,
            [("cluster1".to_owned(), "uid-cluster1".to_owned())]
        );
    }

    #[test]
    fn a_namespace_in_which_people_made_entrypoints_outlives_its_member() {
        let entrypoint = |namespace: &str, configuration: Option<&str>| {
            let mut made = ClusterProxyEntrypoint::default();
            made.metadata.namespace = Some(namespace.to_owned());
            let label = configuration.map(|c| (CONFIGURATION_LABEL.to_owned(), c.to_owned()));
            made.metadata.labels = Some(label.into_iter().collect());
            Arc::new(made)
        };
        let entrypoints = [
            entrypoint("cluster1", None),
            entrypoint("cluster2", Some("cluster-proxy")),
        ];
        let unreadable = [(Some("cluster3".to_owned()), "x".to_owned())].into();
        let made = ["cluster1", "cluster2", "cluster3"]
            .map(|name| namespace(name, Some(&format!("ManagedCluster/{name}"))));
        let mut seen = seen(vec![], made.into());
        seen.by_hand = by_hand(&entrypoints, unreadable);
        assert_eq!(
            decide(&seen).delete,
            [("cluster2".to_owned(), "uid-cluster2".to_owned())]
        );
    }

    #[test]
    fn the_namespace_of_a_member_that_cannot_be_read_stays() {
        let made = namespace("cluster1", Some("ManagedCluster/cluster1"));
        let mut seen = seen(vec![], vec![made]);
        seen.unreadable.insert("cluster1".to_owned());
        assert_eq!(decide(&seen), Decision::default());
    }

    #[test]
    fn a_member_that_is_being_deleted_keeps_its_namespace_and_gets_none() {
        let mut leaving = member("cluster1");
        leaving.metadata.deletion_timestamp = Some(
            k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::UNIX_EPOCH),
        );
        let made = namespace("cluster1", Some("ManagedCluster/cluster1"));
        assert_eq!(
            decide(&seen(vec![leaving.clone()], vec![made])),
            Decision::default()
        );
        assert_eq!(decide(&seen(vec![leaving], vec![])), Decision::default());
    }

    #[test]
    fn a_name_of_the_hub_itself_is_refused_and_told() {
        for (name, reason) in [
            ("kube-system", "ReservedName"),
            ("default", "ReservedName"),
            ("strait-system", "ReservedName"),
            ("a.b", "InvalidName"),
        ] {
            let decision = decide(&seen(vec![member(name)], vec![]));
            assert_eq!(decision.create, []);
            let condition = &decision.tell[0].conditions[0];
            assert_eq!(
                (condition.r#type.as_str(), condition.reason.as_str()),
                (NAMESPACE_READY, reason)
            );
            assert!(condition.message.starts_with("metadata.name: "));

            let mut told = member(name);
            told.status = Some(ManagedClusterStatus {
                conditions: decision.tell[0].conditions.clone(),
                ..ManagedClusterStatus::default()
            });
            assert_eq!(decide(&seen(vec![told], vec![])).tell, []);
        }
    }

    #[test]
    fn a_namespace_that_cannot_be_made_is_told_and_tried_again() {
        let mut seen = seen(vec![member("cluster1")], vec![]);
        seen.failed
            .insert("cluster1".to_owned(), "no quota".to_owned());
        let decision = decide(&seen);
        assert_eq!(decision.create.len(), 1);
        let condition = &decision.tell[0].conditions[0];
        assert_eq!(condition.reason, "NamespaceNotMade");
        assert!(
            condition.message.ends_with("no quota"),
            "{}",
            condition.message
        );
    }

    #[test]
    fn trouble_that_is_over_is_taken_back() {
        let mut troubled = member("cluster1");
        let condition = Condition::new(
            NAMESPACE_READY,
            ConditionStatus::False,
            "NamespaceTerminating",
            "",
            Timestamp::UNIX_EPOCH,
        );
        troubled.status = Some(ManagedClusterStatus {
            conditions: vec![condition],
            ..ManagedClusterStatus::default()
        });
        let decision = decide(&seen(vec![troubled], vec![namespace("cluster1", None)]));
        assert_eq!(decision.tell[0].conditions[0].status, ConditionStatus::True);
    }
}
