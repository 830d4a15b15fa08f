//! `strait controller`.

use anyhow::Context;
use clap::Args;
use prometheus_client::registry::Registry;
use strait_hub_controllers::{ControllerArgs, ControllerConfig, Metrics};
use strait_kube_kit::ClientArgs;
use strait_runtime::{LogArgs, Tasks, admin::Readiness};

use crate::role::{AdminArgs, asked_to_stop, finish};

/// Keeps the hub's entrypoints, namespaces of members and certificates as they should be
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  strait controller --kubeconfig hub.kubeconfig       against a cluster, from outside of it

`strait install hub` runs it beside the hub.")]
pub(crate) struct ControllerRole {
    #[command(flatten)]
    controller: ControllerArgs,
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    log: LogArgs,
}

// === impl ControllerRole ===

impl ControllerRole {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let log = self.log.init()?;
        let config =
            ControllerConfig::try_from(self.controller).context("invalid configuration")?;
        let connection = self.client.connect().await?;
        let meant = serde_json::to_string_pretty(&config)?;
        tracing::info!(config = %serde_json::to_string(&config)?, "starting");
        let (readiness, mut registry) = (Readiness::default(), Registry::default());
        let metrics = Metrics::new(&mut registry);
        let running = readiness.condition("controllers");
        running.fails("waiting until every kind is served");
        let admin = self.admin.bind(readiness, registry, meant, &log).await?;
        let tasks = Tasks::default();
        tasks.spawn("admin", |stop| admin.run(stop));
        let work = async {
            strait_hub_controllers::run(connection.client, config, metrics, &tasks).await;
            running.holds();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            () = asked_to_stop(&tasks) => {}
            () = work => {}
        }
        finish(&tasks).await
    }
}
