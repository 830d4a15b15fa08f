//! Ports of this machine that lead through the hub, with a kubeconfig's credentials.

mod credentials;
mod hub;
mod request;
mod socks;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use strait_runtime::{ResetOnDrop, Tasks};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
};
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;

pub(crate) use self::{
    credentials::Credentials,
    hub::{Hub, HubError, Opened},
};

/// How long streams may go on after the proxy was asked to stop.
const GRACE: Duration = Duration::from_secs(1);

/// A port of this machine, bound and not yet served.
pub(crate) struct LocalPort {
    listener: TcpListener,
    address: SocketAddr,
}

/// What becomes of the connections of a local port.
#[derive(Clone, Debug)]
pub(crate) enum Service {
    /// A proxy that speaks HTTP and SOCKS5: each request names where it goes.
    Proxy,
    /// All go to this one authority, `host:port`; what cannot be opened is told here.
    Forward(Arc<str>, mpsc::Sender<Failure>),
}

// === impl LocalPort ===

impl LocalPort {
    pub(crate) async fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` completes.
    pub(crate) async fn serve(
        self,
        service: Service,
        hub: Arc<Hub>,
        stop: impl Future<Output = ()>,
    ) {
        let tasks = Tasks::default();
        tokio::pin!(stop);
        loop {
            let tcp = tokio::select! {
                biased;
                () = &mut stop => break,
                accepted = self.listener.accept() => match accepted {
                    Ok((tcp, _)) => tcp,
                    // Out of file descriptors, most likely: nothing is gained by trying at once.
                    Err(_) => {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        continue;
                    }
                },
            };
            let _ = tcp.set_nodelay(true);
            let stop = tasks.stop().clone();
            let serving = service.clone().serve(tcp, Arc::clone(&hub), tasks.clone());
            tasks.spawn_one(async move { until(stop, serving).await });
        }
        tasks.shutdown(GRACE).await;
    }
}

// === impl Service ===

impl Service {
    async fn serve(self, tcp: TcpStream, hub: Arc<Hub>, tasks: Tasks) {
        match self {
            Self::Proxy => proxy(tcp, hub, tasks).await,
            Self::Forward(to, failed) => {
                // A stream that breaks at the hub breaks for the local client, too.
                let tcp = ResetOnDrop::new(tcp);
                if let Err(failure) = forward(tcp, &to, &hub, &tasks).await {
                    // Who does not listen any more is about to end.
                    let _ = failed.send(failure).await;
                }
            }
        }
    }
}

/// Runs `work` unless it is stopped before.
async fn until(stop: CancellationToken, work: impl Future<Output = ()>) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = work => {}
    }
}

async fn proxy(tcp: TcpStream, hub: Arc<Hub>, tasks: Tasks) {
    let mut first = [0];
    if matches!(tcp.peek(&mut first).await, Ok(1..)) && first == [socks::VERSION] {
        return socks::serve(tcp, &hub, &tasks).await;
    }
    let answer = service_fn(move |request| {
        let (hub, tasks) = (Arc::clone(&hub), tasks.clone());
        async move { request::answer(request, &hub, &tasks).await }
    });
    // What goes wrong with one local connection its own client sees.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .preserve_header_case(true)
        .serve_connection(TokioIo::new(tcp), answer)
        .with_upgrades()
        .await;
}

/// Carries one connection to `to`.
async fn forward(mut tcp: ResetOnDrop, to: &str, hub: &Hub, tasks: &Tasks) -> Result<(), Failure> {
    let mut stream = TokioIo::new(hub.reach(to, tasks).await?);
    // How it ended both ends see for themselves.
    let _ = tokio::io::copy_bidirectional(&mut tcp, &mut stream).await;
    Ok(())
}

#[cfg(test)]
mod tests;
