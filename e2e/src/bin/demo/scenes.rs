//! The five scenes.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result, ensure};
use strait_e2e::{Caller, DOMAIN, Stage, eventually};
use tokio::time::Instant;

use crate::story::{Story, seconds};

const SERVICES: [(&str, &str, &str); 3] = [
    ("search", "default", "cluster1"),
    ("search", "search", "cluster1"),
    ("foo", "default", "cluster2"),
];

/// Requests to the other member while an agent is away.
const REQUESTS: u32 = 500;

pub(crate) async fn join(stage: &Stage, story: &Story) -> Result<()> {
    let started = Instant::now();
    stage.install_hub().await?;
    let address = stage.hub_address()?;
    let command = format!("strait install hub --address {address}");
    story.scene(
        1,
        "Join",
        &command,
        &format!("hub ready in {}", seconds(started.elapsed())),
    );
    let mut took = vec![];
    for cluster in ["cluster1", "cluster2"] {
        let started = Instant::now();
        stage.join(cluster).await?;
        took.push(format!(
            "{cluster} joined in {}",
            seconds(started.elapsed())
        ));
    }
    story.also(
        "strait token create --cluster … | strait join --token-file -",
        &took.join(", "),
    );
    Ok(())
}

pub(crate) async fn expose(stage: &Stage, story: &Story) -> Result<()> {
    for (name, namespace, cluster) in SERVICES {
        stage.deploy(name, namespace, cluster).await?;
    }
    let hub = stage.hub()?;
    hub.kubectl(&["apply", "-f", &stage.manifest("services.yaml")])
        .await?;
    let remark = "(the manifest of the discussion, unchanged)";
    story.scene(2, "Expose", "kubectl apply -f demo/services.yaml", remark);
    for (name, namespace, cluster) in SERVICES {
        stage
            .entrypoint_accepted(cluster, &format!("{name}.{namespace}.{cluster}"))
            .await?;
        stage.rolled_out(name, namespace, cluster).await?;
    }
    let columns = "custom-columns=NAME:.metadata.name,SERVICE:.spec.service,\
                   NAMESPACE:.spec.namespace,MANAGEDCLUSTER:.metadata.namespace,URL:.status.url";
    let table = [
        "get",
        "clusterproxyentrypoints",
        "--all-namespaces",
        "-o",
        columns,
    ];
    story.block(&hub.kubectl(&table).await?);
    stage.grant("dev", &["cluster1", "cluster2"]).await?;
    stage.grant("viewer", &[]).await
}

pub(crate) async fn reach(stage: &Stage, story: &Story) -> Result<()> {
    let dev = stage.caller("dev").await?;
    let mut number = Some(3);
    for (name, namespace, cluster) in SERVICES {
        let host = format!("{name}.{namespace}.{cluster}");
        let body = dev.get(&format!("{host}:80"), "/").await?.body;
        let expected = format!("{name} in namespace {namespace} of {cluster}");
        ensure!(body.starts_with(&expected), "{host} answered {body:?}");
        let how = format!("curl --proxy https://{} … http://{host}/", dev.hub);
        match number.take() {
            Some(number) => story.scene(number, "Reach", &how, body.trim()),
            None => story.also(&how, body.trim()),
        }
    }
    let said = stage
        .ask_from_pod("cluster2", "dev", "search.default.cluster1:80")
        .await?;
    story.also("the same from a pod of cluster2", said.trim());
    stage
        .speak_http("cluster1", "search.default.cluster1")
        .await?;
    let host = format!("search--default--cluster1.{DOMAIN}");
    let answer = eventually(Duration::from_secs(10), "HTTPS by host answers", || async {
        let answer = dev.get_by_host(&host, "/").await?;
        ensure!(answer.status == 200, "{}", answer.body);
        Ok(answer)
    })
    .await?;
    story.also(
        &format!("https://{host}/ (HTTPS by host)"),
        answer.body.trim(),
    );
    Ok(())
}

pub(crate) async fn refuse(stage: &Stage, story: &Story) -> Result<()> {
    let dev = stage.caller("dev").await?;
    let (status, code, answer) = dev.refused("foo.default.cluster1:80").await?;
    let problem = answer.problem()?;
    let text = |key: &str| problem[key].as_str().unwrap_or_default().to_owned();
    let said = format!("{status} {code}: {}", text("hint"));
    story.scene(4, "Refuse", "foo.default.cluster1", &said);
    let viewer = stage.caller("viewer").await?;
    let (status, _, answer) = viewer.refused("search.default.cluster1:80").await?;
    let detail = answer.problem()?["detail"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    story.also("viewer, who may not", &format!("{status}: {detail}"));
    Ok(())
}

pub(crate) async fn break_and_mend(stage: &Stage, story: &Story) -> Result<()> {
    let dev = stage.caller("dev").await?;
    let args = [
        "delete",
        "pod",
        "-n",
        "strait-agent",
        "--all",
        "--grace-period=0",
        "--force",
    ];
    stage.cluster("cluster1")?.kubectl(&args).await?;
    let started = Instant::now();
    let back = eventually(
        Duration::from_secs(60),
        "cluster1 answers again",
        || async {
            dev.get("search.default.cluster1:80", "/").await?;
            Ok(started.elapsed())
        },
    );
    let (back, failed) = tokio::join!(back, failures(&dev));
    let said = format!(
        "back after {}, {} of {REQUESTS} requests to cluster2 failed",
        seconds(back?),
        failed
    );
    story.scene(5, "Break", "kill the agent's pod of cluster1", &said);
    Ok(())
}

async fn failures(caller: &Caller) -> u32 {
    let mut failed = 0;
    for _ in 0..REQUESTS {
        let answer = caller.get("foo.default.cluster2:80", "/").await;
        failed += u32::from(answer.is_err());
    }
    failed
}

pub(crate) async fn farewell(stage: &Stage, story: &Story) -> Result<()> {
    let bin = stage
        .strait
        .parent()
        .context("the binary lies in a folder")?;
    let kubectl = stage.fleet.kubectl_path();
    let kubectl = kubectl.parent().context("kubectl lies in a folder")?;
    let folder = stage.folder();
    let ca = folder.join("hub-ca.pem");
    std::fs::write(&ca, stage.hub_ca().await?).context("failed to write the hub's CA")?;
    let shown = |path: &Path| path.display().to_string();
    story.block(&format!(
        "The clusters stay up. Try\n\
         \x20  export PATH={}:{}:$PATH\n\
         \x20  export KUBECONFIG={}\n\
         \x20  strait clusters          strait services          kubectl get managedclusters\n\
         \x20  strait proxy --listen 127.0.0.1:3128 &\n\
         \x20  curl --proxy http://127.0.0.1:3128 http://search.default.cluster1/\n\
         or without the local proxy, as dev, who has a right of his own:\n\
         \x20  curl --proxy https://{} --proxy-cacert {} \\\n\
         \x20       --proxy-header \"Proxy-Authorization: Bearer $(kubectl create token dev)\" \\\n\
         \x20       http://search.default.cluster1/\n\
         \x20  make clusters-down       when you are done",
        shown(bin),
        shown(kubectl),
        shown(stage.hub()?.kubeconfig_path()),
        stage.hub_address()?,
        shown(&ca)
    ));
    Ok(())
}
