//! What may open a connection into a cluster. Pure.

use crate::plan::{ClusterPlan, HUB_PORT, Role};

/// The rules, as `iptables-restore` reads them.
///
/// They stand before any translation of addresses and before every rule of kube-proxy and the CNI plugins,
/// so neither a Service of type NodePort nor a hostPort can open what is not written here, and the port is
/// the one that was dialled.
pub(crate) fn rules(plan: &ClusterPlan) -> String {
    let host = plan.set.host_address();
    let open = match plan.role {
        Role::Hub => format!("-A PREROUTING -i eth0 -p tcp --dport {HUB_PORT} -j ACCEPT\n"),
        Role::Member => String::new(),
    };
    format!(
        "*mangle\n\
         -A PREROUTING -i eth0 -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT\n\
         -A PREROUTING -i eth0 -s {host} -j ACCEPT\n\
         {open}\
         -A PREROUTING -i eth0 -j DROP\n\
         COMMIT\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Set;

    #[test]
    fn members_open_nothing_and_the_hub_one_port() {
        let [hub, member] = Set::Test.clusters(1).try_into().unwrap();
        let accepts = |plan| {
            rules(plan)
                .lines()
                .filter(|line| line.ends_with("ACCEPT"))
                .count()
        };
        assert_eq!(accepts(&member), 2, "answers, and the administrator");
        assert_eq!(accepts(&hub), 3, "and the port of the hub");
        assert!(rules(&hub).contains("--dport 8443 -j ACCEPT"));
        for plan in [&hub, &member] {
            assert!(rules(plan).contains("-s 172.30.1.1 -j ACCEPT"));
            assert!(rules(plan).ends_with("-A PREROUTING -i eth0 -j DROP\nCOMMIT\n"));
        }
    }
}
