//! The definitions of our kinds, labelled as parts of the hub.

use serde_json::Value;
use strait_api::all_crds;

use crate::object::{Kind, Object, Part};

/// Every CustomResourceDefinition that a hub needs. One of Open Cluster Management that is already
/// there is to be left alone; only one with our labels is ours to change.
#[must_use]
pub fn crds(version: &str) -> Vec<Object> {
    all_crds()
        .into_iter()
        .filter_map(|crd| serde_json::to_value(crd).ok())
        .map(|crd| labelled(crd, version))
        .collect()
}

fn labelled(mut crd: Value, version: &str) -> Object {
    let mut metadata = crd["metadata"].take();
    metadata["labels"] = Part::Hub.labels("controller", version);
    let mut rest = Value::Object(serde_json::Map::new());
    rest["spec"] = crd["spec"].take();
    Object::new(Kind::CustomResourceDefinition, metadata, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_ours_has_a_labelled_definition() {
        let crds = crds("1.2.3");
        let names: Vec<&str> = crds.iter().map(Object::name).collect();
        assert_eq!(
            names,
            [
                "managedclusters.cluster.open-cluster-management.io",
                "managedproxyconfigurations.proxy.open-cluster-management.io",
                "clusterproxyentrypoints.proxy.open-cluster-management.io",
            ]
        );
        for crd in &crds {
            assert_eq!(
                crd.value()["metadata"]["labels"]["app.kubernetes.io/part-of"],
                "strait-hub"
            );
            assert!(crd.value()["spec"]["versions"].is_array());
        }
    }
}
