//! Jittered delays between tries.

use std::time::Duration;

use rand::{RngExt, SeedableRng, rngs::SmallRng};

/// Delays that double from `base` to `max`, each drawn evenly from its upper half ("equal
/// jitter"): a try is never immediate, and a crowd that lost one hub does not come back at once.
#[derive(Debug)]
pub struct Backoff {
    base: Duration,
    max: Duration,
    tries: u32,
    random: SmallRng,
}

// === impl Backoff ===

impl Backoff {
    /// Delays from `base` to `max`; `seed` makes them repeatable in tests.
    #[must_use]
    pub fn new(base: Duration, max: Duration, seed: u64) -> Self {
        Self {
            base,
            max,
            tries: 0,
            random: SmallRng::seed_from_u64(seed),
        }
    }

    /// The same with a seed from the operating system.
    #[must_use]
    pub fn random(base: Duration, max: Duration) -> Self {
        Self::new(base, max, rand::random())
    }

    /// The next delay; between half of the nominal one and the whole.
    pub fn next_delay(&mut self) -> Duration {
        let doubled = 2u32
            .checked_pow(self.tries)
            .and_then(|factor| self.base.checked_mul(factor));
        let nominal = doubled.map_or(self.max, |delay| delay.min(self.max));
        self.tries = self.tries.saturating_add(1);
        nominal.mul_f64(self.random.random_range(0.5..=1.0))
    }

    /// Starts over from `base`, after something worked.
    pub fn reset(&mut self) {
        self.tries = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_delay_lies_between_half_of_base_and_max(seed: u64, tries in 1usize..200) {
            let (base, max) = (Duration::from_millis(100), Duration::from_secs(10));
            let mut backoff = Backoff::new(base, max, seed);
            for _ in 0..tries {
                let delay = backoff.next_delay();
                prop_assert!(delay >= base / 2 && delay <= max);
            }
            backoff.reset();
            prop_assert!(backoff.next_delay() <= base);
        }
    }

    #[test]
    fn delays_grow_to_the_maximum() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60), 1);
        let last = (0..20).map(|_| backoff.next_delay()).last().unwrap();
        assert!(last >= Duration::from_secs(30));
    }
}
