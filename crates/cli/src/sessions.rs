//! The sessions with agents, as the hubs tell them.

use strait_types::SessionStatus;

use crate::{cluster::Cluster, failure::Failure, proxy::Hub};

/// One session, and the hub that has it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    pub(crate) hub: String,
    pub(crate) session: SessionStatus,
}

/// Asks every address of the hub; those that do not answer are left out unless none does.
pub(crate) async fn ask(cluster: &Cluster) -> Result<Vec<Found>, Failure> {
    let hub = Hub::of(cluster).await?;
    let (mut found, mut answered, mut last) = (vec![], false, None);
    for status in hub.statuses().await {
        match status {
            Ok(status) => {
                answered = true;
                let hub = status.hub;
                found.extend(status.sessions.into_iter().map(|session| Found {
                    hub: hub.clone(),
                    session,
                }));
            }
            Err(error) => last = Some(error),
        }
    }
    match last {
        Some(error) if !answered => Err(anyhow::Error::new(error).into()),
        _ => Ok(once(found)),
    }
}

/// By cluster and age, each once: two addresses may lead to one hub.
fn once(mut found: Vec<Found>) -> Vec<Found> {
    let key = |f: &Found| {
        (
            f.session.cluster.clone(),
            f.session.since,
            f.session.source.clone(),
        )
    };
    found.sort_by_key(key);
    found.dedup_by(|a, b| {
        let same = |f: &Found| (f.session.instance.clone(), f.session.source.clone());
        same(a) == same(b)
    });
    found
}

/// Two digits that count, as people read a round trip.
pub(crate) fn milliseconds(micros: u64) -> String {
    match micros {
        0..10_000 => format!("{}.{} ms", micros / 1000, micros % 1000 / 100),
        _ => format!("{} ms", micros / 1000),
    }
}

/// The version of the agent's software.
pub(crate) fn version(session: &SessionStatus) -> &str {
    let software = session.software.as_str();
    software.strip_prefix("strait/").unwrap_or(software)
}
