//! What one session's hub says is exposed here.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use strait_types::{ExposedService, ExposureTable, Refusal, RefusalCode};
use tokio::{sync::watch, time::timeout};

use crate::{port::is_exposed, services::ServicePort};

/// How long an OPEN may wait for the table that it relies on.
const WAIT: Duration = Duration::from_secs(2);

/// The newest table of one session. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    newest: watch::Sender<Arc<Indexed>>,
    /// The table of the session that took the place of this one, whose hub sends it no tables any
    /// more.
    successor: watch::Sender<Option<Self>>,
}

#[derive(Debug, Default)]
struct Indexed {
    /// `None` before the first table.
    generation: Option<u64>,
    services: BTreeMap<(String, String), ExposedService>,
}

// === impl Table ===

impl Table {
    /// No table yet.
    pub(crate) fn new() -> Self {
        Self {
            newest: watch::Sender::new(Arc::default()),
            successor: watch::Sender::new(None),
        }
    }

    /// From now on the streams that rely on this table go by another one.
    pub(crate) fn replaced_by(&self, successor: Self) {
        self.successor.send_replace(Some(successor));
    }

    /// Takes the hub's next table, unless it is older than the one that is there.
    pub(crate) fn replace(&self, table: ExposureTable) {
        let generation = Some(table.generation);
        let key = |s: &ExposedService| (s.namespace.clone(), s.service.clone());
        let services = table.services.into_iter().map(|s| (key(&s), s)).collect();
        self.newest.send_if_modified(|current| {
            let newer = current.generation <= generation;
            if newer {
                *current = Arc::new(Indexed {
                    generation,
                    services,
                });
            }
            newer
        });
    }

    /// What is exposed of a Service, by a table of at least this generation.
    pub(crate) async fn find(
        &self,
        generation: u64,
        namespace: &str,
        service: &str,
    ) -> Result<ExposedService, Refusal> {
        let mut tables = self.newest.subscribe();
        let new_enough = tables.wait_for(|t| t.generation.is_some_and(|have| have >= generation));
        let table = match timeout(WAIT, new_enough).await {
            Ok(Ok(table)) => Arc::clone(&table),
            Ok(Err(watch::error::RecvError { .. })) | Err(_) => {
                let message = "the hub has not told the agent what is exposed";
                return Err(Refusal::new(RefusalCode::Unavailable, message));
            }
        };
        let found = table
            .services
            .get(&(namespace.to_owned(), service.to_owned()));
        found.cloned().ok_or_else(|| {
            let message = format!("{namespace}/{service} is not exposed");
            Refusal::new(RefusalCode::EntrypointNotFound, message)
        })
    }

    /// Waits until this port of a Service is not exposed any more.
    pub(crate) async fn revoked(&self, namespace: &str, service: &str, port: &ServicePort) {
        let mut table = self.clone();
        loop {
            let mut successors = table.successor.subscribe();
            let next = tokio::select! {
                biased;
                next = successors.wait_for(Option::is_some) => next.ok().and_then(|n| n.clone()),
                () = table.took_away(namespace, service, port) => return,
            };
            if let Some(next) = next {
                table = next;
            }
        }
    }

    /// Waits until this table, once there is one, does not expose this port.
    async fn took_away(&self, namespace: &str, service: &str, port: &ServicePort) {
        let key = (namespace.to_owned(), service.to_owned());
        let gone = |table: &Arc<Indexed>| {
            let exposed = table.services.get(&key);
            table.generation.is_some() && exposed.is_none_or(|exposed| !is_exposed(exposed, port))
        };
        let is_gone = self.newest.subscribe().wait_for(gone).await.is_ok();
        if !is_gone {
            // The sender is part of `self`, so this does not happen; and then nothing is revoked.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_open_waits_for_the_table_it_relies_on() {
        let table = Table::new();
        table.replace(exposing(1, &[]));
        let waiting = table.find(2, "default", "search");
        tokio::pin!(waiting);
        let early = timeout(Duration::from_secs(1), &mut waiting).await;
        assert!(early.is_err(), "it did not wait");
        table.replace(exposing(2, &[]));
        assert_eq!(waiting.await.unwrap().service, "search");
    }

    #[tokio::test(start_paused = true)]
    async fn an_open_does_not_wait_for_ever() {
        let table = Table::new();
        let refusal = table.find(0, "default", "search").await.unwrap_err();
        assert_eq!(refusal.code, RefusalCode::Unavailable);
        table.replace(exposing(1, &[]));
        assert!(table.find(0, "default", "search").await.is_ok());
        assert_eq!(
            table.find(9, "default", "search").await.unwrap_err().code,
            RefusalCode::Unavailable
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_older_table_does_not_undo_a_newer_one() {
        let table = Table::new();
        table.replace(ExposureTable {
            generation: 5,
            services: vec![],
        });
        table.replace(exposing(4, &[]));
        let refusal = table.find(1, "default", "search").await.unwrap_err();
        assert_eq!(refusal.code, RefusalCode::EntrypointNotFound);
    }

    #[tokio::test(start_paused = true)]
    async fn a_port_is_revoked_with_its_service_or_by_itself() {
        let https = ServicePort {
            number: 443,
            name: "https".into(),
            app_protocol: String::new(),
        };
        for (generation, after) in [
            (
                2,
                ExposureTable {
                    generation: 2,
                    services: vec![],
                },
            ),
            (2, exposing(2, &["80"])),
        ] {
            let table = Table::new();
            table.replace(exposing(1, &[]));
            let revoked = table.revoked("default", "search", &https);
            tokio::pin!(revoked);
            table.replace(exposing(1, &["https"]));
            assert!(timeout(Duration::from_secs(1), &mut revoked).await.is_err());
            table.replace(after);
            revoked.await;
            assert_eq!(table.newest.borrow().generation, Some(generation));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_streams_of_a_replaced_session_go_by_the_table_of_the_next() {
        let http = ServicePort {
            number: 80,
            ..ServicePort::default()
        };
        let (first, second, third) = (Table::new(), Table::new(), Table::new());
        first.replace(exposing(7, &[]));
        let revoked = first.revoked("default", "search", &http);
        tokio::pin!(revoked);
        assert!(timeout(Duration::from_secs(1), &mut revoked).await.is_err());
        // The next session has no table at first, which takes nothing away.
        first.replaced_by(second.clone());
        second.replaced_by(third.clone());
        assert!(timeout(Duration::from_secs(1), &mut revoked).await.is_err());
        third.replace(exposing(1, &["80"]));
        assert!(timeout(Duration::from_secs(1), &mut revoked).await.is_err());
        third.replace(exposing(2, &["443"]));
        revoked.await;
    }

    fn exposing(generation: u64, ports: &[&str]) -> ExposureTable {
        let ports = ports.iter().map(|p| (*p).to_owned()).collect();
        let service = ExposedService {
            namespace: "default".into(),
            service: "search".into(),
            ports,
        };
        ExposureTable {
            generation,
            services: vec![service],
        }
    }
}
