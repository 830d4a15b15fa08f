//! What every role takes.

use std::{net::SocketAddr, time::Duration};

use anyhow::Context;
use clap::Args;
use prometheus_client::registry::Registry;
use strait_runtime::admin::{Admin, Readiness};

/// How long what is left of a role may take to end.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// Where health, readiness and metrics are served.
#[derive(Debug, Args)]
#[command(next_help_heading = "Administration")]
pub(crate) struct AdminArgs {
    /// Where /livez, /readyz, /metrics and /config are served
    #[arg(
        long,
        env = "STRAIT_ADMIN",
        default_value = "[::]:9090",
        value_name = "ADDRESS"
    )]
    admin: SocketAddr,
}

// === impl AdminArgs ===

impl AdminArgs {
    pub(crate) async fn bind(
        &self,
        readiness: Readiness,
        registry: Registry,
        config: String,
    ) -> anyhow::Result<Admin> {
        let bound = Admin::bind(self.admin, readiness, registry, config).await;
        bound.with_context(|| format!("failed to bind the admin port at {}", self.admin))
    }
}
