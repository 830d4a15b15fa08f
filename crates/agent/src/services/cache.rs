//! Remembers Services for a short while, and asks for one only once at a time.

use std::{sync::Arc, time::Duration};

use moka::future::Cache as Moka;

use super::{LookupError, Service, Services};

/// How long an answer is good. A service that moved is looked up again when its dial fails, so
/// this only bounds how long a removed one is still tried.
const LIFE: Duration = Duration::from_secs(5);
/// Services in use at a time, in numbers; those beyond are looked up each time.
const CAPACITY: u64 = 10_000;

type Key = (Box<str>, Box<str>);

/// [`Services`] with a short memory.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    inner: Arc<dyn Services>,
    known: Moka<Key, Option<Arc<Service>>>,
}

// === impl Cache ===

impl Cache {
    pub(crate) fn new(inner: Arc<dyn Services>) -> Self {
        let known = Moka::builder()
            .max_capacity(CAPACITY)
            .time_to_live(LIFE)
            .build();
        Self { inner, known }
    }

    /// The Service, at most [`LIFE`] old. Whoever asks while it is looked up waits for that answer.
    /// That there is none is not remembered.
    pub(crate) async fn get(
        &self,
        namespace: &str,
        service: &str,
    ) -> Result<Option<Arc<Service>>, Arc<LookupError>> {
        let look_up = async { Ok(self.inner.look_up(namespace, service).await?.map(Arc::new)) };
        let key: Key = (namespace.into(), service.into());
        let found = self.known.try_get_with_by_ref(&key, look_up).await?;
        if found.is_none() {
            self.known.invalidate(&key).await;
        }
        Ok(found)
    }

    /// Forgets a Service that did not turn out to be as remembered. One that somebody has looked
    /// up again in the meantime stays.
    pub(crate) async fn forget(&self, namespace: &str, service: &str, stale: &Arc<Service>) {
        let key: Key = (namespace.into(), service.into());
        let current = self.known.get(&key).await.flatten();
        if current.is_some_and(|current| Arc::ptr_eq(&current, stale)) {
            self.known.invalidate(&key).await;
        }
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

    #[tokio::test]
    async fn only_the_stale_answer_is_forgotten() {
        let (counting, cache) = cache(1);
        let stale = cache.get("default", "search").await.unwrap().unwrap();
        cache.forget("default", "search", &stale).await;
        let fresh = cache.get("default", "search").await.unwrap().unwrap();
        cache.forget("default", "search", &stale).await;
        let same = cache.get("default", "search").await.unwrap().unwrap();
        assert!(Arc::ptr_eq(&fresh, &same));
        assert_eq!(counting.asked.load(Ordering::SeqCst), 2);
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
