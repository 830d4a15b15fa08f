//! `strait forward`.

use std::{net::SocketAddr, sync::Arc};

use anyhow::Context;
use serde::Serialize;
use strait_runtime::{Tasks, stop_signal};
use tokio::sync::mpsc;

use crate::{
    args::{ForwardArgs, GlobalArgs},
    cluster::Cluster,
    command::proxy::{hub, may_listen, reached_at},
    failure::{Failure, WithHint},
    printer::{Printer, Report},
    proxy::{LocalPort, Service},
};

/// How many failures may wait to be told; beyond, connections wait to fail.
const WAITING: usize = 16;

#[derive(Debug, Serialize)]
struct Listening {
    /// Where connections are taken.
    address: SocketAddr,
    /// Where they lead.
    service: String,
}

pub(crate) async fn run(
    global: &GlobalArgs,
    args: &ForwardArgs,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    may_listen(args.listen, &args.way)?;
    let cluster = Cluster::connect(global).await?;
    let hub = Arc::new(hub(&cluster, &args.way).await?);
    let port = LocalPort::bind(args.listen)
        .await
        .with_context(|| format!("failed to listen on {}", args.listen))
        .hint("without an address it takes a free port")?;
    let trying = Tasks::default();
    drop(hub.reach(&args.to, &trying).await?);
    let listening = Listening {
        address: reached_at(port.local_addr()),
        service: args.to.clone(),
    };
    printer.report(args.format.output, &listening)?;
    printer.say(&format!("leads to {} until Ctrl-C", args.to))?;
    let (failed, mut failures) = mpsc::channel(WAITING);
    let service = Service::Forward(args.to.as_str().into(), failed);
    let serving = port.serve(service, hub, stop_signal());
    tokio::pin!(serving);
    loop {
        tokio::select! {
            () = &mut serving => return Ok(()),
            Some(failure) = failures.recv() => printer.say(&failure.line())?,
        }
    }
}

impl Report for Listening {
    fn table(&self) -> String {
        format!("{}\n", self.address)
    }
}
