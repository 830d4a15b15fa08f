//! What every role takes.

use std::{net::SocketAddr, time::Duration};

use anyhow::Context;
use clap::Args;
use prometheus_client::registry::Registry;
use strait_runtime::{
    LogFilter, Tasks,
    admin::{Admin, Readiness},
    stop_signal,
};

/// How long what is left of a role may take to end.
const GRACE: Duration = Duration::from_secs(2);

/// Completes when the process is asked to stop, or cannot go on because one of `tasks` has ended.
pub(crate) fn asked_to_stop(tasks: &Tasks) -> impl Future<Output = ()> + Send + use<> {
    let ended = tasks.stop().clone();
    async move {
        tokio::select! {
            () = stop_signal() => {}
            () = ended.cancelled() => {}
        }
    }
}

/// Ends what is left of a role. An error when one of its tasks had ended before, so that whoever
/// runs the process learns that it did not end well.
pub(crate) async fn finish(tasks: &Tasks) -> anyhow::Result<()> {
    let ended = tasks.stop().is_cancelled();
    tasks.shutdown(GRACE).await;
    anyhow::ensure!(!ended, "a task that the role needs has ended by itself");
    Ok(())
}

/// Where health, readiness and metrics are served.
#[derive(Debug, Args)]
#[command(next_help_heading = "Administration")]
pub(crate) struct AdminArgs {
    /// Where /livez, /readyz, /metrics, /config and /log are served
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
        log: &LogFilter,
    ) -> anyhow::Result<Admin> {
        let bound = Admin::bind(self.admin, readiness, registry, config, log.clone()).await;
        bound.with_context(|| format!("failed to bind the admin port at {}", self.admin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_ends_by_itself_stops_the_role_and_is_an_error() {
        let tasks = Tasks::default();
        tasks.spawn("waits", |stop| async move { stop.cancelled().await });
        tasks.spawn("ends", |_| async {});
        asked_to_stop(&tasks).await;
        assert!(finish(&tasks).await.is_err());
        let tasks = Tasks::default();
        tasks.spawn("waits", |stop| async move { stop.cancelled().await });
        assert!(finish(&tasks).await.is_ok());
    }
}
