//! What can be typed.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use strait_types::ClusterName;

use crate::command::doctor::Name;

mod install;
mod member;
mod proxy;

pub(crate) use install::{InstallHubArgs, InstallTarget, UninstallArgs, UninstallTarget};
pub(crate) use member::{JoinArgs, TokenCreateArgs, TokenVerb};
pub(crate) use proxy::{ForwardArgs, ProxyArgs, WayArgs};

/// Joins Kubernetes clusters that cannot reach each other
///
/// A hub accepts tunnels that members dial out to it; through them the services of the members
/// are reached by name, `service.namespace.cluster`.
#[derive(Debug, Parser)]
#[command(name = "strait", version, propagate_version = false, after_help = EXAMPLES)]
#[command(disable_help_subcommand = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

const EXAMPLES: &str = "\
Examples:
  strait install hub --address hub.example.com:8443      make this cluster a hub
  strait token create --cluster cluster1 -o token.yaml   let cluster1 join it
  strait join --token-file token.yaml                    join, from the member's kubeconfig
  strait services                                        what can be reached
  strait proxy                                           reach it: curl --proxy …

The roles that run in clusters are `strait hub`, `strait controller` and `strait agent`; each
takes --help. `strait quickstart` shows all of it in one process, without a cluster.";

/// Flags that every verb takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct GlobalArgs {
    /// Kubeconfig file [default: as kubectl: $KUBECONFIG, ~/.kube/config, the pod's own account]
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        help_heading = "Global options"
    )]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: the current one]
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        help_heading = "Global options"
    )]
    pub(crate) context: Option<String>,
    /// Say nothing but what was asked for and errors
    #[arg(short, long, global = true, help_heading = "Global options")]
    pub(crate) quiet: bool,
    /// No colour, whatever the terminal can do
    #[arg(long, global = true, hide = true, env = "NO_COLOR", num_args = 0..=1, require_equals = true, default_missing_value = "1")]
    pub(crate) no_color: Option<String>,
}

/// The form of what is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns for people.
    #[default]
    Table,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// For verbs whose result has more than one form.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct FormatArgs {
    /// The form of the output
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output: Format,
}

/// Arguments of `doctor`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  strait doctor                                hub, members and entrypoints
  strait doctor search.default.cluster1:443    name, rights, session, connection

It connects to the service once. The exit code is 1 when something is broken.")]
pub(crate) struct DoctorArgs {
    /// The service, SERVICE.NAMESPACE.CLUSTER[:PORT]
    pub(crate) name: Option<Name>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Install a hub into the current cluster
    #[command(after_help = "Examples:\n  strait install hub --address hub.example.com:8443 --wait")]
    Install {
        #[command(subcommand)]
        target: InstallTarget,
    },
    /// Make join tokens
    #[command(after_help = "Examples:\n  strait token create --cluster cluster1 -o token.yaml")]
    Token {
        #[command(subcommand)]
        verb: TokenVerb,
    },
    /// Make the current cluster a member of a hub
    Join(JoinArgs),
    /// List the members and how they are
    #[command(after_help = "Examples:\n  strait clusters\n  strait clusters -o json")]
    Clusters(FormatArgs),
    /// List the sessions between hubs and agents
    ///
    /// SEEN tells when something came from the agent last; it is asked every ten seconds.
    #[command(after_help = "Examples:\n  strait status\n  strait status -o json")]
    Status(FormatArgs),
    /// List what can be reached
    #[command(after_help = "Examples:\n  strait services\n  strait services cluster1 -o yaml")]
    Services {
        /// Only of this cluster
        cluster: Option<ClusterName>,
        #[command(flatten)]
        format: FormatArgs,
    },
    /// Run a local proxy, HTTP and SOCKS5, that reaches services by name
    Proxy(ProxyArgs),
    /// Make one port of one service a port of this machine
    Forward(ForwardArgs),
    /// Find out what is wrong: the way to a service hop by hop, or how everything is
    Doctor(DoctorArgs),
    /// Remove what install and join have made
    Uninstall(UninstallArgs),
    /// Print the version
    #[command(after_help = "Examples:\n  strait version\n  strait version -o json")]
    Version(FormatArgs),
    /// Print a completion script
    #[command(
        after_help = "Examples:\n  source <(strait completion bash)\n  strait completion zsh > ~/.zfunc/_strait"
    )]
    Completion {
        /// The shell
        shell: Shell,
    },
}
