//! Certificate files of the hub.

use std::{process::Stdio, time::Duration};

use anyhow::{Context, Result, ensure};
use jiff::SignedDuration;
use serde_json::Value;
use strait_e2e::{Caller, Credential, Stage, eventually};
use strait_pki::Ca;
use strait_runtime::clock;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStderr, Command},
};

/// Status and message of the condition about the files.
async fn told(stage: &Stage) -> Result<(String, String)> {
    let args = [
        "get",
        "managedproxyconfiguration",
        "cluster-proxy",
        "-o",
        "json",
    ];
    let object: Value = serde_json::from_str(&stage.hub()?.kubectl(&args).await?)?;
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "CertificateFilesValid");
    let found = found.context("there is no CertificateFilesValid yet")?;
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    Ok((text("status"), text("message")))
}

async fn until(stage: &Stage, status: &str) -> Result<String> {
    let what = format!("CertificateFilesValid is {status}");
    eventually(Duration::from_secs(30), &what, || async {
        let (now, message) = told(stage).await?;
        ensure!(now == status, "it is {now}: {message}");
        Ok(message)
    })
    .await
}

/// Another hub of the same cluster; killed when dropped.
struct SecondHub {
    _process: Child,
    /// Kept open, as the hub writes to it.
    _log: Lines<BufReader<ChildStderr>>,
    address: String,
}

async fn second_hub(stage: &Stage, certificate: &str, key: &str) -> Result<SecondHub> {
    let mut hub = Command::new(&stage.strait)
        .args([
            "hub",
            "--listen=127.0.0.1:0",
            "--admin=127.0.0.1:0",
            "--log-format=json",
        ])
        .arg("--kubeconfig")
        .arg(stage.hub()?.kubeconfig_path())
        .args(["--tls-cert", certificate, "--tls-key", key])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let stderr = hub.stderr.take().context("no stderr")?;
    let mut lines = BufReader::new(stderr).lines();
    while let Some(line) = lines.next_line().await? {
        let line: Value = serde_json::from_str(&line).unwrap_or_default();
        if line["message"] == "the hub listens" {
            let address = line["address"].as_str().context("no address")?.to_owned();
            return Ok(SecondHub {
                _process: hub,
                _log: lines,
                address,
            });
        }
    }
    anyhow::bail!("the hub ended before it listened")
}

#[tokio::test]
async fn a_broken_file_is_a_condition_and_the_last_good_one_stays() -> Result<()> {
    let stage = Stage::of_tests()?;
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (certificate, key) = (path("tls.crt"), path("tls.key"));
    let life = SignedDuration::from_hours(1);
    let ca = Ca::generate("files", life, clock::timestamp())?;
    let names = ["hub.files.test".to_owned()];
    let (issued, private) = ca.issue_server(&names, life, clock::timestamp())?;
    std::fs::write(&certificate, &issued.chain_pem)?;
    std::fs::write(&key, private.reveal())?;

    let hub = second_hub(&stage, &certificate, &key).await?;
    until(&stage, "True").await?;
    std::fs::write(&certificate, "garbage")?;
    let message = until(&stage, "False").await?;
    ensure!(
        message.starts_with("--tls-cert, --tls-key: ") && message.contains("last good one"),
        "{message}"
    );
    let trusting = Caller {
        hub: hub.address.clone(),
        ca: ca.certificate_pem().to_owned(),
        credential: Credential::Bearer(String::new()),
    };
    let shown = trusting.tls("hub.files.test").await;
    shown.context("the last good one stays")?;
    std::fs::write(&certificate, &issued.chain_pem)?;
    until(&stage, "True").await?;
    Ok(())
}
