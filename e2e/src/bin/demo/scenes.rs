//! The five scenes.

use std::{collections::BTreeSet, fmt, path::Path, time::Duration};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use strait_e2e::{Caller, DOMAIN, Stage, eventually};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::story::{Story, seconds};

const SERVICES: [(&str, &str, &str); 3] = [
    ("search", "default", "cluster1"),
    ("search", "search", "cluster1"),
    ("foo", "default", "cluster2"),
];

/// For how long requests go on after an agent has been replaced.
const AFTERWARDS: Duration = Duration::from_secs(2);

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
    let over = CancellationToken::new();
    let killed = async {
        let new = replace_agent(stage).await;
        over.cancel();
        new
    };
    let (new, cluster1, cluster2) = tokio::join!(
        killed,
        ask_until(&over, &dev, "search.default.cluster1:80"),
        ask_until(&over, &dev, "foo.default.cluster2:80"),
    );
    let said = format!("another one is ready in {}", seconds(new?));
    story.scene(5, "Break", "kill the agent's pod of cluster1", &said);
    for (cluster, asked) in [("cluster1", cluster1), ("cluster2", cluster2)] {
        story.also(
            &format!("requests to {cluster} meanwhile"),
            &asked.to_string(),
        );
    }
    Ok(())
}

/// Kills the agent's pod of cluster1 and waits until another one is ready and has been there for a
/// moment. Returns how long it took to be ready.
async fn replace_agent(stage: &Stage) -> Result<Duration> {
    let cluster = stage.cluster("cluster1")?;
    let agents = ["-n", "strait-agent", "pod", "-o", "json"];
    let list = || async {
        let said = cluster.kubectl(&[&["get"], &agents[..]].concat()).await?;
        Ok::<Value, anyhow::Error>(serde_json::from_str(&said)?)
    };
    let before: BTreeSet<String> = ready_pods(&list().await?).collect();
    let kill = ["delete", "pod", "-n", "strait-agent", "--all"];
    let at_once = ["--grace-period=0", "--force"];
    cluster.kubectl(&[&kill[..], &at_once].concat()).await?;
    let started = Instant::now();
    let what = "another agent is ready";
    let took = eventually(Duration::from_secs(60), what, || async {
        let now = list().await?;
        let new = ready_pods(&now).any(|uid| !before.contains(&uid));
        ensure!(new, "no other pod is ready");
        Ok(started.elapsed())
    })
    .await?;
    tokio::time::sleep(AFTERWARDS).await;
    Ok(took)
}

/// The uids of pods that are ready.
fn ready_pods(list: &Value) -> impl Iterator<Item = String> {
    let pods = list["items"].as_array().into_iter().flatten();
    let ready = pods.filter(|pod| {
        let conditions = pod["status"]["conditions"].as_array();
        conditions
            .into_iter()
            .flatten()
            .any(|c| c["type"] == "Ready" && c["status"] == "True")
    });
    ready.filter_map(|pod| pod["metadata"]["uid"].as_str().map(str::to_owned))
}

/// What came of requests that were sent one after another.
#[derive(Debug, Default)]
struct Asked {
    all: u32,
    failed: u32,
    slowest: Duration,
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            all,
            failed,
            slowest,
        } = self;
        write!(f, "{failed} of {all} failed, slowest {}", seconds(*slowest))
    }
}

async fn ask_until(over: &CancellationToken, caller: &Caller, target: &str) -> Asked {
    let mut asked = Asked::default();
    while !over.is_cancelled() {
        let started = Instant::now();
        let answer = caller.get(target, "/").await;
        asked.all += 1;
        asked.failed += u32::from(answer.is_err());
        asked.slowest = asked.slowest.max(started.elapsed());
    }
    asked
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
         \x20  strait status            strait services          strait doctor search.default.cluster1:80\n\
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
