//! `strait proxy`.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use anyhow::Context;
use serde::Serialize;

use crate::{
    args::{GlobalArgs, ProxyArgs},
    cluster::Cluster,
    failure::{Failure, WithHint},
    printer::{Printer, Report},
    proxy::{Hub, LocalProxy},
};

#[derive(Debug, Serialize)]
struct Listening {
    proxy: String,
    hub: Vec<String>,
    /// What is reached without it: this machine and the API server of the kubeconfig.
    no_proxy: String,
}

pub(crate) async fn run(
    global: &GlobalArgs,
    args: &ProxyArgs,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    if !args.listen.ip().is_loopback() && !args.allow_remote {
        return Err(Failure::usage(format!(
            "{} can be reached by others, who would act with your credentials",
            args.listen
        ))
        .with_hint("`--allow-remote` means it"));
    }
    let cluster = Cluster::connect(global).await?;
    let hub = Arc::new(hub(&cluster, args).await?);
    let proxy = LocalProxy::bind(args.listen, Arc::clone(&hub))
        .await
        .with_context(|| format!("failed to listen on {}", args.listen))
        .hint("`--listen 127.0.0.1:0` takes a free port")?;
    if let Err(error) = hub.answers().await {
        // It may come back; who calls meanwhile is told the same.
        let why = Failure::from(anyhow::Error::from(error));
        printer.say(&format!("warning: {}", why.line()))?;
    }
    let listening = Listening {
        proxy: url(proxy.local_addr()),
        hub: hub.addresses().to_vec(),
        no_proxy: no_proxy(cluster.config().cluster_url.host()),
    };
    printer.report(args.format.output, &listening)?;
    printer.say(&format!(
        "reaching services through {} until Ctrl-C, for instance\n  curl --proxy {} http://SERVICE.NAMESPACE.CLUSTER/",
        listening.hub.join(", "),
        listening.proxy
    ))?;
    proxy.run(strait_runtime::stop_signal()).await;
    Ok(())
}

async fn hub(cluster: &Cluster, args: &ProxyArgs) -> Result<Hub, Failure> {
    let Some(path) = &args.hub_ca else {
        return Hub::at(cluster, args.hub.iter().cloned().collect(), None).await;
    };
    let bundle = std::fs::read_to_string(path);
    let bundle = bundle.with_context(|| format!("failed to read `{}`", path.display()))?;
    Hub::at(cluster, args.hub.iter().cloned().collect(), Some(bundle)).await
}

fn no_proxy(api_server: Option<&str>) -> String {
    let own = ["localhost", "127.0.0.1"];
    own.into_iter()
        .chain(api_server)
        .collect::<Vec<_>>()
        .join(",")
}

/// How this machine reaches what listens there; others use its name or address.
fn url(address: SocketAddr) -> String {
    let ip = match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    format!("http://{}", SocketAddr::new(ip, address.port()))
}

impl Report for Listening {
    /// Lines for a shell.
    fn table(&self) -> String {
        let line = |name| format!("export {name}={}\n", self.proxy);
        let exports = ["http_proxy", "https_proxy", "HTTPS_PROXY"]
            .map(line)
            .concat();
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
            assert_eq!(url(listens.parse().unwrap()), printed);
        }
    }

    #[test]
    fn the_output_can_be_evaluated_by_a_shell() {
        let listening = Listening {
            proxy: url(SocketAddr::from(([127, 0, 0, 1], 3128))),
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
    }
}
