//! Who may connect is decided by one right on one object, and is taken back within ten seconds.

use std::time::Duration;

use anyhow::{Result, ensure};
use strait_e2e::{Credential, Stage, eventually};
use tokio::io::AsyncReadExt;

#[tokio::test]
async fn a_client_certificate_of_the_cluster_is_enough() -> Result<()> {
    let stage = Stage::of_tests()?;
    let caller = stage
        .caller_by_certificate("carol", Some("system:masters"))
        .await?;
    ensure!(caller.get("search.default.cluster1:80", "/").await?.status == 200);
    let stranger = stage.caller_by_certificate("mallory", None).await?;
    let (status, code, _) = stranger.refused("search.default.cluster1:80").await?;
    ensure!((status, code.as_str()) == (403, "not-allowed"));
    Ok(())
}

#[tokio::test]
async fn a_right_on_one_entrypoint_opens_no_other() -> Result<()> {
    let stage = Stage::of_tests()?;
    let rights = r"apiVersion: v1
kind: ServiceAccount
metadata: {name: narrow, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: connect-narrow, namespace: cluster1}
rules:
- apiGroups: [proxy.open-cluster-management.io]
  resources: [clusterproxyentrypoints]
  resourceNames: [search.default.cluster1]
  verbs: [connect]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: connect-narrow, namespace: cluster1}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: connect-narrow}
subjects: [{kind: ServiceAccount, name: narrow, namespace: default}]
";
    stage
        .hub()?
        .kubectl_with_input(&["apply", "-f", "-"], rights)
        .await?;
    let narrow = stage.caller("narrow").await?;
    eventually(Duration::from_secs(10), "the right is in force", || async {
        narrow.get("search.default.cluster1:80", "/").await
    })
    .await?;
    let (_, code, _) = narrow.refused("search.search.cluster1:80").await?;
    ensure!(code == "not-allowed");
    Ok(())
}

#[tokio::test]
async fn a_right_that_is_taken_back_ends_open_streams_within_ten_seconds() -> Result<()> {
    let stage = Stage::of_tests()?;
    stage.grant("leaver", &["cluster1"]).await?;
    let leaver = stage.caller("leaver").await?;
    let mut drip = eventually(Duration::from_secs(10), "the right is in force", || async {
        leaver.reach("search.default.cluster1:drip").await
    })
    .await?;
    drip.read_u8().await?;
    let binding = ["delete", "rolebinding", "-n", "cluster1", "connect-leaver"];
    stage.hub()?.kubectl(&binding).await?;
    let cut = tokio::time::timeout(Duration::from_secs(10), async {
        while drip.read_u8().await.is_ok() {}
    });
    ensure!(cut.await.is_ok(), "the stream was still open after 10 s");
    let (_, code, _) = leaver.refused("search.default.cluster1:80").await?;
    ensure!(code == "not-allowed");
    Ok(())
}

#[tokio::test]
async fn a_token_that_is_deleted_is_of_no_use_within_ten_seconds() -> Result<()> {
    let stage = Stage::of_tests()?;
    stage.grant("fired", &["cluster1"]).await?;
    let fired = stage.caller("fired").await?;
    eventually(Duration::from_secs(10), "the right is in force", || async {
        fired.get("search.default.cluster1:80", "/").await
    })
    .await?;
    stage
        .hub()?
        .kubectl(&["delete", "serviceaccount", "fired"])
        .await?;
    let Credential::Bearer(token) = &fired.credential else {
        anyhow::bail!("no bearer token")
    };
    eventually(
        Duration::from_secs(20),
        "the API server refuses the token",
        || async {
            ensure!(!stage.accepts(token).await?, "it accepts the token");
            Ok(())
        },
    )
    .await?;
    eventually(Duration::from_secs(10), "the token is refused", || async {
        let (_, code, _) = fired.refused("search.default.cluster1:80").await?;
        ensure!(code == "unauthenticated", "{code}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn the_credential_for_the_hub_does_not_travel_to_the_service() -> Result<()> {
    let stage = Stage::of_tests()?;
    let dev = stage.caller("dev").await?;
    stage
        .speak_http("cluster1", "search.search.cluster1")
        .await?;
    let Credential::Bearer(token) = &dev.credential else {
        anyhow::bail!("no bearer token")
    };
    let answer = dev
        .get_by_host("search.search.cluster1", "/headers")
        .await?;
    ensure!(answer.status == 200, "{}", answer.body);
    ensure!(
        !answer.body.contains(token.as_str()),
        "the token went to the service"
    );
    ensure!(answer.body.contains("x-forwarded-for"), "{}", answer.body);
    Ok(())
}
