//! The command line, as people use it.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use strait_e2e::Stage;
use tokio::io::{AsyncBufReadExt, BufReader};

#[tokio::test]
async fn clusters_and_services_are_listed_as_table_and_as_data() -> Result<()> {
    let stage = Stage::of_tests()?;
    let table = stage.strait_ok("hub", &["clusters"]).await?.stdout;
    ensure!(
        table.starts_with("CLUSTER") && table.contains("cluster1"),
        "{table}"
    );
    let json = stage
        .strait_ok("hub", &["clusters", "-o", "json"])
        .await?
        .stdout;
    ensure!(serde_json::from_str::<Value>(&json).is_ok(), "{json}");
    let table = stage
        .strait_ok("hub", &["services", "cluster1"])
        .await?
        .stdout;
    ensure!(
        table.contains("search.default.cluster1") && !table.contains("cluster2"),
        "{table}"
    );
    let yaml = stage
        .strait_ok("hub", &["services", "-o", "yaml"])
        .await?
        .stdout;
    ensure!(yaml.contains("foo.default.cluster2"), "{yaml}");
    Ok(())
}

#[tokio::test]
async fn the_local_proxy_uses_the_credentials_of_the_kubeconfig() -> Result<()> {
    let stage = Stage::of_tests()?;
    let mut proxy = tokio::process::Command::new(&stage.strait)
        .arg("--kubeconfig")
        .arg(stage.hub()?.kubeconfig_path())
        .args(["proxy", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .spawn()?;
    let stdout = proxy.stdout.take().context("no stdout")?;
    let mut lines = BufReader::new(stdout).lines();
    let mut address = None;
    while let Some(line) = lines.next_line().await? {
        if let Some((_, found)) = line.split_once("http://") {
            address = Some(found.trim_matches(|c: char| !c.is_ascii_digit()).to_owned());
            break;
        }
    }
    let address = address.context("the proxy did not say where it listens")?;
    let curl = |url: &'static str| {
        let proxy = format!("http://{address}");
        async move {
            let said = tokio::process::Command::new("curl")
                .args(["--silent", "--show-error", "--max-time", "20", "--insecure"])
                .args(["--noproxy", "", "--proxy", &proxy, url])
                .output()
                .await
                .context("failed to run curl")?;
            anyhow::Ok(String::from_utf8_lossy(&said.stdout).into_owned())
        }
    };
    for url in [
        "http://search.default.cluster1/",
        "https://search.default.cluster1/",
    ] {
        let body = curl(url).await?;
        ensure!(
            body.contains("search in namespace default of cluster1"),
            "{url}: {body}"
        );
    }
    let refusal = curl("http://serch.default.cluster1/").await?;
    ensure!(refusal.contains("entrypoint-not-found"), "{refusal}");
    proxy.kill().await?;
    Ok(())
}

#[tokio::test]
async fn every_session_is_listed_with_its_hub_and_carrier() -> Result<()> {
    let stage = Stage::of_tests()?;
    let json = stage.strait_ok("hub", &["status", "-o", "json"]).await?;
    let status: Value = serde_json::from_str(&json.stdout)?;
    let rows = status["sessions"].as_array().context("no sessions")?;
    let of = |cluster: &str| {
        rows.iter()
            .any(|row| row["cluster"] == cluster && row["session"]["carrier"] == "tls")
    };
    ensure!(of("cluster1") && of("cluster2"), "{status:#}");
    Ok(())
}

#[tokio::test]
async fn one_port_of_one_service_becomes_a_port_of_this_machine() -> Result<()> {
    let stage = Stage::of_tests()?;
    let mut forward = tokio::process::Command::new(&stage.strait)
        .arg("--kubeconfig")
        .arg(stage.hub()?.kubeconfig_path())
        .args(["forward", "search.default.cluster1:80"])
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .spawn()?;
    let stdout = forward.stdout.take().context("no stdout")?;
    let address = BufReader::new(stdout).lines().next_line().await?;
    let url = format!("http://{}/", address.context("it said nothing")?);
    let said = tokio::process::Command::new("curl")
        .args([
            "--silent",
            "--show-error",
            "--max-time",
            "20",
            "--noproxy",
            "*",
            &url,
        ])
        .output()
        .await
        .context("failed to run curl")?;
    let body = String::from_utf8_lossy(&said.stdout);
    ensure!(
        body.contains("search in namespace default of cluster1"),
        "{said:?}"
    );
    forward.kill().await?;
    let said = stage
        .strait("hub", &["forward", "serch.default.cluster1:80"])
        .await?;
    ensure!(
        said.code == 1 && said.stderr.contains("search.default.cluster1"),
        "{said:?}"
    );
    Ok(())
}

#[tokio::test]
async fn the_doctor_names_the_hop_that_is_broken() -> Result<()> {
    let stage = Stage::of_tests()?;
    let said = stage
        .strait("hub", &["doctor", "search.default.cluster1:80"])
        .await?;
    ensure!(said.code == 0, "{said:?}");
    for hop in ["hub", "name", "rights", "session", "connection"] {
        let good = |line: &str| line.starts_with(hop) && line.contains("  ok  ");
        ensure!(said.stdout.lines().any(good), "{hop}: {said:?}");
    }
    let said = stage
        .strait("hub", &["doctor", "serch.default.cluster1"])
        .await?;
    ensure!(
        said.code == 1 && said.stderr.contains("`search.default.cluster1`"),
        "{said:?}"
    );
    let said = stage
        .strait("hub", &["doctor", "search.default.cluster1:81"])
        .await?;
    ensure!(
        said.code == 1 && said.stderr.starts_with("error: connection: "),
        "{said:?}"
    );
    Ok(())
}

#[tokio::test]
async fn installing_and_joining_again_changes_nothing() -> Result<()> {
    let stage = Stage::of_tests()?;
    let generation = || async {
        let path = "jsonpath={.items[*].metadata.generation}";
        let args = ["get", "deployments", "-n", "strait-system", "-o", path];
        anyhow::Ok(stage.hub()?.kubectl(&args).await?)
    };
    let before = generation().await?;
    stage.install_hub().await?;
    ensure!(generation().await? == before);
    Ok(())
}

#[tokio::test]
async fn wrong_usage_and_failure_have_their_exit_codes() -> Result<()> {
    let stage = Stage::of_tests()?;
    ensure!(stage.strait("hub", &["clustres"]).await?.code == 2);
    let said = stage.strait("hub", &["services", "cluster9"]).await?;
    ensure!(
        said.code == 1 && said.stderr.starts_with("error: "),
        "{said:?}"
    );
    ensure!(said.stdout.is_empty(), "{}", said.stdout);
    let version = stage.strait_ok("hub", &["version"]).await?;
    ensure!(
        version.stdout.contains(env!("CARGO_PKG_VERSION")),
        "{}",
        version.stdout
    );
    Ok(())
}
