//! What the agent is told to do.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use clap::Args;
use serde::{Serialize, Serializer};
use strait_api::wire_names::AGENT_NAMESPACE;
use strait_types::{AllowPattern, InvalidAllowPattern};
use thiserror::Error;

/// The flags of `strait agent`.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Agent")]
pub struct AgentArgs {
    /// What the hub may reach, NAMESPACE/SERVICE[:PORT], `*` stands for anything; may be given
    /// more than once
    #[arg(
        long,
        env = "STRAIT_ALLOW",
        value_delimiter = ',',
        default_value = "*/*",
        value_name = "PATTERN"
    )]
    allow: Vec<String>,
    /// Namespace of the agent's own Secrets and status
    #[arg(long, env = "STRAIT_NAMESPACE", default_value = AGENT_NAMESPACE, value_name = "NAME")]
    namespace: String,
    /// Directory that keeps the identity, in place of a Secret: tls.crt, tls.key, ca.crt, hubs
    #[arg(long, env = "STRAIT_IDENTITY_DIR", value_name = "DIR")]
    identity_dir: Option<PathBuf>,
    /// Token file to join with, when the identity is kept in a directory
    #[arg(
        long,
        env = "STRAIT_TOKEN_FILE",
        requires = "identity_dir",
        value_name = "FILE"
    )]
    token_file: Option<PathBuf>,
    /// File with the Services and EndpointSlices of a member that is no cluster
    #[arg(
        long,
        env = "STRAIT_SERVICES",
        requires = "identity_dir",
        value_name = "FILE"
    )]
    services: Option<PathBuf>,
    /// Addresses of the agent's pod, which are never dialled
    #[arg(
        long = "pod-ip",
        env = "STRAIT_POD_IPS",
        value_delimiter = ',',
        value_name = "IP"
    )]
    pod_ips: Vec<IpAddr>,
    /// Seconds that open streams get to finish when the agent is asked to stop
    #[arg(
        long,
        env = "STRAIT_DRAIN_SECONDS",
        default_value_t = 30,
        value_name = "SECONDS"
    )]
    drain_seconds: u64,
}

/// What the agent does.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentConfig {
    /// What the hub may reach.
    #[serde(serialize_with = "as_texts")]
    pub allow: Vec<AllowPattern>,
    /// Where identity and token are.
    pub storage: Storage,
    /// Where Services are written down; otherwise the API server is asked.
    pub services: Option<PathBuf>,
    /// Addresses that are the agent itself.
    pub own_addresses: Vec<IpAddr>,
    /// How long open streams get to finish at the end.
    pub drain: Duration,
}

/// Where identity and token are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Storage {
    /// In Secrets of this namespace.
    Secrets {
        /// The namespace.
        namespace: String,
    },
    /// In files.
    Files {
        /// The identity's directory.
        directory: PathBuf,
        /// The token file.
        token: Option<PathBuf>,
    },
}

/// Flags that make no sense.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// A pattern of `--allow` is wrong.
    #[error("--allow {pattern} cannot be used")]
    Allow {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        source: InvalidAllowPattern,
    },
}

// === impl AgentConfig ===

impl TryFrom<AgentArgs> for AgentConfig {
    type Error = ConfigError;

    fn try_from(args: AgentArgs) -> Result<Self, ConfigError> {
        let parse = |pattern: String| {
            pattern
                .parse()
                .map_err(|source| ConfigError::Allow { pattern, source })
        };
        Ok(Self {
            allow: args
                .allow
                .into_iter()
                .map(parse)
                .collect::<Result<_, _>>()?,
            storage: match args.identity_dir {
                Some(directory) => Storage::Files {
                    directory,
                    token: args.token_file,
                },
                None => Storage::Secrets {
                    namespace: args.namespace,
                },
            },
            services: args.services,
            own_addresses: args.pod_ips,
            drain: Duration::from_secs(args.drain_seconds),
        })
    }
}

fn as_texts<S: Serializer>(patterns: &[AllowPattern], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(patterns.iter().map(ToString::to_string))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        agent: AgentArgs,
    }

    #[test]
    fn without_flags_everything_is_allowed_and_secrets_are_used() {
        let config = config(&[]).unwrap();
        assert_eq!(config.allow, [AllowPattern::everything()]);
        assert_eq!(
            config.storage,
            Storage::Secrets {
                namespace: "strait-agent".to_owned()
            }
        );
    }

    #[test]
    fn a_wrong_pattern_is_named() {
        let error = config(&["--allow", "default/*", "--allow", "search"]).unwrap_err();
        assert_eq!(error.to_string(), "--allow search cannot be used");
    }

    fn config(args: &[&str]) -> Result<AgentConfig, ConfigError> {
        let args = [&["x"], args].concat();
        AgentConfig::try_from(Cli::try_parse_from(args).unwrap().agent)
    }
}
