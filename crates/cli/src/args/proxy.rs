//! Arguments of `proxy` and `forward`.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;

use super::{FormatArgs, install::host_port};

/// Arguments of `proxy`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  strait proxy                                        prints the line to copy into another shell
  strait proxy --listen 3128 &
  curl --proxy http://127.0.0.1:3128 http://search.default.cluster1/
  curl --proxy socks5h://127.0.0.1:3128 https://search.default.cluster1/

It speaks HTTP and SOCKS5. Callers on this machine reach what the current kubeconfig may reach at the hub; they need no
credentials of their own, so keep it on loopback.")]
pub(crate) struct ProxyArgs {
    /// Where to listen, PORT or HOST:PORT; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS", value_parser = listen)]
    pub(crate) listen: SocketAddr,
    /// Print what programs need that speak SOCKS5 and not HTTP
    #[arg(long)]
    pub(crate) socks: bool,
    #[command(flatten)]
    pub(crate) way: WayArgs,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

/// Arguments of `forward`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  strait forward search.default.cluster1:443 8443
  curl --connect-to ::127.0.0.1:8443 https://search.default.svc/
  strait forward postgres.db.cluster2:5432            on a free port, which it prints

It connects once at the beginning, so that a wrong name is told at once.")]
pub(crate) struct ForwardArgs {
    /// Which port of which service, SERVICE.NAMESPACE.CLUSTER:PORT
    #[arg(value_name = "NAME:PORT", value_parser = authority)]
    pub(crate) to: String,
    /// Where to listen, PORT or IP:PORT; port 0 takes a free one
    #[arg(default_value = "127.0.0.1:0", value_name = "LOCAL", value_parser = listen)]
    pub(crate) listen: SocketAddr,
    #[command(flatten)]
    pub(crate) way: WayArgs,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

/// The way to the hub, and who may take it.
#[derive(Clone, Debug, Args)]
pub(crate) struct WayArgs {
    /// Listen on an address that others can reach as well
    #[arg(long)]
    pub(crate) allow_remote: bool,
    /// Where the hub listens [default: as its cluster says]
    #[arg(long, value_name = "HOST:PORT", value_parser = host_port)]
    pub(crate) hub: Option<String>,
    /// PEM certificates that the hub's must chain to [default: as its cluster says]
    #[arg(long, value_name = "FILE")]
    pub(crate) hub_ca: Option<PathBuf>,
}

/// `name:port`; the hub says which names there are.
fn authority(text: &str) -> Result<String, String> {
    match text
        .rsplit_once(':')
        .map(|(name, port)| (name, port.parse::<u16>()))
    {
        Some((name, Ok(1..))) if host_port(text).is_ok() && name.contains('.') => {
            Ok(text.to_owned())
        }
        _ => Err("it must be SERVICE.NAMESPACE.CLUSTER:PORT, the port as a number".to_owned()),
    }
}

fn listen(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    let text = text.replace("localhost:", "127.0.0.1:");
    match text.parse() {
        Ok(address) => Ok(address),
        Err(std::net::AddrParseError { .. }) => Err("it must be PORT or IP:PORT".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_named_with_a_port() {
        for good in ["search.default.cluster1:443", "mysvc.cluster1:80"] {
            assert_eq!(authority(good).as_deref(), Ok(good));
        }
        for bad in [
            "search.default.cluster1",
            "search.default.cluster1:https",
            "a.b.c:0",
            "a.b.c:70000",
            ":1",
            "https://a.b.c:1",
        ] {
            assert!(authority(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_port_alone_means_loopback() {
        assert_eq!(listen("3128"), Ok(SocketAddr::from(([127, 0, 0, 1], 3128))));
        assert_eq!(listen("[::1]:0").unwrap().to_string(), "[::1]:0");
        assert_eq!(listen("localhost:1").unwrap().to_string(), "127.0.0.1:1");
        assert!(listen("example.com:1").is_err());
    }
}
