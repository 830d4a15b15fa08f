//! When to try again.

use std::time::Duration;

use strait_runtime::Backoff;
use tokio::time::Instant;

/// The delays between tries of one thing at a time. Another topic starts over at once.
#[derive(Debug)]
pub(super) struct Pace {
    topic: String,
    slow: bool,
    backoff: Backoff,
    not_before: Option<Instant>,
}

/// The shortest and the longest nominal delay.
pub(super) type Delays = (Duration, Duration);

// === impl Pace ===

impl Pace {
    pub(super) fn new((base, max): Delays) -> Self {
        Self {
            topic: String::new(),
            slow: false,
            backoff: Backoff::random(base, max),
            not_before: None,
        }
    }

    /// Whether it is time for a try.
    pub(super) fn may_try(&mut self, topic: &str, delays: Delays) -> bool {
        if self.topic != topic {
            *self = Self::new(delays);
            topic.clone_into(&mut self.topic);
        }
        self.not_before
            .is_none_or(|not_before| not_before <= Instant::now())
    }

    /// Whether a try has failed and the next is awaited.
    pub(super) fn is_waiting(&self) -> bool {
        self.not_before.is_some()
    }

    /// When the next try is due, when one has failed.
    pub(super) fn next(&self) -> Option<Instant> {
        self.not_before
    }

    /// The try has failed.
    pub(super) fn failed(&mut self) {
        self.not_before = Some(Instant::now() + self.backoff.next_delay());
    }

    /// The try has failed in a way that time hardly changes.
    pub(super) fn failed_for_good(&mut self, (base, max): Delays) {
        if !self.slow {
            self.slow = true;
            self.backoff = Backoff::random(base, max);
        }
        self.failed();
    }

    /// It has worked.
    pub(super) fn worked(&mut self) {
        self.topic.clear();
        self.slow = false;
        self.not_before = None;
        self.backoff.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Delays = (Duration::from_secs(1), Duration::from_secs(8));
    const SLOW: Delays = (Duration::from_secs(60), Duration::from_secs(900));

    #[tokio::test(start_paused = true)]
    async fn a_refusal_slows_down_and_another_topic_starts_over() {
        let mut pace = Pace::new(QUICK);
        assert!(pace.may_try("a", QUICK));
        pace.failed();
        assert!(!pace.may_try("a", QUICK));
        assert!(pace.next().unwrap() <= Instant::now() + Duration::from_secs(1));
        pace.failed_for_good(SLOW);
        let first = pace.next().unwrap() - Instant::now();
        assert!(first >= Duration::from_secs(30), "{first:?}");
        for _ in 0..10 {
            pace.failed_for_good(SLOW);
        }
        assert!(pace.next().unwrap() - Instant::now() >= Duration::from_secs(450));
        assert!(pace.may_try("b", QUICK));
    }
}
