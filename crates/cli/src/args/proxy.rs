//! Arguments of `proxy`.

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

Callers on this machine reach what the current kubeconfig may reach at the hub; they need no
credentials of their own, so keep it on loopback.")]
pub(crate) struct ProxyArgs {
    /// Where to listen, PORT or HOST:PORT; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS", value_parser = listen)]
    pub(crate) listen: SocketAddr,
    /// Listen on an address that others can reach as well
    #[arg(long)]
    pub(crate) allow_remote: bool,
    /// Where the hub listens [default: as its cluster says]
    #[arg(long, value_name = "HOST:PORT", value_parser = host_port)]
    pub(crate) hub: Option<String>,
    /// PEM certificates that the hub's must chain to [default: as its cluster says]
    #[arg(long, value_name = "FILE")]
    pub(crate) hub_ca: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
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
    fn a_port_alone_means_loopback() {
        assert_eq!(listen("3128"), Ok(SocketAddr::from(([127, 0, 0, 1], 3128))));
        assert_eq!(listen("[::1]:0").unwrap().to_string(), "[::1]:0");
        assert_eq!(listen("localhost:1").unwrap().to_string(), "127.0.0.1:1");
        assert!(listen("example.com:1").is_err());
    }
}
