//! What was installed can be removed, and nothing is left. Runs after every other test.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use strait_e2e::{Stage, eventually};
use strait_testbed::Cluster;

/// A definition as hubs have it that ran cluster-proxy: other fields are required, and ours are not
/// known, so that they would be dropped without a word.
const FOREIGN: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: managedproxyconfigurations.proxy.open-cluster-management.io}
spec:
  group: proxy.open-cluster-management.io
  scope: Cluster
  names: {kind: ManagedProxyConfiguration, plural: managedproxyconfigurations, singular: managedproxyconfiguration, listKind: ManagedProxyConfigurationList}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [authentication]
            properties: {authentication: {type: object}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"#;

/// Everything in a cluster that could be ours, by name.
async fn ours(cluster: &Cluster) -> Result<String> {
    let kinds = "namespaces,clusterroles,clusterrolebindings,customresourcedefinitions,\
                 roles,rolebindings,configmaps,secrets,serviceaccounts,deployments,services,leases";
    let all = cluster
        .kubectl(&["get", kinds, "--all-namespaces", "-o", "name"])
        .await?;
    let named: Vec<&str> = all
        .lines()
        .filter(|line| line.contains("strait") || line.contains("open-cluster-management.io"))
        .collect();
    Ok(named.join("\n"))
}

#[tokio::test]
async fn uninstalling_leaves_nothing() -> Result<()> {
    let stage = Stage::of_tests()?;
    for member in ["cluster1", "cluster2"] {
        stage.strait_ok(member, &["uninstall", "agent"]).await?;
        let left = ours(stage.cluster(member)?).await?;
        ensure!(left.is_empty(), "left in {member}:\n{left}");
    }
    stage
        .strait_ok("hub", &["uninstall", "hub", "--all"])
        .await?;
    let left = ours(stage.hub()?).await?;
    ensure!(left.is_empty(), "left in the hub:\n{left}");
    // Again: nothing to do is no failure.
    stage
        .strait_ok("hub", &["uninstall", "hub", "--all"])
        .await?;
    a_hub_of_cluster_proxy_becomes_ours(&stage).await
}

/// In the same test, as it needs a hub without anything, and leaves one.
async fn a_hub_of_cluster_proxy_becomes_ours(stage: &Stage) -> Result<()> {
    let hub = stage.hub()?;
    let path = stage.folder().join("foreign-definition.yaml");
    std::fs::write(&path, FOREIGN).context("failed to write the definition")?;
    let path = path.display().to_string();
    hub.kubectl(&["apply", "-f", &path]).await?;
    stage.install_hub().await?;
    hub.kubectl(&["apply", "-f", &stage.manifest("services.yaml")])
        .await?;
    eventually(Duration::from_secs(30), "the services are read", || async {
        let status = "jsonpath={.status.conditions[?(@.type==\"ServicesResolved\")].message}";
        let args = [
            "get",
            "managedproxyconfiguration",
            "cluster-proxy",
            "-o",
            status,
        ];
        let said = hub.kubectl(&args).await?;
        ensure!(said.contains("no cluster is called `cluster1`"), "{said}");
        Ok(())
    })
    .await?;
    stage
        .strait_ok("hub", &["uninstall", "hub", "--all"])
        .await?;
    let left = ours(hub).await?;
    ensure!(left.is_empty(), "left in the hub:\n{left}");
    Ok(())
}
