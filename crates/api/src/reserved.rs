//! Names that no cluster may have.

use crate::wire_names::{AGENT_NAMESPACE, HUB_NAMESPACE};

/// Whether a cluster may not have this name. Its namespace at the hub would be one of the hub's
/// own, and who may write there could then expose what belongs to the "cluster".
#[must_use]
pub fn is_reserved_cluster(name: &str) -> bool {
    // The hub's cluster may be a member of its own, and then has an agent.
    ["default", HUB_NAMESPACE, AGENT_NAMESPACE].contains(&name) || name.starts_with("kube-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hubs_own_namespaces_are_no_clusters() {
        for name in [
            "default",
            "kube-system",
            "kube-public",
            "strait-system",
            "strait-agent",
        ] {
            assert!(is_reserved_cluster(name), "{name}");
        }
        for name in ["cluster1", "default-1", "kubernetes"] {
            assert!(!is_reserved_cluster(name), "{name}");
        }
    }
}
