//! Which session serves a stream. Pure.

use std::time::Duration;

/// What is known of one session with a cluster's agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Counts up with every session; newer ones have higher numbers.
    pub(crate) generation: u64,
    /// What came of the last probe; `None` before the first.
    pub(crate) probe: Option<bool>,
    /// No new streams, the agent or the session is about to end.
    pub(crate) draining: bool,
    /// The round trip, when it is known.
    pub(crate) rtt: Option<Duration>,
}

/// Round trips that differ by less are the same.
const STEP: u128 = 2;

/// The order in which to try the sessions, best first: one whose last probe came back before one
/// not yet probed before one whose probe failed, then the lower round trip, then the newer one. A
/// draining one is not tried at all.
pub(crate) fn order(candidates: &[Candidate]) -> Vec<u64> {
    let mut good: Vec<&Candidate> = candidates.iter().filter(|c| !c.draining).collect();
    good.sort_by_key(|candidate| {
        let health = match candidate.probe {
            Some(true) => 0,
            None => 1,
            Some(false) => 2,
        };
        let rtt = candidate
            .rtt
            .map_or(u128::MAX, |rtt| rtt.as_millis() / STEP);
        (health, rtt, u64::MAX - candidate.generation)
    });
    good.into_iter()
        .map(|candidate| candidate.generation)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(generation: u64, probe: Option<bool>, rtt: u64) -> Candidate {
        let rtt = Some(Duration::from_millis(rtt));
        Candidate {
            generation,
            probe,
            draining: false,
            rtt,
        }
    }

    #[test]
    fn health_comes_before_nearness_before_age() {
        let candidates = [
            candidate(1, Some(true), 40),
            candidate(2, Some(false), 1),
            candidate(3, Some(true), 4),
            candidate(4, Some(true), 5),
            candidate(5, None, 1),
        ];
        assert_eq!(order(&candidates), [4, 3, 1, 5, 2]);
    }

    #[test]
    fn a_draining_session_gets_no_streams() {
        let draining = Candidate {
            draining: true,
            ..candidate(1, Some(true), 1)
        };
        assert_eq!(order(&[draining]), Vec::<u64>::new());
    }
}
