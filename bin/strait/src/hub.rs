//! `strait hub`.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use prometheus_client::registry::Registry;
use strait_hub::{Deps, Hub, HubArgs, HubConfig, files::Files, kubernetes};
use strait_kube_kit::ClientArgs;
use strait_runtime::{LogArgs, Tasks, admin::Readiness, clock, stop_signal};

use crate::role::{AdminArgs, GRACE};

/// Accepts members, and serves those who want to reach services of theirs
#[derive(Debug, Args)]
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
        self.log.init()?;
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
                first_deps(&self.admin, &meant, connecting).await?
            }
        };
        let Some(deps) = deps else {
            tasks.shutdown(GRACE).await;
            return Ok(());
        };
        let (readiness, mut registry) = (Readiness::default(), Registry::default());
        let listening = readiness.condition("listening");
        let hub = Hub::bind(config, deps, &mut registry)
            .await
            .context("failed to bind the hub")?;
        let admin = self.admin.bind(readiness, registry, meant).await?;
        tasks.spawn("admin", |stop| admin.run(stop));
        listening.holds();
        let stop = async move {
            stop_signal().await;
            // Nobody new is sent here while the open streams finish.
            listening.fails("draining");
        };
        hub.run(stop).await;
        tasks.shutdown(GRACE).await;
        Ok(())
    }
}

/// Waits for what the hub needs of its cluster, which takes as long as the controllers need to make
/// it. Meanwhile the process is alive and not ready, on an admin port of its own. `None` when it
/// was asked to stop.
async fn first_deps(
    admin: &AdminArgs,
    meant: &str,
    connecting: impl Future<Output = Result<Deps, kubernetes::KubernetesError>>,
) -> anyhow::Result<Option<Deps>> {
    let readiness = Readiness::default();
    let inventory = readiness.condition("inventory");
    inventory.fails("waiting for the hub's certificates and the inventory");
    let admin = admin
        .bind(readiness, Registry::default(), meant.to_owned())
        .await?;
    let waiting = Tasks::default();
    waiting.spawn("admin", |stop| admin.run(stop));
    let deps = tokio::select! {
        () = stop_signal() => None,
        deps = connecting => Some(deps?),
    };
    waiting.shutdown(GRACE).await;
    Ok(deps)
}
