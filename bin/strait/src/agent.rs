//! `strait agent`.

use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use prometheus_client::registry::Registry;
use strait_agent::{
    Agent, AgentArgs, AgentConfig, ConfigMapStatus, Deps, DirectoryStore, FileServices,
    IdentityStore, KubeServices, LogStatus, SecretStore, StatusSink, Storage,
};
use strait_kube_kit::{ClientArgs, Connection};
use strait_runtime::{LogArgs, Tasks, admin::Readiness};

use crate::role::{AdminArgs, asked_to_stop, finish};

/// Runs in a member: dials the hubs and connects to local services for them
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  strait agent --services services.yaml --identity-dir /var/lib/strait --token-file token.yaml
                                                      a machine that is no cluster
  strait agent --kubeconfig member.kubeconfig --identity-dir ./id --token-file token.yaml
                                                      for a cluster, from outside of it

`strait join` runs it in a cluster.")]
pub(crate) struct AgentRole {
    #[command(flatten)]
    agent: AgentArgs,
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    log: LogArgs,
}

// === impl AgentRole ===

impl AgentRole {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let log = self.log.init()?;
        let config = AgentConfig::try_from(self.agent).context("invalid configuration")?;
        let meant = serde_json::to_string_pretty(&config)?;
        tracing::info!(config = %serde_json::to_string(&config)?, "starting");
        let tasks = Tasks::default();
        let deps = deps(&config, &self.client, &tasks).await?;
        let (readiness, mut registry) = (Readiness::default(), Registry::default());
        let agent = Agent::new(config, deps, &readiness, &mut registry);
        let admin = self.admin.bind(readiness, registry, meant, &log).await?;
        tasks.spawn("admin", |stop| admin.run(stop));
        let ended = agent.run(asked_to_stop(&tasks)).await;
        finish(&tasks).await?;
        Ok(ended?)
    }
}

/// What the agent works with: a cluster, or files alone.
async fn deps(config: &AgentConfig, client: &ClientArgs, tasks: &Tasks) -> anyhow::Result<Deps> {
    if let (Some(services), Storage::Files { directory, token }) =
        (&config.services, &config.storage)
    {
        let stop = tasks.stop().clone();
        let (store, watching) = DirectoryStore::new(directory.clone(), token.clone(), stop);
        tasks.spawn("files", |_| watching);
        let services = FileServices::open(services.clone())?;
        let following = Arc::clone(&services);
        tasks.spawn("services", |stop| following.follow(stop));
        return Ok(Deps {
            store: Arc::new(store),
            services,
            status: Arc::new(LogStatus),
            api_server: None,
        });
    }
    let connection = client.connect().await?;
    let client = &connection.client;
    let (store, status): (Arc<dyn IdentityStore>, Arc<dyn StatusSink>) = match &config.storage {
        Storage::Secrets { namespace } => {
            let stop = tasks.stop().clone();
            let (store, watching) = SecretStore::new(client.clone(), namespace.clone(), stop);
            tasks.spawn("secrets", |_| watching);
            let status = ConfigMapStatus::new(client.clone(), namespace.clone());
            (Arc::new(store), Arc::new(status))
        }
        Storage::Files { directory, token } => {
            let stop = tasks.stop().clone();
            let (store, watching) = DirectoryStore::new(directory.clone(), token.clone(), stop);
            tasks.spawn("files", |_| watching);
            (Arc::new(store), Arc::new(LogStatus))
        }
    };
    let services = Arc::new(KubeServices::new(client.clone()));
    Ok(Deps {
        store,
        services,
        status,
        api_server: Some(api_server(&connection)),
    })
}

/// `host:port` of the API server.
fn api_server(connection: &Connection) -> String {
    let url = &connection.config.cluster_url;
    let port = url.port_u16().unwrap_or(443);
    format!("{}:{port}", url.host().unwrap_or("kubernetes.default.svc"))
}
