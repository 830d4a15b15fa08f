//! The kinds of Strait and of the systems that it replaces, without a client.
//!
//! Groups, kinds, fields, labels and finalizers are those of the originals, byte for byte; what is
//! ours is optional. Schemas ask for less than upstream's where the published manifests leave
//! fields out: what is missing gets a default, and what is wrong becomes a condition on the object
//! instead of a refusal of everything else in it.
#![warn(missing_docs)]

mod condition;
mod crds;
mod entrypoint;
mod managed_cluster;
mod proxy_configuration;
mod reserved;
pub mod wire_names;

pub use condition::{Condition, ConditionStatus, set_condition};
pub use crds::all as all_crds;
pub use entrypoint::{
    Access, ClusterProxyEntrypoint, ClusterProxyEntrypointSpec, ClusterProxyEntrypointStatus,
    Protocol, Subject, SubjectKind, UpstreamTls,
};
pub use managed_cluster::{
    ClusterClaim, ClusterClientConfig, ClusterVersion, ManagedCluster, ManagedClusterSpec,
    ManagedClusterStatus,
};
pub use proxy_configuration::{
    ManagedProxyConfiguration, ManagedProxyConfigurationSpec, ManagedProxyConfigurationStatus,
};
pub use reserved::is_reserved_cluster;
