//! Arguments of `install` and `uninstall`.

use clap::{Args, Subcommand, ValueEnum};
use strait_install::ServiceType;

use super::FormatArgs;

/// What can be installed.
#[derive(Debug, Subcommand)]
pub(crate) enum InstallTarget {
    /// The hub: accepts members and serves those who want to reach them
    Hub(Box<InstallHubArgs>),
}

/// Arguments of `install hub`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  strait install hub --address hub.example.com:8443
  strait install hub --service-type load-balancer --wait
  strait install hub --address 10.0.0.5:8443 --host-port 8443 --domain apps.example.com --wait

Running it again changes what differs and leaves the rest alone.")]
pub(crate) struct InstallHubArgs {
    /// Where members and callers reach the hub; may be given more than once
    /// [default: the Service's, when it has one]
    #[arg(long = "address", value_name = "HOST:PORT", value_parser = host_port)]
    pub(crate) addresses: Vec<String>,
    /// Domain below which services get HTTPS names
    #[arg(long, value_name = "DOMAIN", value_parser = domain)]
    pub(crate) domain: Option<String>,
    /// Trust domain in the members' certificates
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub(crate) trust_domain: Option<String>,
    /// Image of the hub [default: that of this version]
    #[arg(long)]
    pub(crate) image: Option<String>,
    /// Type of the hub's Service
    #[arg(long, value_enum, default_value_t)]
    pub(crate) service_type: ServiceKind,
    /// Port of the nodes that leads to the hub
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) host_port: Option<u16>,
    /// How many hubs run
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) replicas: u32,
    /// Wait until the hub is ready
    #[arg(long)]
    pub(crate) wait: bool,
    /// Seconds to wait at most
    #[arg(long, default_value_t = 120, value_name = "SECONDS")]
    pub(crate) timeout: u64,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

/// The type of the Service as it is typed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServiceKind {
    /// Inside the cluster, or by --host-port
    #[default]
    ClusterIp,
    /// A port on every node
    NodePort,
    /// A load balancer of the cloud
    LoadBalancer,
}

/// Arguments of `uninstall`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  strait uninstall                 remove hub and agent from the current cluster
  strait uninstall agent           leave the hub; the hub keeps the member in its list
  strait uninstall hub --all       also entrypoints and configurations that people made

The definitions of our kinds stay as long as objects of theirs that people made are left.")]
pub(crate) struct UninstallArgs {
    /// What to remove [default: what is there]
    #[arg(value_enum)]
    pub(crate) target: Option<UninstallTarget>,
    /// Also what people made: entrypoints, configurations, and the definitions of our kinds
    #[arg(long)]
    pub(crate) all: bool,
    /// Seconds to wait at most until everything is gone
    #[arg(long, default_value_t = 120, value_name = "SECONDS")]
    pub(crate) timeout: u64,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

/// What can be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum UninstallTarget {
    /// The hub
    Hub,
    /// The agent of a member
    Agent,
}

// === impl ServiceKind ===

impl From<ServiceKind> for ServiceType {
    fn from(kind: ServiceKind) -> Self {
        match kind {
            ServiceKind::ClusterIp => Self::ClusterIp,
            ServiceKind::NodePort => Self::NodePort,
            ServiceKind::LoadBalancer => Self::LoadBalancer,
        }
    }
}

/// Succeeds with the text when it is `host:port`, brackets around an IPv6 address.
pub(super) fn host_port(text: &str) -> Result<String, String> {
    let form = || "it must be HOST:PORT, with brackets around an IPv6 address".to_owned();
    let authority: http::uri::Authority = match text.parse() {
        Ok(authority) => authority,
        Err(http::uri::InvalidUri { .. }) => return Err(form()),
    };
    let port = authority.port_u16().is_some_and(|port| port != 0);
    if port && !authority.host().is_empty() && !text.contains('@') {
        Ok(text.to_owned())
    } else {
        Err(form())
    }
}

fn domain(text: &str) -> Result<String, String> {
    let domain = text.trim_end_matches('.');
    let label = |label: &str| label.parse::<strait_types::ClusterName>();
    match domain.split('.').find_map(|part| label(part).err()) {
        None => Ok(domain.to_owned()),
        Some(wrong) => Err(format!("it is not a domain: {wrong}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for good in [
            "hub:8443",
            "10.0.0.5:1",
            "[fd00::1]:8443",
            "a.b.example.com:65535",
        ] {
            assert_eq!(host_port(good).as_deref(), Ok(good));
        }
        for bad in [
            "",
            "hub",
            "hub:",
            ":8443",
            "hub:0",
            "hub:99999",
            "fd00::1:8443",
            "u@hub:1",
            "https://hub:1",
        ] {
            assert!(host_port(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_domain_is_labels_between_dots() {
        assert_eq!(domain("demo.localhost.").as_deref(), Ok("demo.localhost"));
        for bad in ["", "a..b", "*.example.com", "A.b"] {
            assert!(domain(bad).is_err(), "{bad}");
        }
    }
}
