//! What the agent does for one hub: streams to services, the table, probes.

use std::{io, sync::Arc, time::Duration};

use strait_runtime::{ResetOnDrop, Tasks, clock};
use strait_tunnel::{Incoming, Request, Splice, SpliceEnd, Stream, read_value, reset_code};
use strait_types::{
    AcceptDetail, ExposedService, ExposureTable, PortChoice, Refusal, RefusalCode, Target,
};
use tokio::{io::AsyncWriteExt, net::TcpStream, time::timeout};

use crate::{
    dial::{Dialed, Dialer},
    metrics::Metrics,
    table::Table,
};

/// How long the member's API server may take to accept a probe.
const PROBE_TIME: Duration = Duration::from_secs(5);

/// What the agent does for the hubs. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    dialer: Dialer,
    /// Where the member's API server listens, `host:port`.
    /// Who answers probes; without one the agent itself does.
    api_server: Option<Arc<str>>,
    metrics: Metrics,
}

/// A stream to a service, as the hub asks for it.
struct Asked {
    service: Box<str>,
    namespace: Box<str>,
    port: PortChoice,
}

/// What came of a stream that was open.
struct Carried {
    outcome: &'static str,
    /// Bytes from the service to the hub.
    sent: u64,
    /// Bytes from the hub to the service.
    received: u64,
}

// === impl Service ===

impl Service {
    pub(crate) fn new(dialer: Dialer, api_server: Option<&str>, metrics: Metrics) -> Self {
        Self {
            dialer,
            api_server: api_server.map(Into::into),
            metrics,
        }
    }

    /// Answers what one session's hub asks for, until the session is over. What the hub exposes
    /// goes into `table`.
    pub(crate) async fn serve(self, mut incoming: Incoming, table: Table, tasks: Tasks) {
        while let Some(request) = incoming.next().await {
            match request.open().target.parse() {
                Ok(Target::Tcp {
                    service,
                    namespace,
                    port,
                }) => {
                    let asked = Asked {
                        service,
                        namespace,
                        port,
                    };
                    tasks.spawn_one(self.clone().connect(request, asked, table.clone()));
                }
                Ok(Target::Table) => tasks.spawn_one(follow(request, table.clone())),
                Ok(Target::Probe) => tasks.spawn_one(self.clone().probe(request)),
                Ok(Target::Renew) => refuse(request, &not_dialled("`control:renew` is the hub's")),
                Err(wrong) => refuse(request, &not_dialled(&wrong.to_string())),
            }
        }
    }

    async fn connect(self, request: Request, asked: Asked, table: Table) {
        let started = clock::now();
        let caller = request.open().caller.clone();
        let generation = request.open().policy_generation;
        let Asked {
            service,
            namespace,
            port,
        } = asked;
        let work = async {
            let exposed = table.find(generation, &namespace, &service).await?;
            let dialed = self.dialer.dial(&exposed, &port).await?;
            Ok::<_, Refusal>((exposed, dialed))
        };
        let dialed = tokio::select! {
            () = request.cancelled() => {
                self.metrics.stream("cancelled");
                return;
            }
            dialed = work => dialed,
        };
        let name = format!("{namespace}/{service}:{port}");
        let (exposed, dialed) = match dialed {
            Ok(dialed) => dialed,
            Err(refusal) => {
                self.metrics.stream(refusal.code.as_str());
                tracing::info!(%caller, service = name, code = %refusal.code, %refusal, "stream refused");
                refuse(request, &refusal);
                return;
            }
        };
        let Carried {
            outcome,
            sent,
            received,
        } = self.carry(request, exposed, dialed, &table).await;
        self.metrics.stream(outcome);
        self.metrics.bytes(sent, received);
        let took = clock::now() - started;
        tracing::info!(%caller, service = name, outcome, sent, received, duration = ?took, "stream ended");
    }

    /// Carries bytes until both ends are done, or the service is not exposed any more.
    async fn carry(
        &self,
        request: Request,
        exposed: ExposedService,
        dialed: Dialed,
        table: &Table,
    ) -> Carried {
        let Dialed { tcp, port } = dialed;
        let detail = AcceptDetail {
            port: port.number,
            name: port.name.clone(),
            app_protocol: port.app_protocol.clone(),
        };
        let Ok(stream) = request.accept(&detail.encode()) else {
            return Carried {
                outcome: "cancelled",
                sent: 0,
                received: 0,
            };
        };
        // Without it small writes wait for the service's acknowledgements; it is only speed.
        let _ = tcp.set_nodelay(true);
        let _open = self.metrics.open();
        let resetter = stream.resetter();
        // Cut before its end, the stream is cut for the service as well.
        let mut carrying = Box::pin(Splice::new(stream, ResetOnDrop::new(tcp)));
        let outcome = tokio::select! {
            end = &mut carrying => outcome(&end),
            () = table.revoked(&exposed.namespace, &exposed.service, &port) => {
                // Before the stream is dropped, which would tell another reason.
                resetter.reset(reset_code::REVOKED);
                "revoked"
            }
        };
        Carried {
            outcome,
            sent: carrying.sent(),
            received: carrying.received(),
        }
    }

    /// Says whether the member's API server takes connections; where there is none, that the agent
    /// is there.
    async fn probe(self, request: Request) {
        let Some(server) = &self.api_server else {
            drop(request.accept(""));
            return;
        };
        let refusal = match timeout(PROBE_TIME, TcpStream::connect(&**server)).await {
            Ok(Ok(_)) => {
                if let Ok(mut stream) = request.accept("") {
                    // The answer was the ACCEPT; nothing is lost with the rest.
                    let _ = stream.shutdown().await;
                }
                return;
            }
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => Refusal::new(
                RefusalCode::ConnectionRefused,
                format!("the API server at {server} refused the connection"),
            ),
            Ok(Err(error)) => Refusal::new(
                RefusalCode::DialFailed,
                format!("the API server at {server} cannot be reached: {error}"),
            ),
            Err(_) => Refusal::new(
                RefusalCode::DialTimeout,
                format!("the API server at {server} did not answer in time"),
            ),
        };
        tracing::warn!(%refusal, "probe");
        refuse(request, &refusal);
    }
}

/// Takes the hub's tables, one after the other.
async fn follow(request: Request, table: Table) {
    let Ok(mut stream) = request.accept("") else {
        return;
    };
    loop {
        match read_table(&mut stream).await {
            Ok(Some(new)) => {
                let (generation, services) = (new.generation, new.services.len());
                tracing::debug!(generation, services, "table of what is exposed");
                table.replace(new);
            }
            Ok(None) => return,
            Err(error) => {
                tracing::debug!(%error, "the table of what is exposed broke off");
                return;
            }
        }
    }
}

async fn read_table(stream: &mut Stream) -> io::Result<Option<ExposureTable>> {
    read_value(stream, ExposureTable::MAX_BYTES).await
}

/// A REJECT has one text, so the hint goes into it.
fn refuse(request: Request, refusal: &Refusal) {
    let text = match &refusal.hint {
        Some(hint) => format!("{}; {hint}", refusal.message),
        None => refusal.message.clone(),
    };
    request.reject(refusal.code.wire(), &text);
}

fn not_dialled(why: &str) -> Refusal {
    Refusal::new(RefusalCode::AgentRefused, why)
}

fn outcome(end: &SpliceEnd) -> &'static str {
    match end {
        SpliceEnd::Complete => "complete",
        SpliceEnd::Reset(reset) if reset.by_peer => "cut-by-hub",
        SpliceEnd::Reset(_) => "cut",
        SpliceEnd::Lost(_) => "tunnel-lost",
        SpliceEnd::Io(_) => "service-broke",
    }
}

#[cfg(test)]
mod tests;
