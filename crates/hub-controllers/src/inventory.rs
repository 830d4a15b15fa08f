//! The members that count, read from the inventory. Pure.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::core::v1::Namespace;
use kube::{Resource, ResourceExt};
use strait_api::{ManagedCluster, is_reserved_cluster};
use strait_types::ClusterName;

/// Whether an object is there to stay.
pub(crate) fn lives(object: &impl Resource) -> bool {
    object.meta().deletion_timestamp.is_none()
}

/// The clusters that are members: those in the inventory whose name can be a namespace's, is not
/// reserved, and that are not being deleted.
pub(crate) fn members(inventory: &[Arc<ManagedCluster>]) -> BTreeSet<ClusterName> {
    inventory
        .iter()
        .filter(|member| lives(member.as_ref()))
        .map(|member| member.name_any())
        .filter(|name| !is_reserved_cluster(name))
        .filter_map(|name| name.parse().ok())
        .collect()
}

/// The namespaces in which objects can be made.
pub(crate) fn open_namespaces(namespaces: &[Arc<Namespace>]) -> BTreeSet<String> {
    namespaces
        .iter()
        .filter(|namespace| lives(namespace.as_ref()))
        .map(|namespace| namespace.name_any())
        .collect()
}
