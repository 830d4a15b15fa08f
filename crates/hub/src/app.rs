//! Binds everything, then runs it.

use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use prometheus_client::registry::Registry;
use strait_pki::{PkiError, ServingCerts, ServingConfig};
use strait_runtime::{Tasks, clock};
use strait_types::RefusalCode;
use thiserror::Error;
use tokio::{net::TcpListener, sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    agent_sessions::AgentSessions,
    agents::Agents,
    callers_trust::CallersTrust,
    certificate_watch::CertificateWatch,
    config::HubConfig,
    decisions::Decisions,
    deps::Deps,
    frontend::{Frontend, Wrapped},
    join::Joins,
    listener::{Doors, Listener},
    live::LiveStreams,
    local_socket::LocalSocket,
    member_writer::MemberWriter,
    metrics::Metrics,
    reach::Reach,
    revocation::Revocation,
    slots::Slots,
    tls_configs::TlsConfigs,
    upstream::Upstream,
};

/// How long connections get to notice that they were cut, after the drain.
const LAST_GRACE: std::time::Duration = std::time::Duration::from_secs(2);

/// How many connections that came in a WebSocket may wait to be taken.
const WRAPPED: usize = 64;

/// The hub: accepts agents and callers on one port.
#[derive(Debug)]
pub struct Hub {
    config: Arc<HubConfig>,
    address: SocketAddr,
    listener: Listener,
    agents: Arc<Agents>,
    revocation: Arc<Revocation>,
    members: MemberWriter,
    certificates: CertificateWatch,
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
    /// The local socket cannot be listened on.
    #[error("failed to listen on the socket {}", path.display())]
    LocalSocket {
        /// Its path.
        path: std::path::PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There is no certificate to show.
    #[error("failed to make the hub's own certificate")]
    Certificate(#[from] PkiError),
}

/// A task that the hub cannot do without has ended; the log says which.
#[derive(Clone, Copy, Debug, Error)]
#[error("a part of the hub has ended")]
pub struct PartEnded;

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
        let tcp = listen_on(config.listen).await.map_err(listen)?;
        let address = tcp.local_addr().map_err(listen)?;
        let local = bind_local(&config).await?;
        let parts = Parts::new(Arc::clone(&config), deps, Metrics::register(registry));
        let agents = parts.agents();
        let certificates = serving_certs(&config, &parts.deps)?;
        let (wrap, wrapped) = mpsc::channel(WRAPPED);
        let doors = parts.doors(certificates, Arc::clone(&agents), wrap);
        Ok(Self {
            config,
            address,
            listener: Listener {
                tcp,
                local,
                wrapped,
                doors: Arc::new(doors),
            },
            agents,
            revocation: parts.revocation(),
            members: parts.member_writer(),
            certificates: parts.certificate_watch(),
            draining: parts.draining,
            connections: parts.connections,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop`, then drains: accepts nothing more, tells agents and callers, waits
    /// until open streams have ended, and cuts what is left at the deadline.
    ///
    /// # Errors
    /// When it ended because one of its parts did, and not because it was asked to.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), PartEnded> {
        let Self {
            config,
            address,
            listener,
            agents,
            revocation,
            members,
            certificates,
            draining,
            connections,
        } = self;
        tracing::info!(%address, domain = config.domain, "the hub listens");
        // What looks after streams works until the last one has ended.
        let tasks = Tasks::default();
        let (guard, watch) = (Arc::clone(&agents), Arc::clone(&revocation));
        tasks.spawn("sessions", |stop| guard.guard(stop));
        tasks.spawn("inventory", |stop| watch.follow_inventory(stop));
        let watch = Arc::clone(&revocation);
        tasks.spawn(
            "callers",
            |stop| async move { watch.review_callers(stop).await },
        );
        tasks.spawn("members", |stop| members.run(stop));
        tasks.spawn("certificates", |stop| certificates.run(stop));

        let accepting = listener.run(draining.clone(), &connections);
        tokio::pin!(accepting);
        let ended = tokio::select! {
            biased;
            () = stop => Ok(()),
            () = tasks.stop().cancelled() => Err(PartEnded),
            () = &mut accepting => Err(PartEnded),
        };
        draining.cancel();
        accepting.await;
        let deadline = Instant::now() + config.times.drain;
        tracing::info!(streams = revocation.live.count(), "draining");
        agents.drain();
        connections.finished_by(deadline).await;
        revocation.cut_all(RefusalCode::Draining);
        let left = connections.shutdown(LAST_GRACE).await;
        tasks.shutdown(LAST_GRACE).await;
        tracing::info!(left, "the hub has stopped");
        ended
    }
}

/// What the parts of a hub share.
struct Parts {
    config: Arc<HubConfig>,
    deps: Deps,
    metrics: Metrics,
    draining: CancellationToken,
    connections: Tasks,
    trust: CallersTrust,
    decisions: Arc<Decisions>,
    sessions: Arc<AgentSessions>,
    live: Arc<LiveStreams>,
    joins: Arc<Joins>,
}

// === impl Parts ===

impl Parts {
    fn new(config: Arc<HubConfig>, deps: Deps, metrics: Metrics) -> Self {
        let material = &deps.material;
        let trust = CallersTrust::new(material.callers.clone(), material.callers_file.clone());
        let reviews = Arc::clone(&deps.reviews);
        let decisions = Decisions::new(reviews, trust.clone(), config.times.decision);
        Self {
            draining: CancellationToken::new(),
            connections: Tasks::default(),
            trust,
            decisions: Arc::new(decisions),
            sessions: Arc::new(AgentSessions::new(config.limits, metrics.clone())),
            live: Arc::new(LiveStreams::new(config.limits, metrics.clone())),
            joins: Arc::new(Joins::new(
                Arc::clone(&config),
                deps.clone(),
                metrics.clone(),
            )),
            config,
            deps,
            metrics,
        }
    }

    fn agents(&self) -> Arc<Agents> {
        Arc::new(Agents {
            sessions: Arc::clone(&self.sessions),
            inventory: self.deps.inventory.clone(),
            verifier: self.deps.material.agents.clone(),
            trust_domain: self.config.trust_domain.clone(),
            joins: Arc::clone(&self.joins),
            session: strait_tunnel::Config::default(),
            times: self.config.times,
            stop: self.draining.clone(),
            tasks: self.connections.clone(),
        })
    }

    fn frontend(&self, wrapped: mpsc::Sender<Wrapped>) -> Frontend {
        let times = self.config.times;
        let roots = Arc::clone(&self.deps.material.native_roots);
        Frontend {
            reach: Reach {
                inventory: self.deps.inventory.clone(),
                decisions: Arc::clone(&self.decisions),
                sessions: Arc::clone(&self.sessions),
                live: Arc::clone(&self.live),
                dial: times.dial,
                comeback: times.comeback,
                stop: self.draining.clone(),
            },
            decisions: Arc::clone(&self.decisions),
            upstream: Upstream::new(roots, times.upstream_tls),
            joins: Arc::clone(&self.joins),
            metrics: self.metrics.clone(),
            own_names: self.config.own_names(),
            name: self.config.name.clone(),
            limits: self.config.limits,
            times,
            tasks: self.connections.clone(),
            wrapped,
        }
    }

    fn doors(
        &self,
        certificates: Arc<ServingCerts>,
        agents: Arc<Agents>,
        wrapped: mpsc::Sender<Wrapped>,
    ) -> Doors {
        let verifier = self.deps.material.agents.clone();
        Doors {
            tls: TlsConfigs::new(certificates, verifier, self.trust.clone()),
            agents,
            frontend: Arc::new(self.frontend(wrapped)),
            handshakes: Arc::new(Slots::new(self.config.limits.handshakes)),
            callers: Arc::new(Slots::new(self.config.limits.connections)),
            // All of them are one source, which gets a quarter.
            locals: Arc::new(Slots::new(self.config.limits.connections * 4)),
            metrics: self.metrics.clone(),
            times: self.config.times,
        }
    }

    fn revocation(&self) -> Arc<Revocation> {
        Arc::new(Revocation {
            live: Arc::clone(&self.live),
            decisions: Arc::clone(&self.decisions),
            inventory: self.deps.inventory.clone(),
            times: self.config.times,
        })
    }

    fn certificate_watch(&self) -> CertificateWatch {
        CertificateWatch {
            material: self.deps.material.clone(),
            metrics: self.metrics.clone(),
            notices: Arc::clone(&self.deps.notices),
            every: self.config.times.certificates,
            has_files: self.config.serving_files.is_some() || self.config.callers_ca.is_some(),
        }
    }

    fn member_writer(&self) -> MemberWriter {
        MemberWriter {
            members: Arc::clone(&self.deps.members),
            sessions: Arc::clone(&self.sessions),
            inventory: self.deps.inventory.clone(),
        }
    }
}

/// Listens; where there is no IPv6, `[::]` means every IPv4 address.
async fn listen_on(address: SocketAddr) -> std::io::Result<TcpListener> {
    let bound = TcpListener::bind(address).await;
    if bound.is_err() && address.ip() == Ipv6Addr::UNSPECIFIED {
        return TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await;
    }
    bound
}

async fn bind_local(config: &HubConfig) -> Result<Option<LocalSocket>, BindError> {
    let Some(path) = &config.local_socket else {
        return Ok(None);
    };
    let bound = LocalSocket::bind(path, &config.local_user).await;
    bound.map(Some).map_err(|source| BindError::LocalSocket {
        path: path.clone(),
        source,
    })
}

fn serving_certs(config: &HubConfig, deps: &Deps) -> Result<Arc<ServingCerts>, PkiError> {
    let inventory = deps.inventory.clone();
    let certs = ServingCerts::new(ServingConfig {
        files: deps.material.files.clone(),
        ca: deps.material.hub_ca.clone(),
        own_names: config.own_names(),
        serves: Arc::new(move |name| inventory.borrow().names.leads(name)),
        clock: Arc::new(clock::timestamp),
    })?;
    Ok(Arc::new(certs))
}
