//! Binds everything, then runs it.

use std::{net::SocketAddr, sync::Arc};

use prometheus_client::registry::Registry;
use strait_pki::{PkiError, ServingCerts, ServingConfig, Validity};
use strait_runtime::{Tasks, clock};
use strait_types::RefusalCode;
use thiserror::Error;
use tokio::{net::TcpListener, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    agent_sessions::AgentSessions,
    agents::Agents,
    callers_trust::CallersTrust,
    config::HubConfig,
    decisions::Decisions,
    deps::{Deps, Material},
    frontend::Frontend,
    join::Joins,
    listener::{Doors, Handshakes, Listener},
    live::LiveStreams,
    member_writer::MemberWriter,
    metrics::Metrics,
    reach::Reach,
    revocation::Revocation,
    tls_configs::TlsConfigs,
    upstream::Upstream,
};

/// How long connections get to notice that they were cut, after the drain.
const LAST_GRACE: std::time::Duration = std::time::Duration::from_secs(2);

/// The hub: accepts agents and callers on one port.
#[derive(Debug)]
pub struct Hub {
    config: Arc<HubConfig>,
    address: SocketAddr,
    listener: Listener,
    agents: Arc<Agents>,
    revocation: Arc<Revocation>,
    members: MemberWriter,
    material: Material,
    metrics: Metrics,
    /// Cancelled when the hub begins to stop.
    draining: CancellationToken,
    connections: Tasks,
}

/// The hub could not be bound.
#[derive(Debug, Error)]
pub enum BindError {
    /// The address cannot be listened on.
    #[error("failed to listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// There is no certificate to show.
    #[error("failed to make the hub's own certificate")]
    Certificate(#[from] PkiError),
}

// === impl Hub ===

impl Hub {
    /// Binds the port. Nothing is accepted before [`run`](Self::run).
    ///
    /// # Errors
    /// When the port cannot be listened on, or there is no certificate to show.
    pub async fn bind(
        config: HubConfig,
        deps: Deps,
        registry: &mut Registry,
    ) -> Result<Self, BindError> {
        let config = Arc::new(config);
        let listen = |source| BindError::Listen {
            address: config.listen,
            source,
        };
        let tcp = TcpListener::bind(config.listen).await.map_err(listen)?;
        let address = tcp.local_addr().map_err(listen)?;
        let metrics = Metrics::register(registry);
        let draining = CancellationToken::new();
        let connections = Tasks::default();
        let trust = CallersTrust::new(
            deps.material.callers.clone(),
            deps.material.callers_file.clone(),
        );
        let decisions = Decisions::new(
            Arc::clone(&deps.reviews),
            trust.clone(),
            config.times.decision,
        );
        let decisions = Arc::new(decisions);
        let sessions = Arc::new(AgentSessions::new(metrics.clone()));
        let live = Arc::new(LiveStreams::new(config.limits, metrics.clone()));
        let joins = Arc::new(Joins::new(
            Arc::clone(&config),
            deps.clone(),
            metrics.clone(),
        ));
        let revocation = Arc::new(Revocation {
            live: Arc::clone(&live),
            decisions: Arc::clone(&decisions),
            inventory: deps.inventory.clone(),
            times: config.times,
        });
        let agents = Arc::new(Agents {
            sessions: Arc::clone(&sessions),
            inventory: deps.inventory.clone(),
            verifier: deps.material.agents.clone(),
            trust_domain: config.trust_domain.clone(),
            joins: Arc::clone(&joins),
            session: session_config(),
            times: config.times,
            stop: draining.clone(),
            tasks: connections.clone(),
        });
        let frontend = Arc::new(Frontend {
            reach: Reach {
                inventory: deps.inventory.clone(),
                decisions: Arc::clone(&decisions),
                sessions: Arc::clone(&sessions),
                live,
                dial: config.times.dial,
                stop: draining.clone(),
            },
            decisions,
            upstream: Upstream::new(
                Arc::clone(&deps.material.native_roots),
                config.times.upstream_tls,
            ),
            joins,
            metrics: metrics.clone(),
            limits: config.limits,
            times: config.times,
            tasks: connections.clone(),
        });
        let certificates = serving_certs(&config, &deps)?;
        let doors = Doors {
            tls: TlsConfigs::new(certificates, deps.material.agents.clone(), trust),
            agents: Arc::clone(&agents),
            frontend,
            handshakes: Arc::new(Handshakes::new(&config.limits)),
            metrics: metrics.clone(),
            times: config.times,
        };
        let members = MemberWriter {
            members: Arc::clone(&deps.members),
            sessions,
            inventory: deps.inventory.clone(),
        };
        Ok(Self {
            config,
            address,
            listener: Listener {
                tcp,
                doors: Arc::new(doors),
            },
            agents,
            revocation,
            members,
            material: deps.material,
            metrics,
            draining,
            connections,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop`, then drains: accepts nothing more, tells agents and callers, waits
    /// until open streams have ended, and cuts what is left at the deadline.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Self {
            config,
            address,
            listener,
            agents,
            revocation,
            members,
            ..
        } = self;
        tracing::info!(%address, domain = config.domain, "the hub listens");
        // What looks after streams works until the last one has ended.
        let tasks = Tasks::default();
        let (guard, watch) = (Arc::clone(&agents), Arc::clone(&revocation));
        tasks.spawn("sessions", |stop| guard.guard(stop));
        tasks.spawn("inventory", |stop| async move {
            watch.follow_inventory(stop).await
        });
        let watch = Arc::clone(&revocation);
        tasks.spawn(
            "callers",
            |stop| async move { watch.review_callers(stop).await },
        );
        tasks.spawn("members", |stop| members.run(stop));
        let (material, metrics) = (self.material, self.metrics);
        tasks.spawn("expiry", |stop| watch_expiry(material, metrics, stop));

        let accepting = listener.run(self.draining.clone(), &self.connections);
        tokio::pin!(accepting);
        tokio::select! {
            () = stop => {}
            () = tasks.stop().cancelled() => tracing::error!("a part of the hub has ended"),
            () = &mut accepting => {}
        }
        self.draining.cancel();
        accepting.await;
        let deadline = Instant::now() + config.times.drain;
        tracing::info!(streams = revocation.live.count(), "draining");
        agents.drain();
        revocation.drained(deadline).await;
        revocation.cut_all(RefusalCode::Draining);
        let left = self.connections.shutdown(LAST_GRACE).await;
        tasks.shutdown(LAST_GRACE).await;
        tracing::info!(left, "the hub has stopped");
    }
}

/// What a hub grants each agent; it serves many, so no one gets all of its memory.
fn session_config() -> strait_tunnel::Config {
    strait_tunnel::Config::default()
}

fn serving_certs(config: &HubConfig, deps: &Deps) -> Result<Arc<ServingCerts>, PkiError> {
    let inventory = deps.inventory.clone();
    let certs = ServingCerts::new(ServingConfig {
        files: deps.material.files.clone(),
        ca: deps.material.hub_ca.clone(),
        own_names: config.own_names(),
        serves: Arc::new(move |name| inventory.borrow().names.resolve(name).is_ok()),
        clock: Arc::new(clock::timestamp),
    })?;
    Ok(Arc::new(certs))
}

/// Tells when certificates end, and which sources are broken.
async fn watch_expiry(material: Material, metrics: Metrics, stop: CancellationToken) {
    let mut every = tokio::time::interval(std::time::Duration::from_secs(15));
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            _ = every.tick() => {}
        }
        let now = clock::timestamp();
        let expiry = |which, der: &[u8]| {
            if let Ok(validity) = Validity::of(der) {
                metrics.expiry(which, validity.seconds_left(now));
            }
        };
        expiry("agent-ca", material.agent_ca.get().certificate());
        metrics.reload_problem("agent-ca", material.agent_ca.problem().is_some());
        if let Some(ca) = &material.hub_ca {
            expiry("hub-ca", ca.get().certificate());
            metrics.reload_problem("hub-ca", ca.problem().is_some());
        }
        if let Some(file) = material.files.get().first() {
            expiry("serving-file", file.leaf());
        }
        metrics.reload_problem("serving-file", material.files.problem().is_some());
        metrics.reload_problem("callers", material.callers.problem().is_some());
        metrics.reload_problem("callers-file", material.callers_file.problem().is_some());
    }
}
