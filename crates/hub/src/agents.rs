//! Takes agents in, and keeps what concerns all of their sessions.

use std::{net::SocketAddr, sync::Arc};

use rustls_pki_types::CertificateDer;
use strait_pki::{AgentName, ClientVerifier, Reloadable, TrustDomain, Validity, peer_agent};
use strait_runtime::{Tasks, clock};
use strait_tunnel::{Carrier, CloseCode, CloseReason, Config, Session, Side};
use strait_types::CarrierKind;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    agent_session::AgentSession, agent_sessions::AgentSessions, audit::clean, config::Times,
    join::Joins, slots::Slot, snapshot::Snapshot,
};

/// What every agent's connection needs.
#[derive(Debug)]
pub(crate) struct Agents {
    pub(crate) sessions: Arc<AgentSessions>,
    pub(crate) inventory: watch::Receiver<Arc<Snapshot>>,
    pub(crate) verifier: Reloadable<ClientVerifier>,
    pub(crate) trust_domain: TrustDomain,
    pub(crate) joins: Arc<Joins>,
    pub(crate) session: Config,
    pub(crate) times: Times,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: Tasks,
}

/// An agent's connection after its handshake.
pub(crate) struct Arrival {
    pub(crate) source: SocketAddr,
    pub(crate) carrier: CarrierKind,
    /// Its certificate, verified, leaf first.
    pub(crate) chain: Vec<CertificateDer<'static>>,
    /// Its place among the handshakes, kept until the session is counted.
    pub(crate) place: Slot,
}

// === impl Agents ===

impl Agents {
    /// Serves one agent until its session ends.
    pub(crate) async fn serve(self: &Arc<Self>, carrier: impl Carrier, arrival: Arrival) {
        let source = arrival.source;
        let Some(leaf) = arrival.chain.first() else {
            return;
        };
        let name = match peer_agent(leaf, &self.trust_domain) {
            Ok(name) => name,
            Err(error) => {
                tracing::warn!(%source, %error, "an agent's certificate names no cluster");
                return;
            }
        };
        let Ok(validity) = Validity::of(leaf) else {
            return;
        };
        let established = Session::establish(carrier, Side::Acceptor, self.session.clone()).await;
        let (session, incoming, driver) = match established {
            Ok(established) => established,
            Err(error) => {
                tracing::warn!(%source, cluster = %name.cluster, %error, "no session with an agent");
                return;
            }
        };
        // In a task of its own: nothing else is looked at when bytes arrive. It ends with the
        // session.
        self.tasks.spawn_one(async move {
            driver.run().await;
        });
        self.attend(name, arrival, validity.not_after, session, incoming)
            .await;
    }

    async fn attend(
        self: &Arc<Self>,
        name: AgentName,
        arrival: Arrival,
        not_after: jiff::Timestamp,
        session: Session,
        incoming: strait_tunnel::Incoming,
    ) {
        let cluster = &name.cluster;
        let Arrival {
            source,
            carrier,
            chain,
            place,
        } = arrival;
        if let Some(objection) = self.admit(&name).await {
            tracing::warn!(%cluster, %source, objection, "agent turned away");
            session.close(CloseReason::new(CloseCode::Revoked, objection));
            session.closed().await;
            return;
        }
        let registered = self.sessions.register(cluster, |generation| {
            let session = session.clone();
            let from = (source, carrier);
            AgentSession::new(generation, name.clone(), from, session, chain, not_after)
        });
        // From here on it counts among the sessions of its cluster.
        drop(place);
        let Some((agent, registration)) = registered else {
            tracing::warn!(%cluster, %source, "the cluster has too many sessions");
            session.close(CloseReason::new(
                CloseCode::Normal,
                "the cluster has too many sessions",
            ));
            return;
        };
        tracing::info!(%cluster, %source, %carrier, "agent connected");
        if self.stop.is_cancelled() {
            agent.drain(self.times.drain);
        }
        let end = tokio::select! {
            biased;
            end = session.closed() => end,
            () = self.care_for(&agent, incoming) => session.closed().await,
        };
        let end = clean(&end.to_string());
        tracing::info!(%cluster, %source, end, "agent disconnected");
        registration.ended(format!("the last session ended: {end}"));
    }

    /// Sends tables and probes and answers renewals, for ever.
    async fn care_for(&self, agent: &Arc<AgentSession>, incoming: strait_tunnel::Incoming) {
        tokio::join!(
            agent.send_tables(self.inventory.clone()),
            self.send_probes(agent),
            agent.answer(incoming, &self.joins),
        );
    }

    async fn send_probes(&self, agent: &AgentSession) {
        let mut every = tokio::time::interval(self.times.probe);
        every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            every.tick().await;
            if agent.send_probe(self.times.probe_answer).await {
                self.sessions.changed();
            }
        }
    }

    /// Why an agent may not come in, if it may not. A cluster that joined just now may not be in
    /// the inventory that this hub has seen: it gets some time.
    async fn admit(&self, name: &AgentName) -> Option<String> {
        let mut inventory = self.inventory.clone();
        let admitted = inventory.wait_for(|snapshot| snapshot.objection_to(name).is_none());
        match tokio::time::timeout(self.times.admission, admitted).await {
            Ok(Ok(_)) => None,
            Ok(Err(_)) => Some("the hub is shutting down".to_owned()),
            Err(tokio::time::error::Elapsed { .. }) => {
                let snapshot = Arc::clone(&self.inventory.borrow());
                snapshot.objection_to(name)
            }
        }
    }

    /// Closes the sessions that may not go on: of clusters that are gone or not accepted any more,
    /// and of certificates that are not good any more. Looks whenever the inventory changes, and
    /// now and then for the certificates.
    pub(crate) async fn guard(self: Arc<Self>, stop: CancellationToken) {
        let mut inventory = self.inventory.clone();
        let mut every = tokio::time::interval(self.times.recheck);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                changed = inventory.changed() => if changed.is_err() { return },
                _ = every.tick() => {}
            }
            let snapshot = Arc::clone(&inventory.borrow_and_update());
            let (verifier, now) = (self.verifier.get(), clock::timestamp());
            for agent in self.sessions.all() {
                if let Some(objection) = agent.objection(&snapshot, &verifier, now) {
                    agent.revoke(&objection);
                }
            }
        }
    }

    /// Tells every agent that the hub stops.
    pub(crate) fn drain(&self) {
        for agent in self.sessions.all() {
            agent.drain(self.times.drain);
        }
    }
}
