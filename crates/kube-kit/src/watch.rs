//! Watches that survive anything: one broken object spoils only itself, a lost connection is
//! taken up again with backoff, and what nobody reads (`managedFields`) is not kept.

use std::{fmt, sync::Arc};

use futures::{StreamExt, pin_mut};
use kube::{
    Api, Resource, ResourceExt,
    core::DeserializeGuard,
    runtime::{
        WatchStreamExt,
        reflector::{self, ObjectRef, Store},
        watcher::{self, Event},
    },
};
use serde::de::DeserializeOwned;
use tokio::sync::watch as signal;
use tokio_util::sync::CancellationToken;

/// The objects of one kind, as the API server last told them.
pub struct Objects<K>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    store: Store<K>,
    version: signal::Receiver<u64>,
}

/// Watches a kind. Returns the objects, which are empty until the first list arrives, and the
/// future that keeps them; it ends when `stop` is cancelled.
///
/// Guarantees: an object that cannot be read is logged, and what it said before stays; the others
/// go on. Every change raises the version that [`Objects::changed`] waits for.
pub fn watch<K>(
    api: Api<DeserializeGuard<K>>,
    config: watcher::Config,
    stop: CancellationToken,
) -> (Objects<K>, impl Future<Output = ()> + Send + 'static)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + fmt::Debug + Send + Sync + 'static,
{
    let (store, mut writer) = reflector::store::<K>();
    let (versions, version) = signal::channel(0);
    let kept = store.clone();
    let keep = async move {
        let events = watcher::watcher(api, config).default_backoff();
        pin_mut!(events);
        loop {
            let event = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                event = events.next() => event,
            };
            match event {
                None => return,
                Some(Err(error)) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(kind = %K::kind(&()), error, "a watch failed; trying again");
                }
                Some(Ok(event)) => {
                    let Some(event) = slim(event, &kept) else {
                        continue;
                    };
                    let visible = !matches!(event, Event::Init | Event::InitApply(_));
                    writer.apply_watcher_event(&event);
                    if visible {
                        versions.send_modify(|version| *version += 1);
                    }
                }
            }
        }
    };
    (Objects { store, version }, keep)
}

// === impl Objects ===

impl<K> Objects<K>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    /// All objects, sorted by namespace and name.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<K>> {
        let mut all = self.store.state();
        all.sort_by_cached_key(|object| (object.namespace(), object.name_any()));
        all
    }

    /// One object.
    #[must_use]
    pub fn get(&self, namespace: Option<&str>, name: &str) -> Option<Arc<K>> {
        let reference = ObjectRef::new(name);
        let reference = match namespace {
            Some(namespace) => reference.within(namespace),
            None => reference,
        };
        self.store.get(&reference)
    }

    /// Whether the first list has arrived.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        *self.version.borrow() > 0
    }

    /// Waits for the first list; false when the watch ended before it.
    pub async fn ready(&self) -> bool {
        self.version
            .clone()
            .wait_for(|version| *version > 0)
            .await
            .is_ok()
    }

    /// Waits for a change since the last call of this method; false when the watch has ended.
    /// Cancel safe.
    pub async fn changed(&mut self) -> bool {
        self.version.changed().await.is_ok()
    }
}

impl<K> Clone for Objects<K>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            version: self.version.clone(),
        }
    }
}

impl<K> fmt::Debug for Objects<K>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects")
            .field("version", &*self.version.borrow())
            .finish_non_exhaustive()
    }
}

/// Takes the guard off, and what nobody reads. In place of an object that cannot be read comes what
/// `kept` holds of it; `None` when that is nothing, or when nothing changes.
fn slim<K>(event: Event<DeserializeGuard<K>>, kept: &Store<K>) -> Option<Event<K>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    let open = |guard: DeserializeGuard<K>| match guard.0 {
        Ok(mut object) => {
            object.meta_mut().managed_fields = None;
            Ok(object)
        }
        Err(invalid) => {
            tracing::warn!(
                kind = %K::kind(&()),
                namespace = invalid.metadata.namespace,
                name = invalid.metadata.name,
                error = invalid.error,
                "an object cannot be read; what it said before stays"
            );
            let mut reference = ObjectRef::new(&invalid.metadata.name.unwrap_or_default());
            if let Some(namespace) = invalid.metadata.namespace {
                reference = reference.within(&namespace);
            }
            Err(kept.get(&reference).map(|before| K::clone(&before)))
        }
    };
    match event {
        Event::Apply(object) => open(object).ok().map(Event::Apply),
        Event::Delete(object) => open(object)
            .map_or_else(|kept| kept, Some)
            .map(Event::Delete),
        Event::Init => Some(Event::Init),
        // A new list: what is not told again is gone afterwards.
        Event::InitApply(object) => open(object)
            .map_or_else(|kept| kept, Some)
            .map(Event::InitApply),
        Event::InitDone => Some(Event::InitDone),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    fn map(name: &str, data: &serde_json::Value) -> DeserializeGuard<ConfigMap> {
        serde_json::from_value(json!({
            "metadata": { "namespace": "n", "name": name, "managedFields": [{}] },
            "data": data,
        }))
        .unwrap()
    }

    #[test]
    fn an_unreadable_object_keeps_what_it_said_until_it_is_deleted() {
        let (store, mut writer) = reflector::store::<ConfigMap>();
        let mut tell = |event| {
            if let Some(event) = slim(event, &store) {
                writer.apply_watcher_event(&event);
            }
        };
        let good = || map("a", &json!({ "k": "v" }));
        let broken = || map("a", &json!(7));
        let said = || {
            let found = store.get(&ObjectRef::new("a").within("n"))?;
            assert_eq!(found.metadata.managed_fields, None);
            found.data.clone()?.get("k").cloned()
        };
        for event in [Event::Init, Event::InitApply(good()), Event::InitDone] {
            tell(event);
        }
        assert_eq!(said().as_deref(), Some("v"));
        tell(Event::Apply(broken()));
        assert_eq!(said().as_deref(), Some("v"));
        for event in [
            Event::Init,
            Event::InitApply(broken()),
            Event::InitApply(map("b", &json!(7))),
            Event::InitDone,
        ] {
            tell(event);
        }
        assert_eq!(said().as_deref(), Some("v"));
        assert_eq!(store.state().len(), 1);
        tell(Event::Delete(broken()));
        assert_eq!(said(), None);
    }
}
