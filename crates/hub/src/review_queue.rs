//! How many tokens of strangers are reviewed at a time, so that nobody can use the hub to flood its
//! API server.

use std::{net::IpAddr, sync::Arc, time::Duration};

use moka::sync::Cache;
use strait_runtime::clock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{deps::Unanswered, rate_limit::RateLimit, source::network};

/// How many reviews of tokens run at a time.
const AT_A_TIME: usize = 64;
/// How many of one source.
const OF_ONE_SOURCE: usize = 16;
/// A source that has sent more wrong tokens than this within a minute is served one review at a
/// time: who shares its address, behind one proxy for instance, gets through still.
const WRONG_PER_MINUTE: u32 = 100;
/// How long a review waits for its turn.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many sources are remembered.
const MAX_SOURCES: u64 = 10_000;

/// Lets reviews through, a few at a time.
#[derive(Debug)]
pub(crate) struct ReviewQueue {
    all: Arc<Semaphore>,
    wrong: RateLimit,
    sources: Cache<IpAddr, Lanes>,
}

/// The places of one source.
#[derive(Clone, Debug)]
struct Lanes {
    usual: Arc<Semaphore>,
    slow: Arc<Semaphore>,
}

/// A turn; the next one comes when it is dropped.
#[derive(Debug)]
#[must_use = "the turn is over when it is dropped"]
pub(crate) struct Turn {
    _source: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

// === impl ReviewQueue ===

impl ReviewQueue {
    pub(crate) fn new() -> Self {
        let sources = Cache::builder()
            .max_capacity(MAX_SOURCES)
            .time_to_idle(Duration::from_secs(120))
            .build();
        Self {
            all: Arc::new(Semaphore::new(AT_A_TIME)),
            wrong: RateLimit::new(WRONG_PER_MINUTE),
            sources,
        }
    }

    /// Waits for the turn of a review that this source causes, but not for ever.
    pub(crate) async fn turn(&self, source: IpAddr) -> Result<Turn, Unanswered> {
        let waiting = tokio::time::timeout(PATIENCE, self.wait(source));
        match waiting.await {
            Ok(Some(turn)) => Ok(turn),
            Ok(None) | Err(tokio::time::error::Elapsed { .. }) => Err(Unanswered::new(
                "TokenReview",
                "too many tokens from this address are waiting",
            )),
        }
    }

    /// Says that a token from this source was nobody's.
    pub(crate) fn wrong(&self, source: IpAddr) {
        self.wrong.take(source, clock::now());
    }

    async fn wait(&self, source: IpAddr) -> Option<Turn> {
        let lanes = self.sources.get_with(network(source), || Lanes {
            usual: Arc::new(Semaphore::new(OF_ONE_SOURCE)),
            slow: Arc::new(Semaphore::new(1)),
        });
        let suspect = self.wrong.is_spent(source, clock::now());
        let lane = if suspect { lanes.slow } else { lanes.usual };
        Some(Turn {
            _source: lane.acquire_owned().await.ok()?,
            _all: Arc::clone(&self.all).acquire_owned().await.ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    /// The turns that a source gets without waiting.
    fn turns(queue: &ReviewQueue, source: IpAddr) -> Vec<Turn> {
        let turn = || tokio::task::unconstrained(queue.wait(source)).now_or_never();
        std::iter::from_fn(|| turn().flatten()).collect()
    }

    #[tokio::test]
    async fn one_source_leaves_turns_to_the_others() {
        let queue = ReviewQueue::new();
        let mine = turns(&queue, ONE);
        assert_eq!(mine.len(), OF_ONE_SOURCE);
        assert_eq!(turns(&queue, OTHER).len(), OF_ONE_SOURCE);
        drop(mine);
        assert_eq!(turns(&queue, ONE).len(), OF_ONE_SOURCE);
    }

    #[tokio::test]
    async fn many_sources_do_not_get_more_than_there_are() {
        let queue = ReviewQueue::new();
        let all: Vec<_> = (0..200)
            .flat_map(|n| turns(&queue, IpAddr::from([192, 0, 2, n])))
            .collect();
        assert_eq!(all.len(), AT_A_TIME);
    }

    #[tokio::test]
    async fn who_sends_wrong_tokens_is_served_one_at_a_time() {
        let queue = ReviewQueue::new();
        for _ in 0..WRONG_PER_MINUTE {
            assert_eq!(turns(&queue, ONE).len(), OF_ONE_SOURCE);
            queue.wrong(ONE);
        }
        let mine = turns(&queue, ONE);
        assert_eq!(mine.len(), 1);
        assert_eq!(turns(&queue, OTHER).len(), OF_ONE_SOURCE);
        drop(mine);
        assert_eq!(turns(&queue, ONE).len(), 1, "still served");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_ever() {
        let queue = ReviewQueue::new();
        let _all: Vec<_> = turns(&queue, ONE);
        assert!(queue.turn(ONE).await.is_err());
        assert!(queue.turn(OTHER).await.is_ok());
    }
}
