//! Clusters join, and the inventory tells the truth about them.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use strait_e2e::{Stage, eventually};

async fn condition(stage: &Stage, cluster: &str, kind: &str) -> Result<Value> {
    let args = ["get", "managedcluster", cluster, "-o", "json"];
    let object: Value = serde_json::from_str(&stage.hub()?.kubectl(&args).await?)?;
    let conditions = object["status"]["conditions"]
        .as_array()
        .context("no conditions")?;
    let found = conditions
        .iter()
        .find(|condition| condition["type"] == kind);
    Ok(found
        .with_context(|| format!("{kind} is not among {conditions:?}"))?
        .clone())
}

#[tokio::test]
async fn the_inventory_says_that_a_probe_went_through() -> Result<()> {
    let stage = Stage::of_tests()?;
    for cluster in ["cluster1", "cluster2"] {
        eventually(
            Duration::from_secs(30),
            "the member is reachable",
            || async {
                for kind in [
                    "TunnelReachable",
                    "ManagedClusterJoined",
                    "ManagedClusterConditionAvailable",
                ] {
                    let found = condition(&stage, cluster, kind).await?;
                    ensure!(found["status"] == "True", "{found}");
                }
                Ok(())
            },
        )
        .await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_used_an_expired_and_a_foreign_token_are_told_apart() -> Result<()> {
    let stage = Stage::of_tests()?;
    let token = stage.token("cluster3").await?;
    let text = std::fs::read_to_string(&token)?;
    ensure!(
        text.contains("expires:") && text.contains(&stage.hub_address()?),
        "{text}"
    );
    let join = |text: String| async move {
        let stage = Stage::of_tests()?;
        stage.ask_to_join("cluster3", &text).await
    };
    let first = join(text.clone()).await?;
    ensure!(first.status == 200, "{}", first.body);
    let used = join(text.clone()).await?;
    ensure!(used.code()? == "token-used", "{}", used.body);

    let foreign = text
        .lines()
        .map(|line| {
            if line.starts_with("token:") {
                "token: 0123456789abcdef.c2VjcmV0"
            } else {
                line
            }
        })
        .collect::<Vec<_>>()
        .join("\n");
    let foreign = join(foreign).await?;
    ensure!(foreign.code()? == "token-foreign", "{}", foreign.body);

    let token = std::fs::read_to_string(stage.token("cluster3").await?)?;
    stage.expire_token(&token).await?;
    let expired = join(token).await?;
    ensure!(expired.code()? == "token-expired", "{}", expired.body);
    stage
        .hub()?
        .kubectl(&["delete", "managedcluster", "cluster3"])
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_member_that_is_deleted_loses_its_sessions_and_can_join_again() -> Result<()> {
    let stage = Stage::of_tests()?;
    let dev = stage.caller("dev").await?;
    stage
        .hub()?
        .kubectl(&["delete", "managedcluster", "cluster2"])
        .await?;
    let gone = eventually(
        Duration::from_secs(20),
        "cluster2 is not known any more",
        || async {
            let (_, code, _) = dev.refused("foo.default.cluster2:80").await?;
            ensure!(code == "cluster-not-found", "{code}");
            Ok(())
        },
    )
    .await;
    // The member's namespace at the hub goes with it, and what was granted there.
    stage
        .hub()?
        .kubectl(&[
            "wait",
            "--for=delete",
            "namespace/cluster2",
            "--timeout=60s",
        ])
        .await?;
    stage.join("cluster2").await?;
    eventually(
        Duration::from_secs(20),
        "the namespace is there again",
        || stage.grant("dev", &["cluster2"]),
    )
    .await?;
    stage
        .entrypoint_accepted("cluster2", "foo.default.cluster2")
        .await?;
    eventually(
        Duration::from_secs(30),
        "cluster2 answers again",
        || async { dev.get("foo.default.cluster2:80", "/").await },
    )
    .await?;
    gone
}

#[tokio::test]
async fn a_killed_agent_comes_back_and_the_other_member_notices_nothing() -> Result<()> {
    let stage = Stage::of_tests()?;
    let dev = stage.caller("dev").await?;
    let mut other = dev.reach("search.default.cluster1:drip").await?;
    let args = [
        "delete",
        "pod",
        "-n",
        "strait-agent",
        "--all",
        "--grace-period=0",
        "--force",
    ];
    stage.cluster("cluster2")?.kubectl(&args).await?;
    eventually(
        Duration::from_secs(60),
        "cluster2 answers again",
        || async { dev.get("foo.default.cluster2:80", "/").await },
    )
    .await?;
    tokio::io::AsyncReadExt::read_u8(&mut other)
        .await
        .context("cluster1's stream broke")?;
    Ok(())
}

#[tokio::test]
async fn a_restarted_hub_finds_its_members_again() -> Result<()> {
    let stage = Stage::of_tests()?;
    let dev = stage.caller("dev").await?;
    let hub = stage.hub()?;
    hub.kubectl(&[
        "rollout",
        "restart",
        "-n",
        "strait-system",
        "deployment/strait-hub",
    ])
    .await?;
    let wait = [
        "rollout",
        "status",
        "-n",
        "strait-system",
        "deployment/strait-hub",
    ];
    hub.kubectl(&[&wait[..], &["--timeout=120s"]].concat())
        .await?;
    for target in ["search.default.cluster1:80", "foo.default.cluster2:80"] {
        eventually(Duration::from_secs(20), "the member answers again", || {
            dev.get(target, "/")
        })
        .await?;
    }
    Ok(())
}
