//! What was installed can be removed, and nothing is left. Runs after every other test.

use anyhow::{Result, ensure};
use strait_e2e::Stage;
use strait_testbed::Cluster;

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
    Ok(())
}
