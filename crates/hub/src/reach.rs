//! From a name to an open stream: name, permission, session, agent, service.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use strait_api::wire_names::{CONNECT_VERB, ENTRYPOINTS};
use strait_names::Miss;
use strait_runtime::clock;
use strait_tunnel::{Open, Stream};
use strait_types::{AcceptDetail, ClusterName, PortChoice, Refusal, RefusalCode, Target};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    agent_session::{AgentSession, NoStream},
    agent_sessions::AgentSessions,
    audit::AuditLine,
    caller::Caller,
    decisions::{Decisions, Freshness},
    live::{LiveStreams, Place},
    snapshot::{Destination, Snapshot},
};

/// How many near names are looked at for a hint. Each may cost a review of the caller.
const MAX_HINTS: usize = 3;

/// What a caller asks for.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    /// The host name, without a port.
    pub(crate) host: String,
    /// The port.
    pub(crate) port: PortChoice,
    /// W3C trace context, or empty.
    pub(crate) trace: String,
}

/// An open stream to a service.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The bytes.
    pub(crate) stream: Stream,
    /// What the agent connected to.
    pub(crate) detail: AcceptDetail,
    /// Keeps the stream counted, and says when it must end.
    pub(crate) place: Place,
    /// Where it leads.
    pub(crate) destination: Arc<Destination>,
}

/// Finds the way.
#[derive(Debug)]
pub(crate) struct Reach {
    pub(crate) inventory: watch::Receiver<Arc<Snapshot>>,
    pub(crate) decisions: Arc<Decisions>,
    pub(crate) sessions: Arc<AgentSessions>,
    pub(crate) live: Arc<LiveStreams>,
    pub(crate) dial: Duration,
    pub(crate) comeback: Duration,
    pub(crate) stop: CancellationToken,
}

// === impl Reach ===

impl Reach {
    /// The newest inventory.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.inventory.borrow())
    }

    /// Where a name leads, if this caller may go there.
    ///
    /// Refuses what does not exist, with the nearest right name that the caller may connect to, and
    /// what is not allowed.
    pub(crate) async fn find(
        &self,
        caller: &Arc<Caller>,
        host: &str,
        audit: &mut AuditLine,
    ) -> Result<Arc<Destination>, Refusal> {
        if self.stop.is_cancelled() {
            return Err(
                Refusal::new(RefusalCode::Draining, "the hub is shutting down")
                    .with_hint("try again; another hub will answer"),
            );
        }
        let snapshot = self.snapshot();
        let destination = match snapshot.names.resolve(host) {
            Ok(entry) => Arc::clone(entry.policy()),
            Err(miss) => return Err(self.explain(caller, *miss).await),
        };
        audit.entrypoint(destination.service.cluster().as_str(), &destination.object);
        if let Some(objection) = snapshot.objection(destination.service.cluster()) {
            return Err(Refusal::new(RefusalCode::AgentNotConnected, objection));
        }
        if self
            .decisions
            .may_connect(caller, &destination, Freshness::Recent)
            .await?
        {
            Ok(destination)
        } else {
            Err(not_allowed(caller, &destination))
        }
    }

    /// Opens a stream. The caller has been allowed by [`find`](Self::find).
    ///
    /// Refuses for every other reason that there is.
    pub(crate) async fn open(
        &self,
        caller: &Arc<Caller>,
        destination: Arc<Destination>,
        ask: &Ask,
    ) -> Result<Opened, Refusal> {
        let port = destination.choose_port(&ask.port)?;
        let place = self.enter(caller, &destination)?;
        let open = Open {
            target: Target::Tcp {
                service: destination.service.service().into(),
                namespace: destination.service.namespace().into(),
                port,
            }
            .to_string(),
            caller: caller.user().name.chars().take(1024).collect(),
            trace_context: ask.trace.clone(),
            policy_generation: 0,
        };
        let opening = Box::pin(self.open_anywhere(&destination, &open));
        let opened = tokio::select! {
            biased;
            code = place.cut().wait() => Err(cut_refusal(code, &destination)),
            opened = tokio::time::timeout(self.dial, opening) => match opened {
                Ok(opened) => opened,
                Err(tokio::time::error::Elapsed { .. }) => Err(self.too_slow(&destination)),
            },
        };
        let (stream, detail) = opened?;
        let detail = AcceptDetail::decode(&detail);
        if !destination.exposes(&detail) {
            return Err(destination.port_not_exposed(&ask.port));
        }
        Ok(Opened {
            stream,
            detail,
            place,
            destination,
        })
    }

    /// Takes a place among the open streams, from where the stream can be cut.
    pub(crate) fn enter(
        &self,
        caller: &Arc<Caller>,
        destination: &Arc<Destination>,
    ) -> Result<Place, Refusal> {
        let place = self.live.enter(caller, destination)?;
        // What was taken away in between was not in the list that was cut then.
        if self.snapshot().still_leads(destination) {
            Ok(place)
        } else {
            Err(gone(destination))
        }
    }

    /// Tries the cluster's sessions one after another, until an agent has answered. When an agent
    /// is likely to come back in a moment, waits for it.
    async fn open_anywhere(
        &self,
        destination: &Destination,
        open: &Open,
    ) -> Result<(Stream, String), Refusal> {
        let cluster = destination.service.cluster();
        let until = tokio::time::Instant::now() + self.comeback;
        let mut changes = self.sessions.watch();
        let (mut tried, mut last) = (BTreeSet::new(), None);
        loop {
            changes.borrow_and_update();
            let mut untried = self.sessions.candidates(cluster);
            untried.retain(|session| tried.insert(session.generation()));
            let mut untried = untried.into_iter().peekable();
            while let Some(session) = untried.next() {
                // One that is frozen does not use up the time of the others.
                let most = match untried.peek() {
                    Some(_) => self.dial / 3,
                    None => self.dial,
                };
                let attempt = tokio::time::timeout(most, self.open_on(&session, open)).await;
                let slow = |_| Err(NoStream::TryNext(self.too_slow(destination)));
                match attempt.unwrap_or_else(slow) {
                    Ok(opened) => return Ok(opened),
                    Err(NoStream::Refused(refusal)) => return Err(refusal),
                    Err(NoStream::TryNext(refusal)) => last = Some(refusal),
                }
            }
            let went = last.as_ref().is_some_and(|refusal: &Refusal| {
                matches!(
                    refusal.code,
                    RefusalCode::TunnelLost | RefusalCode::Draining
                )
            });
            let expected = went || self.sessions.expects(cluster, self.comeback, clock::now());
            let waited = tokio::time::timeout_at(until, changes.changed());
            if !expected || !matches!(waited.await, Ok(Ok(()))) {
                return Err(last.unwrap_or_else(|| not_connected(cluster)));
            }
        }
    }

    async fn open_on(
        &self,
        session: &AgentSession,
        open: &Open,
    ) -> Result<(Stream, String), NoStream> {
        let generation = session.table_generation(&self.snapshot());
        let open = Open {
            policy_generation: generation,
            ..open.clone()
        };
        session.open(open).await
    }

    async fn explain(&self, caller: &Arc<Caller>, miss: Miss<'_, Arc<Destination>>) -> Refusal {
        let mut allowed = vec![];
        for near in miss.candidates().take(MAX_HINTS) {
            let may = self
                .decisions
                .may_connect(caller, near.policy(), Freshness::Recent)
                .await;
            if matches!(may, Ok(true)) {
                allowed.push(near);
            }
        }
        miss.with_hint(&allowed)
    }

    fn too_slow(&self, destination: &Destination) -> Refusal {
        Refusal::new(
            RefusalCode::DialTimeout,
            format!(
                "`{}` did not answer in {} s",
                destination.service,
                self.dial.as_secs()
            ),
        )
    }
}

fn not_allowed(caller: &Caller, destination: &Destination) -> Refusal {
    let (user, name) = (&caller.user().name, &destination.service);
    let cluster = name.cluster();
    Refusal::new(
        RefusalCode::NotAllowed,
        format!("{user} may not connect to {name}"),
    )
    .with_hint(format!(
        "who administers {cluster} can allow the verb `{CONNECT_VERB}` on {ENTRYPOINTS} \
             `{object}` in namespace {cluster}",
        object = destination.object
    ))
}

fn not_connected(cluster: &ClusterName) -> Refusal {
    let message = format!("no agent of {cluster} is connected");
    Refusal::new(RefusalCode::AgentNotConnected, message)
        .with_hint("`strait clusters` shows since when")
}

fn gone(destination: &Destination) -> Refusal {
    let message = format!("`{}` is not exposed any more", destination.service);
    Refusal::new(RefusalCode::EntrypointNotFound, message)
}

/// What a caller is told whose stream was cut before it was open.
pub(crate) fn cut_refusal(code: RefusalCode, destination: &Destination) -> Refusal {
    let message = format!("the stream to `{}` was cut", destination.service);
    Refusal::new(code, message)
}
