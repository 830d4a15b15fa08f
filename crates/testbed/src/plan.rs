//! Which names and addresses a set of clusters has. Pure.

use std::{fmt, net::Ipv4Addr, str::FromStr};

use serde::{Deserialize, Serialize};

/// The TCP port that the hub's node opens to the members, as `hostPort` of a pod.
pub const HUB_PORT: u16 = 8443;

/// Every cluster's pods live here; so do those of every other cluster.
pub(crate) const POD_RANGE: &str = "10.244.0.0/24";
/// Every cluster's services live here.
pub(crate) const SERVICE_RANGE: &str = "10.96.0.0/16";
/// The first address of [`SERVICE_RANGE`]: Kubernetes gives it to the API server.
pub(crate) const API_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);

/// The most members a set can have: node addresses are .11 (hub) to .99.
pub(crate) const MOST_MEMBERS: usize = 88;

/// A set of clusters with names and addresses of its own, so that two sets can be up at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Set {
    /// What `make demo` shows.
    Demo,
    /// What the end-to-end tests use.
    Test,
}

/// What a cluster is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The hub runs here; its [`HUB_PORT`] is open to the members.
    Hub,
    /// An agent runs here; nothing is open.
    Member,
}

/// The names and addresses of one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterPlan {
    /// The set it belongs to.
    pub set: Set,
    /// `hub`, `cluster1`, `cluster2`, …
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// The address of its only node, on the bridge that joins the clusters of a set.
    pub address: Ipv4Addr,
    /// The end of the cluster's cable that is plugged into the bridge.
    pub(crate) cable: String,
}

// === impl Set ===

impl Set {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Demo, Self::Test];

    /// The name, as typed on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Demo => "demo",
            Self::Test => "test",
        }
    }

    fn network(self) -> u8 {
        match self {
            Self::Demo => 0,
            Self::Test => 1,
        }
    }

    /// The machine's own address on the set's bridge: the administrator's.
    pub fn host_address(self) -> Ipv4Addr {
        Ipv4Addr::new(172, 30, self.network(), 1)
    }

    /// The bridge. A link's name has at most 15 bytes.
    pub(crate) fn bridge(self) -> String {
        format!("strait-{}", self.name())
    }

    /// What the name of every cgroup of this set starts with.
    pub(crate) fn cgroup_prefix(self) -> String {
        format!("strait-{}-", self.name())
    }

    /// Whether `link` is the name of the bridge or of a cable of this set.
    pub(crate) fn owns_link(self, link: &str) -> bool {
        link.strip_prefix(&self.bridge())
            .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
    }

    /// The hub and `members` members (at most [`MOST_MEMBERS`], the rest is left out).
    pub(crate) fn clusters(self, members: usize) -> Vec<ClusterPlan> {
        (0u8..)
            .zip(0..=members.min(MOST_MEMBERS))
            .map(|(index, _)| self.cluster(index))
            .collect()
    }

    fn cluster(self, index: u8) -> ClusterPlan {
        let (name, role) = if index == 0 {
            ("hub".to_owned(), Role::Hub)
        } else {
            (format!("cluster{index}"), Role::Member)
        };
        ClusterPlan {
            set: self,
            name,
            role,
            address: Ipv4Addr::new(172, 30, self.network(), 11 + index),
            cable: format!("{}{index}", self.bridge()),
        }
    }
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Set {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|set| set.name() == text)
            .ok_or_else(|| format!("`{text}` is not a set of clusters; there are demo and test"))
    }
}

// === impl ClusterPlan ===

impl ClusterPlan {
    /// The cgroup that holds the cluster, directly below the root of every hierarchy.
    pub(crate) fn cgroup(&self) -> String {
        format!("{}{}", self.set.cgroup_prefix(), self.name)
    }

    /// The address of the API server.
    pub fn server(&self) -> String {
        format!("https://{}:6443", self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hub_is_first_and_addresses_count_from_11() {
        let plans = Set::Demo.clusters(2);
        let seen: Vec<_> = plans
            .iter()
            .map(|plan| (plan.name.as_str(), plan.role, plan.address.to_string()))
            .collect();
        assert_eq!(
            seen,
            [
                ("hub", Role::Hub, "172.30.0.11".to_owned()),
                ("cluster1", Role::Member, "172.30.0.12".to_owned()),
                ("cluster2", Role::Member, "172.30.0.13".to_owned()),
            ]
        );
    }

    #[test]
    fn two_sets_share_no_address_link_or_cgroup() {
        let demo = Set::Demo.clusters(MOST_MEMBERS);
        let test = Set::Test.clusters(MOST_MEMBERS);
        assert_eq!(demo.len(), MOST_MEMBERS + 1);
        for (ours, theirs) in demo.iter().zip(&test) {
            assert_ne!(ours.address, theirs.address);
            assert_ne!(ours.cable, theirs.cable);
            assert!(!Set::Test.owns_link(&ours.cable));
            assert!(!ours.cgroup().starts_with(&Set::Test.cgroup_prefix()));
            assert!(
                ours.cable.len() <= 15,
                "{} is too long for a link",
                ours.cable
            );
        }
    }

    #[test]
    fn only_links_of_ours_are_owned() {
        assert!(Set::Demo.owns_link("strait-demo"));
        assert!(Set::Demo.owns_link("strait-demo12"));
        for other in [
            "strait-demo-x",
            "strait-dem",
            "eth0",
            "strait-test1",
            "xstrait-demo1",
        ] {
            assert!(!Set::Demo.owns_link(other), "{other}");
        }
    }
}
