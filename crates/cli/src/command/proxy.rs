//! `strait proxy`.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use anyhow::Context;
use serde::Serialize;

use crate::{
    args::{GlobalArgs, ProxyArgs, WayArgs},
    cluster::Cluster,
    failure::{Failure, WithHint},
    printer::{Printer, Report},
    proxy::{Hub, LocalPort, Service},
};

#[derive(Debug, Serialize)]
struct Listening {
    proxy: String,
    #[serde(skip)]
    socks: bool,
    hub: Vec<String>,
    /// What is reached without it: this machine and the API server of the kubeconfig.
    no_proxy: String,
}

pub(crate) async fn run(
    global: &GlobalArgs,
    args: &ProxyArgs,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    may_listen(args.listen, &args.way)?;
    let cluster = Cluster::connect(global).await?;
    let hub = Arc::new(hub(&cluster, &args.way).await?);
    let port = LocalPort::bind(args.listen)
        .await
        .with_context(|| format!("failed to listen on {}", args.listen))
        .hint("`--listen 127.0.0.1:0` takes a free port")?;
    if let Err(error) = hub.answers().await {
        // It may come back; who calls meanwhile is told the same.
        let why = Failure::from(anyhow::Error::from(error));
        printer.say(&format!("warning: {}", why.line()))?;
    }
    let listening = Listening {
        proxy: url(args.socks, port.local_addr()),
        socks: args.socks,
        hub: hub.addresses().to_vec(),
        no_proxy: no_proxy(cluster.config().cluster_url.host()),
    };
    printer.report(args.format.output, &listening)?;
    printer.say(&format!(
        "reaching services through {} until Ctrl-C, for instance\n  curl --proxy {} http://SERVICE.NAMESPACE.CLUSTER/",
        listening.hub.join(", "),
        listening.proxy
    ))?;
    port.serve(Service::Proxy, hub, strait_runtime::stop_signal())
        .await;
    Ok(())
}

/// Whoever reaches the port acts with the credentials of who opened it.
pub(super) fn may_listen(address: SocketAddr, way: &WayArgs) -> Result<(), Failure> {
    if address.ip().is_loopback() || way.allow_remote {
        return Ok(());
    }
    let what = "can be reached by others, who would act with your credentials";
    Err(Failure::usage(format!("{address} {what}")).with_hint("`--allow-remote` means it"))
}

/// The hub, as the arguments or its cluster tell where it is.
pub(super) async fn hub(cluster: &Cluster, way: &WayArgs) -> Result<Hub, Failure> {
    let Some(path) = &way.hub_ca else {
        return Hub::at(cluster, way.hub.iter().cloned().collect(), None).await;
    };
    let bundle = std::fs::read_to_string(path);
    let bundle = bundle.with_context(|| format!("failed to read `{}`", path.display()))?;
    Hub::at(cluster, way.hub.iter().cloned().collect(), Some(bundle)).await
}

fn no_proxy(api_server: Option<&str>) -> String {
    let own = ["localhost", "127.0.0.1"];
    own.into_iter()
        .chain(api_server)
        .collect::<Vec<_>>()
        .join(",")
}

/// How this machine reaches what listens there; others use its name or address.
pub(super) fn reached_at(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// With SOCKS5 names are left to the proxy: no DNS server knows them.
fn url(socks: bool, address: SocketAddr) -> String {
    let scheme = if socks { "socks5h" } else { "http" };
    format!("{scheme}://{}", reached_at(address))
}

impl Report for Listening {
    /// Lines for a shell.
    fn table(&self) -> String {
        let line = |name| format!("export {name}={}\n", self.proxy);
        let exports = if self.socks {
            ["all_proxy", "ALL_PROXY"].map(line).concat()
        } else {
            ["http_proxy", "https_proxy", "HTTPS_PROXY"]
                .map(line)
                .concat()
        };
        let without = ["no_proxy", "NO_PROXY"]
            .map(|name| format!("export {name}={}\n", self.no_proxy))
            .concat();
        exports + &without
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_can_be_called() {
        for (listens, printed) in [
            ("0.0.0.0:3128", "http://127.0.0.1:3128"),
            ("[::]:3128", "http://[::1]:3128"),
            ("10.0.0.5:3128", "http://10.0.0.5:3128"),
        ] {
            assert_eq!(url(false, listens.parse().unwrap()), printed);
        }
    }

    #[test]
    fn the_output_can_be_evaluated_by_a_shell() {
        let address = SocketAddr::from(([127, 0, 0, 1], 3128));
        let mut listening = Listening {
            proxy: url(false, address),
            socks: false,
            hub: vec!["hub:8443".to_owned()],
            no_proxy: no_proxy(Some("10.0.0.1")),
        };
        assert_eq!(
            listening.table(),
            "export http_proxy=http://127.0.0.1:3128\n\
             export https_proxy=http://127.0.0.1:3128\n\
             export HTTPS_PROXY=http://127.0.0.1:3128\n\
             export no_proxy=localhost,127.0.0.1,10.0.0.1\n\
             export NO_PROXY=localhost,127.0.0.1,10.0.0.1\n"
        );
        (listening.socks, listening.proxy) = (true, url(true, address));
        let exports = listening.table();
        assert!(
            exports.starts_with("export all_proxy=socks5h://127.0.0.1:3128\n"),
            "{exports}"
        );
    }
}
