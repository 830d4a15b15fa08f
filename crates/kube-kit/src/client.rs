//! The only maker of clients.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use http::HeaderValue;
use kube::{
    Client, Config,
    config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use thiserror::Error;

/// Until a TCP and TLS connection to the API server stands. The default of client-go.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Which cluster to talk to.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Cluster")]
pub struct ClientArgs {
    /// Path of the kubeconfig; without it $KUBECONFIG, ~/.kube/config, or the pod's own account
    #[arg(long, value_name = "FILE", global = true)]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; without it the current one
    #[arg(long, value_name = "NAME", global = true)]
    pub context: Option<String>,
}

/// A client, and what it was made of.
#[derive(Clone)]
pub struct Connection {
    /// The client.
    pub client: Client,
    /// What it was made of: address, trust and credentials.
    pub config: Config,
}

/// A client could not be made.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The kubeconfig that was named cannot be read, or lacks the context.
    #[error("failed to read the kubeconfig")]
    Kubeconfig(#[from] KubeconfigError),
    /// There is neither a kubeconfig nor a pod's account.
    #[error("failed to find a cluster: no kubeconfig, and not in a pod")]
    Infer(#[from] InferConfigError),
    /// The credentials or certificates in it cannot be used.
    #[error("failed to make a client for {server}")]
    Client {
        /// The API server's address.
        server: String,
        /// What is wrong; boxed, it is large.
        source: Box<kube::Error>,
    },
}

// === impl ClientArgs ===

impl ClientArgs {
    /// Reads the configuration and makes a client of it. Nothing is sent yet.
    ///
    /// # Errors
    /// When there is no usable configuration.
    pub async fn connect(&self) -> Result<Connection, ConnectError> {
        Connection::new(self.config().await?)
    }

    async fn config(&self) -> Result<Config, ConnectError> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..Default::default()
        };
        if let Some(path) = &self.kubeconfig {
            let kubeconfig = Kubeconfig::read_from(path)?;
            return Ok(Config::from_custom_kubeconfig(kubeconfig, &options).await?);
        }
        if self.context.is_some() {
            return Ok(Config::from_kubeconfig(&options).await?);
        }
        Ok(Config::infer().await?)
    }
}

// === impl Connection ===

impl Connection {
    /// Makes a client of a configuration.
    ///
    /// # Errors
    /// When its credentials or certificates cannot be used.
    pub fn new(mut config: Config) -> Result<Self, ConnectError> {
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.headers.push((
            http::header::USER_AGENT,
            HeaderValue::from_static(concat!("strait/", env!("CARGO_PKG_VERSION"))),
        ));
        let client = Client::try_from(config.clone()).map_err(|source| ConnectError::Client {
            server: config.cluster_url.to_string(),
            source: Box::new(source),
        })?;
        Ok(Self { client, config })
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("server", &self.config.cluster_url.to_string())
            .finish_non_exhaustive()
    }
}
