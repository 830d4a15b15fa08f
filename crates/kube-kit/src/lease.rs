//! Leadership as a value that writers must hold.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use strait_runtime::clock;
use thiserror::Error;
use tokio::{sync::watch, time::error::Elapsed};
use tokio_util::sync::CancellationToken;

/// Whose lease, and for how long. The durations are client-go's defaults for leader election.
#[derive(Clone, Debug)]
pub struct LeaseConfig {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// Who asks: unique among the replicas, the pod's name for instance.
    pub identity: String,
}

/// A leader that has not renewed for this long may be replaced.
const DURATION: SignedDuration = SignedDuration::from_secs(15);
/// How often the leader renews and the others look.
const PERIOD: Duration = Duration::from_secs(2);

/// How long the API server may take to answer. A leader stops leading within this and [`PERIOD`]
/// after two thirds of the lease's duration, which is before the lease ends.
const ANSWER: Duration = Duration::from_secs(2);

/// Whether this process leads. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Leadership(watch::Receiver<bool>);

/// Why a lease was neither renewed nor seen to be another's.
#[derive(Debug, Error)]
enum TurnError {
    #[error("the API server does not answer")]
    Silent(#[from] Elapsed),
    #[error("the API server refuses or cannot be reached")]
    Refused(#[from] kube::Error),
}

/// What to do about a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Create,
    Take,
    Renew,
    Wait,
}

/// Takes part in the election until `stop`; gives the lease back at the end, so that another
/// replica leads at once.
///
/// Guarantees: of two processes with different identities at most one is told that it leads, as
/// long as their clocks differ by less than the lease's duration. A leader that cannot renew for
/// two thirds of the duration stops leading by itself.
pub fn elect(
    client: Client,
    config: LeaseConfig,
    stop: CancellationToken,
) -> (Leadership, impl Future<Output = ()> + Send + 'static) {
    let (leads, receiver) = watch::channel(false);
    let work = async move {
        let api: Api<Lease> = Api::namespaced(client, &config.namespace);
        let mut renewed = clock::timestamp();
        loop {
            // Counted from before the request: the lease is not older than we believe.
            let asked = clock::timestamp();
            match answered(turn(&api, &config)).await {
                Ok(led) => {
                    renewed = asked;
                    announce(&leads, led);
                }
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(lease = config.name, error, "the lease could not be renewed");
                }
            }
            if clock::timestamp().duration_since(renewed) > DURATION * 2 / 3 {
                announce(&leads, false);
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = tokio::time::sleep(PERIOD) => {}
            }
        }
        if *leads.borrow() {
            release(&api, &config).await;
        }
        announce(&leads, false);
    };
    (Leadership(receiver), work)
}

// === impl Leadership ===

impl Leadership {
    /// Whether this process leads now.
    #[must_use]
    pub fn holds(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it leads; false when the election has ended.
    pub async fn acquired(&mut self) -> bool {
        self.0.wait_for(|leads| *leads).await.is_ok()
    }

    /// Waits until it does not lead any more.
    pub async fn lost(&mut self) {
        let _ = self.0.wait_for(|leads| !*leads).await;
    }
}

impl From<watch::Receiver<bool>> for Leadership {
    /// Leads while the channel says so: for tests, and for processes that have no rivals.
    fn from(leads: watch::Receiver<bool>) -> Self {
        Self(leads)
    }
}

fn announce(leads: &watch::Sender<bool>, now: bool) {
    let changed = leads.send_if_modified(|before| std::mem::replace(before, now) != now);
    if changed {
        tracing::info!(leading = now, "leadership changed");
    }
}

/// An answer in time, or why there is none.
async fn answered(
    turn: impl Future<Output = Result<bool, kube::Error>>,
) -> Result<bool, TurnError> {
    Ok(tokio::time::timeout(ANSWER, turn).await??)
}

async fn turn(api: &Api<Lease>, config: &LeaseConfig) -> Result<bool, kube::Error> {
    let found = api.get_opt(&config.name).await?;
    let now = clock::timestamp();
    let spec = found.as_ref().and_then(|lease| lease.spec.as_ref());
    let written = match decide(found.is_some(), spec, &config.identity, now) {
        Step::Wait => return Ok(false),
        Step::Create => {
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(config.name.clone()),
                    ..Default::default()
                },
                spec: Some(claim(config, spec, now)),
            };
            api.create(&PostParams::default(), &lease).await
        }
        Step::Take | Step::Renew => {
            let version = found
                .as_ref()
                .and_then(|lease| lease.metadata.resource_version.clone());
            let patch = serde_json::json!({
                "metadata": {"resourceVersion": version},
                "spec": claim(config, spec, now),
            });
            api.patch(&config.name, &PatchParams::default(), &Patch::Merge(patch))
                .await
        }
    };
    match written {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}

fn decide(exists: bool, spec: Option<&LeaseSpec>, me: &str, now: Timestamp) -> Step {
    let Some(spec) = spec.filter(|_| exists) else {
        return if exists { Step::Take } else { Step::Create };
    };
    let holder = spec.holder_identity.as_deref().unwrap_or_default();
    if holder == me {
        return Step::Renew;
    }
    let alive = spec
        .renew_time
        .as_ref()
        .is_some_and(|renewed| now.duration_since(renewed.0) < DURATION);
    if !holder.is_empty() && alive {
        Step::Wait
    } else {
        Step::Take
    }
}

fn claim(config: &LeaseConfig, before: Option<&LeaseSpec>, now: Timestamp) -> LeaseSpec {
    let mine =
        before.filter(|spec| spec.holder_identity.as_deref() == Some(config.identity.as_str()));
    let acquired = mine.and_then(|spec| spec.acquire_time.clone());
    let transitions = before
        .and_then(|spec| spec.lease_transitions)
        .unwrap_or_default();
    LeaseSpec {
        holder_identity: Some(config.identity.clone()),
        lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
        acquire_time: Some(acquired.unwrap_or(MicroTime(now))),
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(transitions + i32::from(mine.is_none())),
        ..LeaseSpec::default()
    }
}

async fn release(api: &Api<Lease>, config: &LeaseConfig) {
    let patch = serde_json::json!({"spec": {"holderIdentity": ""}});
    let released = api
        .patch(&config.name, &PatchParams::default(), &Patch::Merge(patch))
        .await;
    if let Err(error) = released {
        let error = &error as &dyn std::error::Error;
        tracing::warn!(
            lease = config.name,
            error,
            "the lease could not be given back"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(by: &str, renewed: i64) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(by.to_owned()),
            renew_time: Some(MicroTime(Timestamp::from_second(renewed).unwrap())),
            ..LeaseSpec::default()
        }
    }

    #[test]
    fn a_lease_is_taken_only_when_it_is_free_or_dead() {
        let now = Timestamp::from_second(100).unwrap();
        assert_eq!(decide(false, None, "me", now), Step::Create);
        assert_eq!(decide(true, None, "me", now), Step::Take);
        assert_eq!(decide(true, Some(&held("me", 10)), "me", now), Step::Renew);
        assert_eq!(decide(true, Some(&held("you", 90)), "me", now), Step::Wait);
        assert_eq!(decide(true, Some(&held("you", 80)), "me", now), Step::Take);
        assert_eq!(decide(true, Some(&held("", 100)), "me", now), Step::Take);
    }
}
