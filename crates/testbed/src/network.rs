//! The bridge of a set, and the cables from it into the cells.

use std::fs;

use crate::{
    command::Job,
    error::Error,
    plan::{ClusterPlan, Set},
};

/// Makes the bridge and gives the machine its address on it.
pub(crate) async fn create_bridge(set: Set) -> Result<(), Error> {
    let (bridge, host) = (set.bridge(), set.host_address());
    batch(
        format!("make the bridge {bridge}"),
        format!(
            "link add {bridge} type bridge\naddr add {host}/24 dev {bridge}\nlink set {bridge} up\n"
        ),
    )
    .await?;
    if bridges_are_filtered() && forwarding(set).await?.is_restricted {
        forward_rule(set, "-I").await?;
    }
    Ok(())
}

/// Puts a cable between the bridge and the network namespace of process `pid`, where it ends as `eth0`.
pub(crate) async fn plug_in(plan: &ClusterPlan, pid: i32) -> Result<(), Error> {
    let (cable, bridge) = (&plan.cable, plan.set.bridge());
    batch(
        format!("connect {} to the bridge", plan.name),
        format!(
            "link add {cable} type veth peer name eth0 netns {pid}\n\
             link set {cable} master {bridge} up\n"
        ),
    )
    .await
}

/// Removes the bridge and every cable of the set, whoever made them.
pub(crate) async fn remove(set: Set) -> Result<(), Error> {
    for link in links(set)? {
        // A cable vanishes by itself with the namespace at its other end, maybe just now.
        let gone = Job::new("remove a link", "ip")
            .args(["link", "del", &link])
            .run()
            .await;
        if gone.is_err() && links(set)?.contains(&link) {
            gone?;
        }
    }
    while forwarding(set).await?.is_ours {
        forward_rule(set, "-D").await?;
    }
    Ok(())
}

/// The links of the set that there are, cables before the bridge.
pub(crate) fn links(set: Set) -> Result<Vec<String>, Error> {
    let folder = "/sys/class/net";
    let mut links: Vec<_> = fs::read_dir(folder)
        .map_err(Error::file("list", folder))?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|link| set.owns_link(link))
        .collect();
    links.sort();
    links.reverse();
    Ok(links)
}

/// Whether frames between two ports of a bridge pass the machine's iptables. Docker turns that on, and
/// drops what it does not know.
fn bridges_are_filtered() -> bool {
    fs::read_to_string("/proc/sys/net/bridge/bridge-nf-call-iptables")
        .is_ok_and(|value| value.trim() == "1")
}

/// What the machine's iptables say about forwarding.
#[derive(Debug, PartialEq, Eq)]
struct Forwarding {
    /// Something may be dropped.
    is_restricted: bool,
    /// The rule of this set is there.
    is_ours: bool,
}

/// Only asks: adding or removing a rule would leave empty tables behind where there were none.
async fn forwarding(set: Set) -> Result<Forwarding, Error> {
    let rules = Job::new("read the machine's firewall", "iptables")
        .args(["-S", "FORWARD"])
        .run();
    Ok(parse_forwarding(set, &rules.await?))
}

fn parse_forwarding(set: Set, rules: &str) -> Forwarding {
    let ours = format!("-A FORWARD -i {0} -o {0} -j ACCEPT", set.bridge());
    Forwarding {
        is_restricted: rules.trim() != "-P FORWARD ACCEPT",
        is_ours: rules.lines().any(|line| line.trim() == ours),
    }
}

/// Adds (`-I`) or removes (`-D`) the one rule of ours on the machine itself.
async fn forward_rule(set: Set, verb: &str) -> Result<(), Error> {
    let bridge = set.bridge();
    Job::new("let the clusters of a set speak to each other", "iptables")
        .args([
            "-w", "5", verb, "FORWARD", "-i", &bridge, "-o", &bridge, "-j", "ACCEPT",
        ])
        .run()
        .await
        .map(|_said| ())
}

async fn batch(what: String, lines: String) -> Result<(), Error> {
    Job::new(what, "ip")
        .args(["-batch", "-"])
        .input(lines)
        .run()
        .await
        .map(|_said| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_firewall_is_touched_only_where_it_has_rules() {
        let open = Forwarding {
            is_restricted: false,
            is_ours: false,
        };
        assert_eq!(parse_forwarding(Set::Demo, "-P FORWARD ACCEPT\n"), open);
        let docker = "-P FORWARD DROP\n-A FORWARD -j DOCKER-USER\n";
        assert!(parse_forwarding(Set::Demo, docker).is_restricted);
        let with_ours = format!("{docker}-A FORWARD -i strait-demo -o strait-demo -j ACCEPT\n");
        assert!(parse_forwarding(Set::Demo, &with_ours).is_ours);
        assert!(!parse_forwarding(Set::Test, &with_ours).is_ours);
    }
}
