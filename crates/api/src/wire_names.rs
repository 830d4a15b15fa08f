//! Names that other programs rely on: labels, annotations, Secrets, ConfigMaps, namespaces.
//!
//! They are part of the product's interface: none is ever changed, only added to.

/// API group of the proxy kinds (cluster-proxy's).
pub const PROXY_GROUP: &str = "proxy.open-cluster-management.io";
/// API group of the inventory (Open Cluster Management's).
pub const CLUSTER_GROUP: &str = "cluster.open-cluster-management.io";
/// Plural of [`ClusterProxyEntrypoint`](crate::ClusterProxyEntrypoint), as RBAC rules name it.
pub const ENTRYPOINTS: &str = "clusterproxyentrypoints";
/// The verb on an entrypoint that lets a caller connect to it.
pub const CONNECT_VERB: &str = "connect";
/// The one `ManagedProxyConfiguration` that counts.
pub const CONFIGURATION_NAME: &str = "cluster-proxy";

/// The hub's namespace.
pub const HUB_NAMESPACE: &str = "strait-system";
/// The agent's namespace in a member.
pub const AGENT_NAMESPACE: &str = "strait-agent";

/// On every object that Strait makes.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "strait");
/// Names the member, on objects that are about one.
pub const CLUSTER_LABEL: &str = "strait.dev/cluster";
/// On an entrypoint made from a configuration: the configuration's name.
pub const CONFIGURATION_LABEL: &str = "strait.dev/configuration";
/// On an entrypoint made from a configuration: the field it came from, e.g. `spec.services[0]`.
pub const SOURCE_ANNOTATION: &str = "strait.dev/source";
/// On a member's namespace: what made it. Only namespaces with it are ever deleted.
pub const NAMESPACE_OWNER_ANNOTATION: &str = "strait.dev/owner";

/// Secret with the CA that signs agents' certificates: `tls.crt`, `tls.key`, `ca.crt`.
pub const AGENT_CA_SECRET: &str = "strait-agent-ca";
/// Secret with the CA that signs the hub's certificates: `tls.crt`, `tls.key`, `ca.crt`.
pub const HUB_CA_SECRET: &str = "strait-hub-ca";
/// What the name of a join token's Secret begins with; the token's id follows.
pub const JOIN_SECRET_PREFIX: &str = "strait-join-";
/// Type of a join token's Secret.
pub const JOIN_SECRET_TYPE: &str = "strait.dev/join-token";
/// Secret in the member with the agent's certificate: `tls.crt`, `tls.key`, `ca.crt`, `hubs`.
pub const AGENT_IDENTITY_SECRET: &str = "strait-agent-identity";
/// Secret in the member with the token file (key `token`) that the agent joins with.
pub const AGENT_JOIN_SECRET: &str = "strait-agent-join";
/// ConfigMap in the member in which the agent tells how it is.
pub const AGENT_STATUS_CONFIG_MAP: &str = "strait-agent-status";
/// ConfigMap at the hub that tells callers where it listens: `addresses`, `domain`, `caBundle`.
pub const HUB_INFO_CONFIG_MAP: &str = "strait-hub-info";

/// Condition of `ManagedCluster`: a probe went through the tunnel and came back.
pub const TUNNEL_REACHABLE: &str = "TunnelReachable";
/// Condition of `ManagedCluster` (OCM's name): the hub's administrator accepted it.
pub const HUB_ACCEPTED: &str = "HubAcceptedManagedCluster";
/// Condition of `ManagedCluster` (OCM's name): it has joined.
pub const JOINED: &str = "ManagedClusterJoined";
/// Condition of `ManagedCluster` (OCM's name): it answers.
pub const AVAILABLE: &str = "ManagedClusterConditionAvailable";
/// Condition of `ManagedCluster`: it has a namespace at the hub, or why it can have none. Absent
/// while there never was any trouble.
pub const NAMESPACE_READY: &str = "NamespaceReady";
/// Condition of an entrypoint: it is valid and in force.
pub const ACCEPTED: &str = "Accepted";
/// Condition of `ManagedProxyConfiguration`: every entry of `services` and `serviceResolvers` holds.
pub const SERVICES_RESOLVED: &str = "ServicesResolved";
/// Condition of `ManagedProxyConfiguration`: the files that the hub was given (`--tls-cert`,
/// `--tls-key`, `--callers-ca`) are in force. Absent when it was given none.
pub const CERTIFICATE_FILES_VALID: &str = "CertificateFilesValid";
/// Condition of `ManagedProxyConfiguration`: whether its image fields are used.
pub const IMAGES_HONOURED: &str = "ImagesHonoured";
/// Condition of `ManagedProxyConfiguration`: the hub's authorities can be used, until when.
pub const CERTIFICATES_VALID: &str = "CertificatesValid";
/// Condition of `ManagedProxyConfiguration` (cluster-proxy's name): the hub's Deployment is ready.
pub const PROXY_SERVER_DEPLOYED: &str = "ProxyServerDeployed";

#[cfg(test)]
mod tests {
    #[test]
    fn names_that_others_rely_on_stay_as_they_are() {
        use super::*;
        assert_eq!(
            [
                PROXY_GROUP,
                CLUSTER_GROUP,
                ENTRYPOINTS,
                CONNECT_VERB,
                CONFIGURATION_NAME,
                HUB_NAMESPACE,
                AGENT_NAMESPACE,
                AGENT_CA_SECRET,
                HUB_CA_SECRET,
                HUB_INFO_CONFIG_MAP,
                AGENT_IDENTITY_SECRET,
                HUB_ACCEPTED,
                JOINED,
                AVAILABLE,
                PROXY_SERVER_DEPLOYED,
            ],
            [
                "proxy.open-cluster-management.io",
                "cluster.open-cluster-management.io",
                "clusterproxyentrypoints",
                "connect",
                "cluster-proxy",
                "strait-system",
                "strait-agent",
                "strait-agent-ca",
                "strait-hub-ca",
                "strait-hub-info",
                "strait-agent-identity",
                "HubAcceptedManagedCluster",
                "ManagedClusterJoined",
                "ManagedClusterConditionAvailable",
                "ProxyServerDeployed",
            ]
        );
    }
}
