//! Remembers Services for a short while, and asks for one only once at a time.

use std::{
    ops::Deref,
    sync::Arc,
    time::{Duration, Instant as MokaInstant},
};

use moka::{Expiry, future::Cache as Moka};
use tokio::time::Instant;

use super::{LookupError, Service, Services};

/// How long an answer is good. A service that moved is looked up again when its dial fails, so
/// this only bounds how long a removed one is still tried.
const LIFE: Duration = Duration::from_secs(5);
/// How long the API server is not asked again after an answer that did not help: that there is no
/// such Service, or one whose endpoints could not be dialled. So what many dial in vain costs the
/// member's API server two requests a second, and a Service that has come is found within one.
const RECHECK: Duration = Duration::from_secs(1);
/// Services in use at a time, in numbers; those beyond are looked up each time.
const CAPACITY: u64 = 10_000;

type Key = (Box<str>, Box<str>);

/// [`Services`] with a short memory.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    inner: Arc<dyn Services>,
    known: Moka<Key, Option<Arc<Found>>>,
}

/// A Service as the API server told it.
#[derive(Debug)]
pub(crate) struct Found {
    service: Service,
    at: Instant,
}

/// How long each kind of answer is good.
#[derive(Debug)]
struct Lives;

// === impl Cache ===

impl Cache {
    pub(crate) fn new(inner: Arc<dyn Services>) -> Self {
        let known = Moka::builder()
            .max_capacity(CAPACITY)
            .expire_after(Lives)
            .build();
        Self { inner, known }
    }

    /// The Service, at most [`LIFE`] old; that there is none, at most [`RECHECK`] old. Whoever asks
    /// while it is looked up waits for that answer.
    pub(crate) async fn get(
        &self,
        namespace: &str,
        service: &str,
    ) -> Result<Option<Arc<Found>>, Arc<LookupError>> {
        let look_up = async {
            let found = self.inner.look_up(namespace, service).await?;
            Ok(found.map(|service| {
                Arc::new(Found {
                    service,
                    at: Instant::now(),
                })
            }))
        };
        let key: Key = (namespace.into(), service.into());
        self.known.try_get_with_by_ref(&key, look_up).await
    }

    /// Forgets a Service that did not turn out to be as remembered; returns whether it is worth to
    /// ask again. One that was told less than [`RECHECK`] ago stays, and so does one that somebody
    /// has looked up again in the meantime.
    pub(crate) async fn forget(&self, namespace: &str, service: &str, stale: &Arc<Found>) -> bool {
        if stale.at.elapsed() < RECHECK {
            return false;
        }
        let key: Key = (namespace.into(), service.into());
        let current = self.known.get(&key).await.flatten();
        if current.is_some_and(|current| Arc::ptr_eq(&current, stale)) {
            self.known.invalidate(&key).await;
        }
        true
    }
}

// === impl Found ===

impl Deref for Found {
    type Target = Service;

    fn deref(&self) -> &Service {
        &self.service
    }
}

// === impl Lives ===

impl Expiry<Key, Option<Arc<Found>>> for Lives {
    fn expire_after_create(
        &self,
        _: &Key,
        found: &Option<Arc<Found>>,
        _: MokaInstant,
    ) -> Option<Duration> {
        Some(if found.is_some() { LIFE } else { RECHECK })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::BoxFuture;
    use tokio::sync::Semaphore;

    use super::*;

    #[derive(Debug)]
    struct Counting {
        asked: AtomicUsize,
        gate: Semaphore,
    }

    impl Services for Counting {
        fn look_up<'a>(
            &'a self,
            namespace: &'a str,
            service: &'a str,
        ) -> BoxFuture<'a, Result<Option<Service>, LookupError>> {
            Box::pin(async move {
                self.asked.fetch_add(1, Ordering::SeqCst);
                let _permit = self.gate.acquire().await;
                match namespace {
                    "broken" => Err(LookupError {
                        namespace: namespace.to_owned(),
                        service: service.to_owned(),
                        source: Arc::new(std::fmt::Error),
                    }),
                    "empty" => Ok(None),
                    _ => Ok(Some(Service::default())),
                }
            })
        }
    }

    #[tokio::test]
    async fn many_who_ask_at_once_ask_the_api_server_once() {
        let (counting, cache) = cache(0);
        let all = futures::future::join_all((0..20).map(|_| cache.get("default", "search")));
        let (all, ()) = tokio::join!(all, async { counting.gate.add_permits(1) });
        assert!(all.iter().all(|found| matches!(found, Ok(Some(_)))));
        assert_eq!(counting.asked.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn what_failed_is_asked_again() {
        let (counting, cache) = cache(1);
        assert!(cache.get("broken", "x").await.is_err());
        assert!(cache.get("broken", "x").await.is_err());
        assert_eq!(counting.asked.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_stale_answer_is_forgotten() {
        let (counting, cache) = cache(1);
        let stale = cache.get("default", "search").await.unwrap().unwrap();
        tokio::time::advance(RECHECK).await;
        assert!(cache.forget("default", "search", &stale).await);
        let fresh = cache.get("default", "search").await.unwrap().unwrap();
        assert!(cache.forget("default", "search", &stale).await);
        let same = cache.get("default", "search").await.unwrap().unwrap();
        assert!(Arc::ptr_eq(&fresh, &same));
        assert_eq!(counting.asked.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_dialled_in_vain_is_asked_for_once_in_a_while() {
        let (counting, cache) = cache(1);
        for _ in 0..50 {
            let found = cache.get("default", "search").await.unwrap().unwrap();
            assert!(!cache.forget("default", "search", &found).await);
            assert!(cache.get("empty", "search").await.unwrap().is_none());
        }
        assert_eq!(counting.asked.load(Ordering::SeqCst), 2);
        let life = |found| {
            let key = ("default".into(), "search".into());
            Lives.expire_after_create(&key, &found, strait_runtime::clock::now())
        };
        assert_eq!(life(None), Some(RECHECK));
    }

    fn cache(permits: usize) -> (Arc<Counting>, Cache) {
        let counting = Counting {
            asked: AtomicUsize::new(0),
            gate: Semaphore::new(permits),
        };
        let counting = Arc::new(counting);
        (Arc::clone(&counting), Cache::new(counting))
    }
}
