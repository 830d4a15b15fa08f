//! `strait hub`.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use prometheus_client::registry::Registry;
use strait_hub::{Deps, Hub, HubArgs, HubConfig, files::Files, kubernetes};
use strait_kube_kit::ClientArgs;
use strait_runtime::{LogArgs, LogFilter, Tasks, admin::Readiness, clock};

use crate::role::{AdminArgs, asked_to_stop, finish};

/// Accepts members, and serves those who want to reach services of theirs
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  strait hub --config /etc/strait/hub.yaml            without Kubernetes, everything from files
  strait hub --kubeconfig hub.kubeconfig --address hub.example.com:8443
                                                      against a cluster, from outside of it

`strait install hub` runs it in a cluster.")]
pub(crate) struct HubRole {
    /// File with everything that a cluster would tell: the hub then runs without Kubernetes
    #[arg(long, env = "STRAIT_HUB_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    hub: HubArgs,
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    log: LogArgs,
}

// === impl HubRole ===

impl HubRole {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let log = self.log.init()?;
        let flags = HubConfig::try_from(self.hub).context("invalid configuration")?;
        let files = self
            .config
            .map(|path| Files::open(&path, clock::timestamp()));
        let files = files.transpose()?;
        let config = match &files {
            Some(files) => files.config(flags).context("invalid configuration")?,
            None => flags,
        };
        let meant = serde_json::to_string_pretty(&config)?;
        tracing::info!(config = %serde_json::to_string(&config)?, "starting");
        let tasks = Tasks::default();
        let deps = match files {
            Some(files) => Some(files.connect(&config, &tasks).await?),
            None => {
                let connection = self.client.connect().await?;
                let connecting = kubernetes::connect(&connection.client, &config, &tasks);
                first_deps(&self.admin, &meant, &log, connecting).await?
            }
        };
        let Some(deps) = deps else {
            return finish(&tasks).await;
        };
        let (readiness, mut registry) = (Readiness::default(), Registry::default());
        let listening = readiness.condition("listening");
        let hub = Hub::bind(config, deps, &mut registry)
            .await
            .context("failed to bind the hub")?;
        let admin = self.admin.bind(readiness, registry, meant, &log).await?;
        tasks.spawn("admin", |stop| admin.run(stop));
        listening.holds();
        let asked = asked_to_stop(&tasks);
        let stop = async move {
            asked.await;
            // Nobody new is sent here while the open streams finish.
            listening.fails("draining");
        };
        let ended = hub.run(stop).await;
        finish(&tasks).await?;
        Ok(ended?)
    }
}

/// Waits for what the hub needs of its cluster, which takes as long as the controllers need to make
/// it. Meanwhile the process is alive and not ready, on an admin port of its own. `None` when it
/// was asked to stop.
async fn first_deps(
    admin: &AdminArgs,
    meant: &str,
    log: &LogFilter,
    connecting: impl Future<Output = Result<Deps, kubernetes::KubernetesError>>,
) -> anyhow::Result<Option<Deps>> {
    let readiness = Readiness::default();
    let inventory = readiness.condition("inventory");
    inventory.fails("waiting for the hub's certificates and the inventory");
    let admin = admin
        .bind(readiness, Registry::default(), meant.to_owned(), log)
        .await?;
    let waiting = Tasks::default();
    waiting.spawn("admin", |stop| admin.run(stop));
    let deps = tokio::select! {
        () = asked_to_stop(&waiting) => None,
        deps = connecting => Some(deps?),
    };
    finish(&waiting).await?;
    Ok(deps)
}
