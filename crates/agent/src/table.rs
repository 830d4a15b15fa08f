//! What the hub says is exposed, and the streams that lean on it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use strait_types::{ExposureTable, Port, PortChoice, Refusal, RefusalCode};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How long an OPEN waits for the table it relies on. Both travel in one session, the table first,
/// so this is never needed but for a hub that forgets to send it.
const PATIENCE: Duration = Duration::from_secs(2);

/// The table of one session, and who leans on which of its lines.
#[derive(Clone, Debug)]
pub(crate) struct Table(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    now: watch::Sender<Arc<ExposureTable>>,
    leaning: Mutex<BTreeMap<u64, Leaning>>,
    next: AtomicU64,
}

#[derive(Debug)]
struct Leaning {
    namespace: Box<str>,
    service: Box<str>,
    port: PortChoice,
    /// What [`PortChoice::Default`] came to.
    chosen: Option<(u16, Box<str>)>,
    revoked: CancellationToken,
}

/// A stream that goes on as long as the table has its service.
#[derive(Debug)]
#[must_use = "dropping it forgets the stream"]
pub(crate) struct Lean {
    shared: Arc<Shared>,
    id: u64,
    revoked: CancellationToken,
}

// === impl Table ===

impl Table {
    /// Nothing is exposed yet.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Shared {
            now: watch::Sender::default(),
            leaning: Mutex::default(),
            next: AtomicU64::new(0),
        }))
    }

    /// Puts a table in place of the one before, and revokes what it does not have any more. An
    /// older generation than the present one is dropped.
    pub(crate) fn replace(&self, table: ExposureTable) {
        let table = Arc::new(table);
        let newer = self.0.now.send_if_modified(|now| {
            let newer = table.generation > now.generation;
            if newer {
                *now = table.clone();
            }
            newer
        });
        if !newer {
            return;
        }
        for leaning in self.0.leaning.lock().values() {
            if !leaning.still_in(&table) {
                leaning.revoked.cancel();
            }
        }
    }

    /// Succeeds when the service's port is exposed, judged by the table of `generation` or a later
    /// one. The answer is registered before it is given, so that a table that arrives meanwhile
    /// revokes it.
    pub(crate) async fn lean(
        &self,
        generation: u64,
        namespace: &str,
        service: &str,
        port: &PortChoice,
    ) -> Result<Lean, Refusal> {
        let mut now = self.0.now.subscribe();
        let has_it = now.wait_for(|table| table.generation >= generation);
        if !matches!(tokio::time::timeout(PATIENCE, has_it).await, Ok(Ok(_))) {
            return Err(Refusal::new(
                RefusalCode::AgentRefused,
                "the agent was not told what is exposed",
            ));
        }
        let lean = self.register(namespace, service, port);
        let table = self.0.now.borrow().clone();
        if lean.is_in(&table) {
            Ok(lean)
        } else {
            let name = format!("{namespace}/{service}");
            Err(Refusal::new(
                RefusalCode::EntrypointNotFound,
                format!("the agent was not told that {name} port {port} is exposed"),
            ))
        }
    }

    fn register(&self, namespace: &str, service: &str, port: &PortChoice) -> Lean {
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        let revoked = CancellationToken::new();
        let leaning = Leaning {
            namespace: namespace.into(),
            service: service.into(),
            port: port.clone(),
            chosen: None,
            revoked: revoked.clone(),
        };
        self.0.leaning.lock().insert(id, leaning);
        Lean {
            shared: self.0.clone(),
            id,
            revoked,
        }
    }
}

// === impl Lean ===

impl Lean {
    /// Tells which port the default came to; false when that port is not exposed.
    pub(crate) fn chose(&self, number: u16, name: &str) -> bool {
        if let Some(leaning) = self.shared.leaning.lock().get_mut(&self.id) {
            leaning.chosen = Some((number, name.into()));
        }
        self.is_in(&self.shared.now.borrow().clone())
    }

    /// Returns when the service is not exposed any more. Cancel safe.
    pub(crate) async fn revoked(&self) {
        self.revoked.cancelled().await;
    }

    fn is_in(&self, table: &ExposureTable) -> bool {
        self.shared
            .leaning
            .lock()
            .get(&self.id)
            .is_some_and(|leaning| leaning.still_in(table))
    }
}

impl Drop for Lean {
    fn drop(&mut self) {
        self.shared.leaning.lock().remove(&self.id);
    }
}

// === impl Leaning ===

impl Leaning {
    fn still_in(&self, table: &ExposureTable) -> bool {
        let Some(exposed) = table.find(&self.namespace, &self.service) else {
            return false;
        };
        let lists =
            |port: &str| exposed.ports.is_empty() || exposed.ports.iter().any(|p| p == port);
        match (&self.port, &self.chosen) {
            // A port may be listed by its number or its name: once both are known, either counts.
            (_, Some((number, name))) => {
                lists(&number.to_string()) || (!name.is_empty() && lists(name))
            }
            (PortChoice::Default, None) => true,
            (PortChoice::Port(Port::Number(_) | Port::Name(_)), None) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use strait_types::ExposedService;

    use super::*;

    fn table(generation: u64, services: &[(&str, &[&str])]) -> ExposureTable {
        let services = services
            .iter()
            .map(|(service, ports)| ExposedService {
                namespace: "default".to_owned(),
                service: (*service).to_owned(),
                ports: ports.iter().map(|port| (*port).to_owned()).collect(),
            })
            .collect();
        ExposureTable {
            generation,
            services,
        }
    }

    fn port(text: &str) -> PortChoice {
        PortChoice::Port(text.parse().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_is_in_the_table_is_dialled() {
        let exposed = Table::new();
        exposed.replace(table(1, &[("search", &[]), ("web", &["80", "admin"])]));
        let lean = |service, port| exposed.lean(1, "default", service, port);
        let https = port("443");
        assert!(lean("search", &https).await.is_ok());
        let other = lean("other", &https).await.unwrap_err();
        assert_eq!(other.code, RefusalCode::EntrypointNotFound);

        let web = lean("web", &PortChoice::Default).await.unwrap();
        assert!(web.chose(80, "http"));
        assert!(web.chose(9000, "admin"));
        assert!(!web.chose(443, "https"));
    }

    #[tokio::test(start_paused = true)]
    async fn an_open_waits_for_the_table_it_relies_on() {
        let exposed = Table::new();
        let early = exposed.clone();
        let (outcome, ()) = tokio::join!(
            async move {
                early
                    .lean(3, "default", "search", &PortChoice::Default)
                    .await
            },
            async {
                tokio::task::yield_now().await;
                exposed.replace(table(3, &[("search", &[])]));
            }
        );
        assert!(outcome.is_ok());
        let never = exposed
            .lean(4, "default", "search", &PortChoice::Default)
            .await
            .unwrap_err();
        assert_eq!(never.code, RefusalCode::AgentRefused);
    }

    #[tokio::test(start_paused = true)]
    async fn a_removed_service_cuts_its_streams_and_no_others() {
        let exposed = Table::new();
        exposed.replace(table(1, &[("search", &[]), ("web", &[])]));
        let search = exposed
            .lean(1, "default", "search", &PortChoice::Default)
            .await
            .unwrap();
        let web = exposed
            .lean(1, "default", "web", &PortChoice::Default)
            .await
            .unwrap();
        exposed.replace(table(2, &[("web", &[])]));
        search.revoked().await;
        assert!(!web.revoked.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn an_older_table_changes_nothing() {
        let exposed = Table::new();
        exposed.replace(table(2, &[("search", &[])]));
        exposed.replace(table(1, &[]));
        assert!(
            exposed
                .lean(2, "default", "search", &PortChoice::Default)
                .await
                .is_ok()
        );
    }
}
