//! One connected agent.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use parking_lot::Mutex;
use rustls_pki_types::CertificateDer;
use strait_pki::{AgentName, ClientVerifier, Validity};
use strait_runtime::clock;
use strait_tunnel::{
    CloseCode, CloseReason, EndReason, Incoming, Open, OpenError, Request, Session, Stream,
    read_value, write_value,
};
use strait_types::{
    CarrierKind, ClusterName, ExposedService, ExposureTable, Refusal, RefusalCode, RenewAnswer,
    RenewRequest, SessionStatus, Target,
};
use tokio::sync::watch;

use crate::{audit::clean, join::Joins, select::Candidate, snapshot::Snapshot};

/// What an agent may say no with. Other codes are about callers and the hub, of which it knows
/// nothing.
const AGENTS_CODES: [RefusalCode; 9] = [
    RefusalCode::EntrypointNotFound,
    RefusalCode::PortNotExposed,
    RefusalCode::ServiceNotFound,
    RefusalCode::AgentRefused,
    RefusalCode::NoEndpoints,
    RefusalCode::ConnectionRefused,
    RefusalCode::DialTimeout,
    RefusalCode::DialFailed,
    RefusalCode::Unavailable,
];
/// The shortest time between two renewals in one session.
const RENEWAL_PAUSE: Duration = Duration::from_secs(1);
/// How long an agent may take to send the request of a renewal and to read the answer.
const RENEWAL_TIME: Duration = Duration::from_secs(30);

/// One connected agent: its session, how well it is, and what it knows.
#[derive(Debug)]
pub(crate) struct AgentSession {
    generation: u64,
    name: AgentName,
    source: SocketAddr,
    carrier: CarrierKind,
    since: Timestamp,
    session: Session,
    probe: Mutex<Option<Result<(), String>>>,
    table: Mutex<Table>,
    newest_table: watch::Sender<u64>,
    /// Streams that the hub needs for itself and keeps open.
    own_streams: AtomicUsize,
    certificate: Mutex<Certificate>,
}

/// What the agent is to be told next.
#[derive(Debug, Default)]
struct Table {
    /// The inventory that `services` was made of.
    snapshot: u64,
    generation: u64,
    services: Vec<ExposedService>,
}

/// What the agent's right to be here rests on.
#[derive(Debug)]
struct Certificate {
    chain: Vec<CertificateDer<'static>>,
    not_after: Timestamp,
}

/// Why a session gave no stream.
#[derive(Debug)]
pub(crate) enum NoStream {
    /// The agent said no.
    Refused(Refusal),
    /// The session is at fault; another one may do.
    TryNext(Refusal),
}

// === impl AgentSession ===

impl AgentSession {
    pub(crate) fn new(
        generation: u64,
        name: AgentName,
        (source, carrier): (SocketAddr, CarrierKind),
        session: Session,
        chain: Vec<CertificateDer<'static>>,
        not_after: Timestamp,
    ) -> Self {
        Self {
            generation,
            name,
            source,
            carrier,
            since: clock::timestamp(),
            session,
            probe: Mutex::new(None),
            table: Mutex::default(),
            newest_table: watch::Sender::new(0),
            own_streams: AtomicUsize::new(0),
            certificate: Mutex::new(Certificate { chain, not_after }),
        }
    }

    /// The number that no other session has.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// What the choice among several needs to know.
    pub(crate) fn candidate(&self) -> Candidate {
        Candidate {
            generation: self.generation,
            probe: self.probe.lock().as_ref().map(Result::is_ok),
            draining: self.session.is_draining(),
            rtt: self.session.rtt(),
        }
    }

    /// What came of the last probe.
    pub(crate) fn probe(&self) -> Option<Result<(), String>> {
        self.probe.lock().clone()
    }

    /// The session, for people.
    pub(crate) fn status(&self) -> SessionStatus {
        let (peer, stats) = (self.session.peer(), self.session.stats());
        let rtt = self.session.rtt();
        SessionStatus {
            cluster: self.name.cluster.clone(),
            instance: peer.instance.to_string(),
            software: clean(&peer.software),
            source: self.source.to_string(),
            carrier: self.carrier.to_string(),
            since: self.since,
            rtt_micros: rtt.map(|rtt| u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX)),
            silent_millis: u64::try_from(self.session.silence().as_millis()).unwrap_or(u64::MAX),
            streams: stats
                .streams
                .saturating_sub(self.own_streams.load(Ordering::Relaxed)),
            bytes_from_agent: stats.bytes_in,
            bytes_to_agent: stats.bytes_out,
            draining: self.session.is_draining(),
            reachable: self.probe.lock().as_ref().map(Result::is_ok),
            certificate_ends: self.certificate.lock().not_after,
        }
    }

    /// Opens a stream.
    pub(crate) async fn open(&self, open: Open) -> Result<(Stream, String), NoStream> {
        self.session
            .open(open)
            .await
            .map_err(|error| no_stream(&self.name.cluster, error))
    }

    /// Sends a probe through the session to the member's API server. Returns whether the answer is
    /// another one than last time.
    pub(crate) async fn send_probe(&self, answer: Duration) -> bool {
        let open = Box::pin(self.open(Open::target(Target::Probe.to_string())));
        let result = match tokio::time::timeout(answer, open).await {
            // The answer is ACCEPT; the stream itself carries nothing.
            Ok(Ok(_)) => Ok(()),
            Ok(Err(NoStream::Refused(refusal) | NoStream::TryNext(refusal))) => {
                Err(format!("The probe failed: {}", refusal.message))
            }
            Err(tokio::time::error::Elapsed { .. }) => Err(format!(
                "The probe did not come back in {} s",
                answer.as_secs()
            )),
        };
        let mut probe = self.probe.lock();
        let changed = probe.as_ref() != Some(&result);
        *probe = Some(result);
        changed
    }

    /// The generation of the table that says what `snapshot` says of this cluster. The agent gets
    /// that table, before or after it gets an OPEN that names the generation.
    pub(crate) fn table_generation(&self, snapshot: &Snapshot) -> u64 {
        let mut table = self.table.lock();
        if snapshot.version > table.snapshot || table.generation == 0 {
            table.snapshot = snapshot.version;
            let exposed = snapshot.names.exposed(&self.name.cluster);
            let all = exposed.len();
            let services = ExposureTable::fitting(exposed);
            if services.len() < all {
                let (cluster, left_out) = (&self.name.cluster, all - services.len());
                tracing::error!(%cluster, left_out, "more services are exposed than an agent can be told");
            }
            if table.generation == 0 || services != table.services {
                table.generation += 1;
                table.services = services;
                self.newest_table.send_replace(table.generation);
            }
        }
        table.generation
    }

    /// Sends the agent each new table, until the session drains or ends.
    pub(crate) async fn send_tables(&self, inventory: watch::Receiver<Arc<Snapshot>>) {
        let open = Open::target(Target::Table.to_string());
        let (stream, _) = match Box::pin(self.open(open)).await {
            Ok(opened) => opened,
            Err(NoStream::Refused(refusal) | NoStream::TryNext(refusal)) => {
                self.give_up(&format!("the agent takes no table: {refusal}"));
                return;
            }
        };
        self.own_streams.fetch_add(1, Ordering::Relaxed);
        self.keep_table(stream, inventory).await;
        self.own_streams.fetch_sub(1, Ordering::Relaxed);
    }

    async fn keep_table(&self, mut stream: Stream, mut inventory: watch::Receiver<Arc<Snapshot>>) {
        let mut newest = self.newest_table.subscribe();
        let mut sent = 0;
        loop {
            let snapshot = Arc::clone(&inventory.borrow_and_update());
            self.table_generation(&snapshot);
            let table = self.table();
            if table.generation > sent {
                sent = table.generation;
                let written = write_value(&mut stream, &table, ExposureTable::MAX_BYTES).await;
                if let Err(error) = written {
                    self.give_up(&format!("the table could not be sent: {error}"));
                    return;
                }
                tracing::debug!(
                    generation = sent,
                    services = table.services.len(),
                    "table sent"
                );
            }
            tokio::select! {
                // Nothing is opened any more, and a drained session ends with its last stream.
                () = self.session.draining() => return,
                changed = inventory.changed() => if changed.is_err() { return },
                // Somebody else may have made a newer one.
                made = newest.wait_for(|made| *made > sent) => if made.is_err() { return },
            }
        }
    }

    /// Ends a session that cannot be told any more what is exposed: the agent would refuse what it
    /// does not know. It comes back with another one.
    fn give_up(&self, why: &str) {
        if !self.session.is_draining() {
            let cluster = &self.name.cluster;
            tracing::warn!(%cluster, source = %self.source, why, "session given up");
            self.session.close(CloseReason::new(CloseCode::Normal, why));
        }
    }

    /// Answers what the agent asks for, until the session ends. Agents may renew their certificate
    /// and nothing else.
    pub(crate) async fn answer(&self, mut incoming: Incoming, joins: &Joins) {
        let mut earliest = tokio::time::Instant::now();
        while let Some(request) = incoming.next().await {
            if request.open().target.parse() == Ok(Target::Renew) {
                // One after another, and not without end: each costs a signature.
                tokio::time::sleep_until(earliest).await;
                earliest = tokio::time::Instant::now() + RENEWAL_PAUSE;
                let renewal = Box::pin(self.renew(request, joins));
                if tokio::time::timeout(RENEWAL_TIME, renewal).await.is_err() {
                    tracing::warn!("the agent did not finish its renewal in time");
                }
            } else {
                tracing::warn!(
                    target = clean(&request.open().target),
                    "agents do not open this"
                );
                request.reject(
                    RefusalCode::NotAllowed.wire(),
                    "this hub opens streams for callers, not for agents",
                );
            }
        }
    }

    async fn renew(&self, request: Request, joins: &Joins) {
        let mut stream = match request.accept("") {
            Ok(stream) => stream,
            Err(error) => {
                tracing::debug!(%error, "the agent gave its renewal up");
                return;
            }
        };
        let exchange = async {
            let asked = read_value::<RenewRequest>(&mut stream, RenewRequest::MAX_BYTES).await?;
            let asked = asked.ok_or(std::io::ErrorKind::UnexpectedEof)?;
            let answer = match joins.renew(&self.name, &asked) {
                Ok((answer, certificate)) => {
                    self.renewed(certificate);
                    RenewAnswer::Issued(answer)
                }
                Err(refusal) => RenewAnswer::Refused(refusal),
            };
            write_value(&mut stream, &answer, RenewRequest::MAX_BYTES).await?;
            tokio::io::AsyncWriteExt::shutdown(&mut stream).await
        };
        if let Err(error) = exchange.await {
            tracing::warn!(%error, "a renewal broke off");
        }
    }

    /// From here on the session rests on this certificate: it goes to who has the session.
    fn renewed(&self, certificate: CertificateDer<'static>) {
        if let Ok(validity) = Validity::of(&certificate) {
            let mut held = self.certificate.lock();
            *held = Certificate {
                chain: vec![certificate],
                not_after: validity.not_after,
            };
        }
    }

    /// Why the session may not go on, if it may not.
    pub(crate) fn objection(
        &self,
        snapshot: &Snapshot,
        agents: &ClientVerifier,
        now: Timestamp,
    ) -> Option<String> {
        if let Some(objection) = snapshot.objection_to(&self.name) {
            return Some(objection);
        }
        let certificate = self.certificate.lock();
        if now > certificate.not_after {
            return Some("the agent's certificate has ended and was not renewed".to_owned());
        }
        let verified = agents.verify(&certificate.chain, now);
        verified
            .err()
            .map(|error| format!("the agent's certificate is not good any more: {error}"))
    }

    /// Ends the session.
    pub(crate) fn revoke(&self, why: &str) {
        tracing::info!(cluster = %self.name.cluster, source = %self.source, why, "session closed");
        self.session
            .close(CloseReason::new(CloseCode::Revoked, why));
    }

    /// No new streams; the session ends when the last one has, or at the deadline.
    pub(crate) fn drain(&self, deadline: Duration) {
        self.session.drain(deadline);
    }

    fn table(&self) -> ExposureTable {
        let table = self.table.lock();
        ExposureTable {
            generation: table.generation,
            services: table.services.clone(),
        }
    }
}

fn no_stream(cluster: &ClusterName, error: OpenError) -> NoStream {
    let refusal = |code, message: String| Refusal::new(code, message);
    match error {
        OpenError::Draining => {
            let message = format!("the agent of {cluster} is shutting down");
            NoStream::TryNext(refusal(RefusalCode::Draining, message).with_hint("try again"))
        }
        OpenError::TooManyStreams => {
            let message = format!("the session to {cluster} has as many streams as it may have");
            NoStream::TryNext(refusal(RefusalCode::Overloaded, message))
        }
        OpenError::Rejected { code, text } => {
            let code = RefusalCode::from_wire(code)
                .filter(|code| AGENTS_CODES.contains(code))
                .unwrap_or(RefusalCode::AgentRefused);
            NoStream::Refused(refusal(code, clean(&text)))
        }
        // Whoever dials twice has at worst connected for nothing: no byte of the caller was sent.
        OpenError::Lost(end) => NoStream::TryNext(lost(cluster, &end)),
        OpenError::Reset(code) => NoStream::Refused(refusal(
            RefusalCode::DialFailed,
            format!("the agent of {cluster} cut the stream (code {code})"),
        )),
        OpenError::Invalid(error) => {
            NoStream::Refused(refusal(RefusalCode::BadRequest, error.to_string()))
        }
    }
}

fn lost(cluster: &ClusterName, end: &EndReason) -> Refusal {
    Refusal::new(
        RefusalCode::TunnelLost,
        format!("the session to {cluster} was lost: {end}"),
    )
    .with_hint("agents come back by themselves; try again")
}
