//! The CustomResourceDefinitions, as they are installed.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

use crate::{ClusterProxyEntrypoint, ManagedCluster, ManagedProxyConfiguration};

/// Every definition, in the order in which they are installed.
#[must_use]
pub fn all() -> Vec<CustomResourceDefinition> {
    vec![
        ManagedCluster::crd(),
        ManagedProxyConfiguration::crd(),
        ClusterProxyEntrypoint::crd(),
    ]
}
