//! A service of a closed-off cluster is reached by its name.

use anyhow::{Context, Result, ensure};
use strait_e2e::{DOMAIN, Stage};

const SERVICES: [(&str, &str, &str); 3] = [
    ("search", "default", "cluster1"),
    ("search", "search", "cluster1"),
    ("foo", "default", "cluster2"),
];

fn says(body: &str, name: &str, namespace: &str, cluster: &str) -> Result<()> {
    let expected = format!("{name} in namespace {namespace} of {cluster}, pod {name}-");
    ensure!(
        body.starts_with(&expected),
        "expected {expected:?}, got {body:?}"
    );
    Ok(())
}

#[tokio::test]
async fn each_name_of_the_seed_is_answered_by_its_pod() -> Result<()> {
    let stage = Stage::of_tests()?;
    let dev = stage.caller("dev").await?;
    for (name, namespace, cluster) in SERVICES {
        let answer = dev
            .get(&format!("{name}.{namespace}.{cluster}:80"), "/")
            .await?;
        says(&answer.body, name, namespace, cluster)?;
    }
    Ok(())
}

#[tokio::test]
async fn a_port_is_found_by_its_name_and_by_its_number() -> Result<()> {
    let stage = Stage::of_tests()?;
    let dev = stage.caller("dev").await?;
    for port in ["80", "http"] {
        let answer = dev
            .get(&format!("search.default.cluster1:{port}"), "/")
            .await?;
        says(&answer.body, "search", "default", "cluster1")?;
    }
    Ok(())
}

#[tokio::test]
async fn every_form_of_a_name_works_by_https() -> Result<()> {
    let stage = Stage::of_tests()?;
    let dev = stage.caller("dev").await?;
    let path = "jsonpath={.metadata.uid}";
    let entrypoint = "search.search.cluster1";
    let args = [
        "get",
        "clusterproxyentrypoint",
        "-n",
        "cluster1",
        entrypoint,
        "-o",
        path,
    ];
    let uid = stage.hub()?.kubectl(&args).await?;
    stage.speak_http("cluster1", entrypoint).await?;
    for host in [
        format!("search.search.cluster1.{DOMAIN}"),
        format!("search--search--cluster1.{DOMAIN}"),
        format!("{uid}.{DOMAIN}"),
        "search.search.cluster1".to_owned(),
        uid.clone(),
    ] {
        let answer = dev
            .get_by_host(&host, "/")
            .await
            .with_context(|| host.clone())?;
        says(&answer.body, "search", "search", "cluster1").with_context(|| host)?;
    }
    Ok(())
}

#[tokio::test]
async fn a_pod_of_another_member_reaches_it_through_the_hub() -> Result<()> {
    let stage = Stage::of_tests()?;
    let said = stage
        .ask_from_pod("cluster2", "dev", "search.default.cluster1:80")
        .await?;
    says(&said, "search", "default", "cluster1")
}

#[tokio::test]
async fn nothing_can_dial_into_a_member() -> Result<()> {
    let stage = Stage::of_tests()?;
    let (cluster1, cluster2) = (stage.cluster("cluster1")?, stage.cluster("cluster2")?);
    let address = cluster1.address().context("cluster1 has an address")?;
    let dial = format!("exec 3<>/dev/tcp/{address}/6443");
    let reached = cluster2
        .run_on_node(&["timeout", "2", "bash", "-c", &dial])
        .await;
    ensure!(
        reached.is_err(),
        "cluster2 reached the API server of cluster1"
    );
    Ok(())
}
