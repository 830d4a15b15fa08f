//! An agent that does what a test tells it.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use parking_lot::Mutex;
use strait_pki::{
    AgentKey, AgentName, AgentRequest, Bundle, Ca, Identity, TrustDomain, session_client_config,
};
use strait_runtime::{Tasks, clock};
use strait_tunnel::{Carrier, Config, Request, Session, Side, splice};
use strait_types::{AcceptDetail, ExposureTable, RefusalCode, Target};
use tokio::{io::AsyncReadExt, net::TcpStream, sync::watch};
use tokio_rustls::TlsConnector;

use crate::world::{DAY, World, soon, uid};

/// An agent with a session to the hub.
pub(crate) struct Agent {
    pub(crate) session: Session,
    state: Arc<State>,
    /// The newest table of what is exposed.
    tables: watch::Receiver<ExposureTable>,
}

#[derive(Debug)]
struct State {
    routes: Mutex<BTreeMap<String, Route>>,
    opened: Mutex<Vec<(String, String, u64)>>,
    tables: watch::Sender<ExposureTable>,
    probes: watch::Sender<bool>,
}

/// What the agent does about a target.
#[derive(Clone, Debug)]
pub(crate) enum Route {
    /// Connects there, and says this about the port.
    To(SocketAddr, AcceptDetail),
    /// Refuses.
    Refuse(RefusalCode, &'static str),
    /// Never answers.
    Silence,
}

// === impl Agent ===

impl Agent {
    /// Joins the hub as a cluster.
    pub(crate) async fn connect(world: &World, cluster: &str) -> Self {
        let identity = identity(&world.agent_ca, cluster);
        soon("a session", Self::try_connect(world, &identity))
            .await
            .unwrap()
    }

    /// The same with this certificate.
    pub(crate) async fn try_connect(
        world: &World,
        identity: &Identity,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let tcp = TcpStream::connect(world.address).await?;
        Self::over(world, identity, tcp).await
    }

    /// The same through this connection to the hub's port.
    pub(crate) async fn over(
        world: &World,
        identity: &Identity,
        io: impl Carrier,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let roots = Bundle::from_pem(world.hub_ca.certificate_pem().as_bytes())?;
        let config = session_client_config(Arc::clone(roots.roots()), identity)?;
        let name = rustls_pki_types::ServerName::try_from("hub.test")?;
        let connector = TlsConnector::from(Arc::new(config));
        let tls = connector.connect(name, io).await?;
        let config = Config {
            software: "strait/9.9.9".into(),
            ..Config::default()
        };
        let (session, mut incoming, driver) = Session::establish(tls, Side::Dialer, config).await?;
        let (sender, tables) = watch::channel(ExposureTable::default());
        let state = Arc::new(State {
            routes: Mutex::default(),
            opened: Mutex::default(),
            tables: sender,
            probes: watch::Sender::new(true),
        });
        world.tasks.spawn_one(async move {
            driver.run().await;
        });
        let (answering, tasks) = (Arc::clone(&state), world.tasks.clone());
        world.tasks.spawn_one(async move {
            while let Some(request) = incoming.next().await {
                tasks.spawn_one(Arc::clone(&answering).answer(request, tasks.clone()));
            }
        });
        Ok(Self {
            session,
            state,
            tables,
        })
    }

    /// What to do about `service.namespace:port`, where the port is as the hub asks for it.
    pub(crate) fn route(&self, target: &str, route: Route) {
        self.state
            .routes
            .lock()
            .insert(format!("tcp:{target}"), route);
    }

    /// Connects `target` to a service that listens here; the port is that of the target.
    pub(crate) fn serve(&self, target: &str, service: SocketAddr, detail: &str) {
        self.route(target, Route::To(service, AcceptDetail::decode(detail)));
    }

    /// Whether probes come back from now on.
    pub(crate) fn probes(&self, good: bool) {
        self.state.probes.send_replace(good);
    }

    /// Every OPEN of a service so far: target, caller, generation.
    pub(crate) fn opened(&self) -> Vec<(String, String, u64)> {
        self.state.opened.lock().clone()
    }

    /// Waits for a table that has so many services.
    pub(crate) async fn table(&mut self, services: usize) -> ExposureTable {
        let table = self
            .tables
            .wait_for(|table| table.services.len() == services);
        soon("a table", table).await.unwrap().clone()
    }
}

// === impl State ===

impl State {
    async fn answer(self: Arc<Self>, request: Request, tasks: Tasks) {
        let open = request.open().clone();
        match open.target.parse().unwrap() {
            Target::Table => self.read_tables(request).await,
            Target::Probe if *self.probes.borrow() => drop(request.accept("")),
            Target::Probe => request.reject(RefusalCode::DialFailed.wire(), "no API server"),
            Target::Renew => panic!("the hub does not renew"),
            Target::Tcp { .. } => {
                let seen = (open.target.clone(), open.caller, open.policy_generation);
                self.opened.lock().push(seen);
                let route = self.routes.lock().get(&open.target).cloned();
                dial(request, route, &tasks).await;
            }
        }
    }

    async fn read_tables(&self, request: Request) {
        let mut stream = request.accept("").unwrap();
        while let Ok(len) = stream.read_u32().await {
            let mut json = vec![0; usize::try_from(len).unwrap()];
            stream.read_exact(&mut json).await.unwrap();
            self.tables
                .send_replace(serde_json::from_slice(&json).unwrap());
        }
    }
}

/// A certificate of an authority for agents, for the first member of that name.
pub(crate) fn identity(ca: &Ca, cluster: &str) -> Identity {
    let key = AgentKey::generate().unwrap();
    let request = AgentRequest::from_pem(&key.csr_pem).unwrap();
    let name = AgentName {
        cluster: cluster.parse().unwrap(),
        member: uid(cluster, 1),
    };
    let (domain, now) = (TrustDomain::default(), clock::timestamp());
    let issued = ca.issue_agent(&request, &name, &domain, DAY, now).unwrap();
    Identity::from_pem(issued.chain_pem.as_bytes(), key.key_pem.reveal().as_bytes()).unwrap()
}

async fn dial(request: Request, route: Option<Route>, tasks: &Tasks) {
    match route {
        Some(Route::To(address, detail)) => {
            let tcp = TcpStream::connect(address).await.unwrap();
            if let Ok(stream) = request.accept(&detail.encode()) {
                tasks.spawn_one(async move {
                    splice(stream, tcp).await;
                });
            }
        }
        Some(Route::Refuse(code, text)) => request.reject(code.wire(), text),
        Some(Route::Silence) => request.cancelled().await,
        None => request.reject(
            RefusalCode::ServiceNotFound.wire(),
            "there is no such Service",
        ),
    }
}
