//! How often one source may ask.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use moka::sync::Cache;

use crate::source::network;

/// How many sources are remembered; beyond, the oldest are forgotten.
const MAX_SOURCES: u64 = 10_000;

/// Tokens that come back evenly: a source may use a minute's worth at once, then waits.
#[derive(Debug)]
pub(crate) struct RateLimit {
    per_minute: u32,
    sources: Cache<IpAddr, Bucket>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

// === impl RateLimit ===

impl RateLimit {
    pub(crate) fn new(per_minute: u32) -> Self {
        let sources = Cache::builder()
            .max_capacity(MAX_SOURCES)
            .time_to_idle(Duration::from_secs(120))
            .build();
        Self {
            per_minute,
            sources,
        }
    }

    /// Whether a source may ask once more at `now`; if so, it has.
    pub(crate) fn take(&self, source: IpAddr, now: Instant) -> bool {
        let full = f64::from(self.per_minute);
        let mut allowed = false;
        self.sources
            .entry(network(source))
            .and_upsert_with(|entry| {
                let bucket = entry.map_or(
                    Bucket {
                        tokens: full,
                        at: now,
                    },
                    moka::Entry::into_value,
                );
                let tokens = bucket.tokens_at(now, full);
                allowed = tokens >= 1.0;
                Bucket {
                    tokens: if allowed { tokens - 1.0 } else { tokens },
                    at: now,
                }
            });
        allowed
    }

    /// Whether a source would have to wait at `now`.
    pub(crate) fn is_spent(&self, source: IpAddr, now: Instant) -> bool {
        let full = f64::from(self.per_minute);
        let bucket = self.sources.get(&network(source));
        bucket.is_some_and(|bucket| bucket.tokens_at(now, full) < 1.0)
    }
}

// === impl Bucket ===

impl Bucket {
    fn tokens_at(&self, now: Instant, full: f64) -> f64 {
        let waited = now.saturating_duration_since(self.at).as_secs_f64();
        (self.tokens + waited * full / 60.0).min(full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_asks_too_often_waits_and_others_do_not() {
        let limit = RateLimit::new(3);
        let start = strait_runtime::clock::now();
        let (one, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        assert_eq!(
            [0; 4].map(|_| limit.take(one, start)),
            [true, true, true, false]
        );
        assert!(limit.take(other, start));
        assert!(!limit.take(one, start + Duration::from_secs(19)));
        assert!(limit.take(one, start + Duration::from_secs(41)));
    }

    #[test]
    fn looking_takes_nothing() {
        let limit = RateLimit::new(1);
        let (start, one) = (strait_runtime::clock::now(), IpAddr::from([192, 0, 2, 1]));
        assert!(!limit.is_spent(one, start));
        assert!(limit.take(one, start));
        assert!(limit.is_spent(one, start));
        assert!(!limit.is_spent(one, start + Duration::from_secs(60)));
    }
}
