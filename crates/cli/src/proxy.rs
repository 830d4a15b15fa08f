//! A local HTTP proxy that reaches services through the hub, with a kubeconfig's credentials.

mod credentials;
mod forward;
mod hub;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use strait_runtime::Tasks;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

pub(crate) use self::{credentials::Credentials, hub::Hub};

/// How long streams may go on after the proxy was asked to stop.
const GRACE: Duration = Duration::from_secs(1);

/// The proxy, bound and not yet running.
pub(crate) struct LocalProxy {
    listener: TcpListener,
    address: SocketAddr,
    hub: Arc<Hub>,
}

// === impl LocalProxy ===

impl LocalProxy {
    pub(crate) async fn bind(address: SocketAddr, hub: Arc<Hub>) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self {
            listener,
            address,
            hub,
        })
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` completes.
    pub(crate) async fn run(self, stop: impl Future<Output = ()>) {
        let tasks = Tasks::default();
        tokio::pin!(stop);
        loop {
            tokio::select! {
                biased;
                () = &mut stop => break,
                accepted = self.listener.accept() => self.on_accepted(accepted, &tasks).await,
            }
        }
        tasks.shutdown(GRACE).await;
    }

    async fn on_accepted(&self, accepted: io::Result<(TcpStream, SocketAddr)>, tasks: &Tasks) {
        match accepted {
            Ok((tcp, _)) => {
                let serving = serve(tcp, Arc::clone(&self.hub), tasks.clone());
                let stop = tasks.stop().clone();
                tasks.spawn_one(async move { until(stop, serving).await });
            }
            // Out of file descriptors, most likely: nothing is gained by trying at once.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
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

async fn serve(tcp: TcpStream, hub: Arc<Hub>, tasks: Tasks) {
    let _ = tcp.set_nodelay(true);
    let answer = service_fn(move |request| {
        let (hub, tasks) = (Arc::clone(&hub), tasks.clone());
        async move { forward::answer(request, &hub, &tasks).await }
    });
    // What goes wrong with one local connection its own client sees.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .preserve_header_case(true)
        .serve_connection(TokioIo::new(tcp), answer)
        .with_upgrades()
        .await;
}

#[cfg(test)]
mod tests;
