//! Leadership as a value that writers must hold.

use std::time::{Duration, Instant};

use jiff::Timestamp;
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
const DURATION: Duration = Duration::from_secs(15);
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

/// The lease as it was seen last, and since when it is like that.
#[derive(Debug, Default)]
struct Observed(Option<(LeaseSpec, Instant)>);

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
/// Guarantees: of two processes with different identities at most one is told that it leads,
/// whatever their clocks say. A leader that has not renewed for two thirds of the lease's duration
/// stops leading; who wants to follow has to have seen the lease unchanged for all of it. Each
/// counts by its own monotonic clock, as client-go does.
pub fn elect(
    client: Client,
    config: LeaseConfig,
    stop: CancellationToken,
) -> (Leadership, impl Future<Output = ()> + Send + 'static) {
    let (leads, receiver) = watch::channel(false);
    let work = async move {
        let api: Api<Lease> = Api::namespaced(client, &config.namespace);
        let mut renewed = clock::now();
        let mut observed = Observed::default();
        loop {
            // Counted from before the request: the lease is not older than we believe.
            let asked = clock::now();
            match answered(turn(&api, &config, &mut observed)).await {
                Ok(led) => {
                    renewed = asked;
                    announce(&leads, led);
                }
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(lease = config.name, error, "the lease could not be renewed");
                }
            }
            if clock::now().saturating_duration_since(renewed) > DURATION * 2 / 3 {
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

async fn turn(
    api: &Api<Lease>,
    config: &LeaseConfig,
    observed: &mut Observed,
) -> Result<bool, kube::Error> {
    let found = api.get_opt(&config.name).await?;
    let now = clock::timestamp();
    let spec = found.as_ref().and_then(|lease| lease.spec.as_ref());
    let unchanged = observed.unchanged(spec, clock::now());
    let written = match decide(found.is_some(), spec, &config.identity, unchanged) {
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

// === impl Observed ===

impl Observed {
    /// How long the lease has been seen to be as it is.
    fn unchanged(&mut self, spec: Option<&LeaseSpec>, now: Instant) -> Duration {
        match (&self.0, spec) {
            (Some((before, since)), Some(spec)) if before == spec => {
                now.saturating_duration_since(*since)
            }
            (_, spec) => {
                self.0 = spec.map(|spec| (spec.clone(), now));
                Duration::ZERO
            }
        }
    }
}

fn decide(exists: bool, spec: Option<&LeaseSpec>, me: &str, unchanged: Duration) -> Step {
    let Some(spec) = spec.filter(|_| exists) else {
        return if exists { Step::Take } else { Step::Create };
    };
    let holder = spec.holder_identity.as_deref().unwrap_or_default();
    if holder == me {
        return Step::Renew;
    }
    if !holder.is_empty() && unchanged < DURATION {
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

/// Gives the lease back, if it is ours still.
async fn release(api: &Api<Lease>, config: &LeaseConfig) {
    let giving = async {
        let Some(lease) = api.get_opt(&config.name).await? else {
            return Ok(true);
        };
        let holder = lease.spec.and_then(|spec| spec.holder_identity);
        if holder.as_deref() != Some(config.identity.as_str()) {
            return Ok(true);
        }
        let patch = serde_json::json!({
            "metadata": { "resourceVersion": lease.metadata.resource_version },
            "spec": { "holderIdentity": "" },
        });
        let params = PatchParams::default();
        api.patch(&config.name, &params, &Patch::Merge(patch))
            .await?;
        Ok(true)
    };
    if let Err(error) = answered(giving).await {
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

    fn held(by: &str) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(by.to_owned()),
            ..LeaseSpec::default()
        }
    }

    #[test]
    fn a_lease_is_taken_only_when_it_is_free_or_dead() {
        let (short, long) = (DURATION - Duration::from_millis(1), DURATION);
        assert_eq!(decide(false, None, "me", short), Step::Create);
        assert_eq!(decide(true, None, "me", short), Step::Take);
        assert_eq!(decide(true, Some(&held("me")), "me", long), Step::Renew);
        assert_eq!(decide(true, Some(&held("you")), "me", short), Step::Wait);
        assert_eq!(decide(true, Some(&held("you")), "me", long), Step::Take);
        assert_eq!(decide(true, Some(&held("")), "me", short), Step::Take);
    }

    #[test]
    fn a_lease_is_as_old_as_it_was_seen_unchanged_whatever_its_time_says() {
        let (mut observed, start) = (Observed::default(), clock::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut lease = held("you");
        lease.renew_time = Some(MicroTime(Timestamp::UNIX_EPOCH));
        assert_eq!(observed.unchanged(Some(&lease), at(0)), Duration::ZERO);
        assert_eq!(
            observed.unchanged(Some(&lease), at(9)),
            Duration::from_secs(9)
        );
        lease.renew_time = Some(MicroTime(Timestamp::from_second(1).unwrap()));
        assert_eq!(observed.unchanged(Some(&lease), at(10)), Duration::ZERO);
        assert_eq!(observed.unchanged(None, at(30)), Duration::ZERO);
        assert_eq!(observed.unchanged(Some(&lease), at(31)), Duration::ZERO);
    }
}
