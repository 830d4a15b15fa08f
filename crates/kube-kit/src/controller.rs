//! Runs a controller: rounds of observe, decide and apply, while this process leads.

use std::{error::Error, time::Duration};

use strait_runtime::Backoff;
use tokio_util::sync::CancellationToken;

use crate::{Classify, Leadership, Verdict};

/// How long changes are gathered before a round looks at them: one `kubectl apply` of many objects
/// is one round.
const GATHER: Duration = Duration::from_millis(50);
/// Delays after a round that failed.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));
/// A round without a reason, as a safety net for what a watch did not tell.
const RESYNC: Duration = Duration::from_secs(300);

/// How long a round may take. One that waits longer waits for an answer that does not come, on a
/// connection that broke without a word.
const ROUND: Duration = Duration::from_secs(120);

/// A controller. It sees everything it decides about at once, and decides about all of it in each
/// round; a round that finds nothing to change writes nothing.
pub trait Controller: Send {
    /// Its name, in logs.
    const NAME: &'static str;

    /// Waits until every watch has told its first list; false when one has ended before it.
    fn ready(&self) -> impl Future<Output = bool> + Send;

    /// Waits for a change of anything it looks at; false when a watch has ended. Cancel safe.
    fn changed(&mut self) -> impl Future<Output = bool> + Send;

    /// Observes, decides and applies once. May be cancelled at any await when leadership is lost.
    fn round(&mut self) -> impl Future<Output = Round> + Send;
}

/// How a round went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "what failed is tried again only when the runner knows"]
pub struct Round {
    /// Something failed.
    failed: bool,
    /// Something failed that may work when it is tried again.
    retry: bool,
    /// When time alone makes something to do.
    again: Option<Duration>,
}

/// Runs the controller until `stop`, or until one of its watches ends. Watches go on without
/// leadership, rounds do not.
pub async fn drive<C: Controller>(
    mut controller: C,
    mut leadership: Leadership,
    stop: CancellationToken,
) {
    tokio::select! {
        biased;
        () = stop.cancelled() => return,
        ready = controller.ready() => if !ready { return },
    }
    let mut backoff = Backoff::random(RETRY.0, RETRY.1);
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            leads = leadership.acquired() => if !leads { return },
        }
        let mut lost = leadership.clone();
        let round = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = lost.lost() => continue,
            round = tokio::time::timeout(ROUND, controller.round()) => {
                round.unwrap_or_else(|_| Round::too_long(C::NAME))
            }
        };
        let delay = round.delay(&mut backoff);
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = lost.lost() => {}
            changed = controller.changed() => {
                if !changed {
                    return;
                }
                tokio::time::sleep(GATHER).await;
            }
            () = tokio::time::sleep(delay) => {}
        }
    }
}

// === impl Round ===

impl Round {
    /// A round in which everything went well.
    pub fn new() -> Self {
        Self::default()
    }

    fn too_long(controller: &'static str) -> Self {
        tracing::warn!(controller, "a round took too long and begins anew");
        Self {
            failed: true,
            retry: true,
            again: None,
        }
    }

    /// Takes note of a result: logs an error, and tries again when that can help.
    pub fn note<T, E: Classify + 'static>(&mut self, result: Result<T, E>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                let retry = error.verdict() == Verdict::Retry;
                let error = &error as &(dyn Error + 'static);
                tracing::warn!(error, retry, "a write failed");
                self.failed = true;
                self.retry |= retry;
                None
            }
        }
    }

    /// Whether something failed.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.failed
    }

    /// Asks for another round after this time at the latest.
    pub fn again_in(&mut self, delay: Duration) {
        self.again = Some(self.again.map_or(delay, |before| before.min(delay)));
    }

    fn delay(&self, backoff: &mut Backoff) -> Duration {
        if self.retry {
            return backoff.next_delay();
        }
        backoff.reset();
        self.again.map_or(RESYNC, |again| again.min(RESYNC))
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use tokio::sync::watch;

    use super::*;

    struct Counts {
        rounds: watch::Sender<u32>,
        changes: watch::Receiver<u32>,
        next: Round,
    }

    impl Controller for Counts {
        const NAME: &'static str = "counts";

        async fn ready(&self) -> bool {
            true
        }

        async fn changed(&mut self) -> bool {
            self.changes.changed().await.is_ok()
        }

        async fn round(&mut self) -> Round {
            self.rounds.send_modify(|rounds| *rounds += 1);
            self.next.clone()
        }
    }

    fn refused(code: u16) -> kube::Error {
        kube::Error::Api(Box::new(Status {
            code,
            ..Status::default()
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn rounds_follow_changes_and_leadership() {
        let (rounds, mut counted) = watch::channel(0);
        let (change, changes) = watch::channel(0);
        let (lead, leadership) = watch::channel(false);
        let stop = CancellationToken::new();
        let controller = Counts {
            rounds,
            changes,
            next: Round::new(),
        };
        let run = drive(controller, Leadership::from(leadership), stop.clone());
        let script = async {
            change.send_modify(|c| *c += 1);
            tokio::task::yield_now().await;
            assert_eq!(*counted.borrow_and_update(), 0, "a follower writes nothing");
            lead.send_replace(true);
            counted.wait_for(|n| *n >= 2).await.unwrap();
            let before = tokio::time::Instant::now();
            let seen = *counted.borrow_and_update();
            change.send_modify(|c| *c += 1);
            counted.wait_for(|n| *n > seen).await.unwrap();
            assert_eq!(before.elapsed(), GATHER);
            let seen = *counted.borrow_and_update();
            counted.wait_for(|n| *n > seen).await.unwrap();
            assert_eq!(before.elapsed(), GATHER + RESYNC);
            stop.cancel();
        };
        tokio::join!(run, script);
    }

    #[test]
    fn a_round_is_tried_again_only_when_that_can_help() {
        let mut backoff = Backoff::new(RETRY.0, RETRY.1, 1);
        let mut round = Round::new();
        assert_eq!(round.note(Ok::<_, kube::Error>(1)), Some(1));
        assert!(!round.failed());
        assert_eq!(round.note(Err::<(), _>(refused(422))), None);
        assert!(round.failed());
        assert_eq!(round.delay(&mut backoff), RESYNC);
        round.again_in(Duration::from_secs(9));
        round.again_in(Duration::from_secs(20));
        assert_eq!(round.delay(&mut backoff), Duration::from_secs(9));
        assert_eq!(round.note(Err::<(), _>(refused(500))), None);
        assert!(round.delay(&mut backoff) <= RETRY.0);
    }
}
