//! Watches that survive anything: one broken object spoils only itself, a lost connection is
//! taken up again with backoff, and what nobody reads (`managedFields`) is not kept.

use std::{collections::BTreeSet, fmt, sync::Arc};

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
    told: signal::Receiver<Told>,
}

/// What a watch has told so far.
#[derive(Clone, Debug, Default)]
struct Told {
    /// Counts what was told; 0 before the first list.
    version: u64,
    /// Objects that are there and cannot be read, of which nothing older is known either.
    unreadable: BTreeSet<Place>,
}

/// Namespace, if there is one, and name.
type Place = (Option<String>, String);

/// Watches a kind. Returns the objects, which are empty until the first list arrives, and the
/// future that keeps them; it ends when `stop` is cancelled.
///
/// Guarantees: an object that cannot be read is logged, and what it said before stays; the others
/// go on. When nothing is known of it from before, [`Objects::unreadable`] names it. Every change
/// raises the version that [`Objects::changed`] waits for.
pub fn watch<K>(
    api: Api<DeserializeGuard<K>>,
    config: watcher::Config,
    stop: CancellationToken,
) -> (Objects<K>, impl Future<Output = ()> + Send + 'static)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + fmt::Debug + Send + Sync + 'static,
{
    let (store, mut writer) = reflector::store::<K>();
    let (tell, told) = signal::channel(Told::default());
    let kept = store.clone();
    let keep = async move {
        let events = watcher::watcher(api, config).default_backoff();
        pin_mut!(events);
        let mut unreadable = Unreadable::default();
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
                    let visible = !matches!(event, Event::Init | Event::InitApply(_));
                    let event = slim(event, &kept, &mut unreadable);
                    if let Some(event) = &event {
                        writer.apply_watcher_event(event);
                    }
                    if visible {
                        tell.send_modify(|told| told.next(&unreadable));
                    }
                }
            }
        }
    };
    (Objects { store, told }, keep)
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

    /// Namespace and name of the objects that are there and cannot be read, and of which nothing is
    /// known from before. Whoever removes what has no object any more must not mistake them for
    /// gone.
    #[must_use]
    pub fn unreadable(&self) -> BTreeSet<(Option<String>, String)> {
        self.told.borrow().unreadable.clone()
    }

    /// Whether the first list has arrived.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.told.borrow().version > 0
    }

    /// Waits for the first list; false when the watch ended before it.
    pub async fn ready(&self) -> bool {
        self.told
            .clone()
            .wait_for(|told| told.version > 0)
            .await
            .is_ok()
    }

    /// Waits for a change since the last call of this method; false when the watch has ended.
    /// Cancel safe.
    pub async fn changed(&mut self) -> bool {
        self.told.changed().await.is_ok()
    }
}

impl<K> Clone for Objects<K>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            told: self.told.clone(),
        }
    }
}

impl<K> fmt::Debug for Objects<K>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects")
            .field("version", &self.told.borrow().version)
            .finish_non_exhaustive()
    }
}

/// The objects that cannot be read and of which nothing is known.
#[derive(Debug, Default)]
struct Unreadable {
    now: BTreeSet<Place>,
    /// Those of the list that is being told.
    listed: BTreeSet<Place>,
}

// === impl Told ===

impl Told {
    fn next(&mut self, unreadable: &Unreadable) {
        self.version += 1;
        self.unreadable.clone_from(&unreadable.now);
    }
}

/// Takes the guard off, and what nobody reads. In place of an object that cannot be read comes what
/// `kept` holds of it; `None` when that is nothing, or when nothing changes.
fn slim<K>(
    event: Event<DeserializeGuard<K>>,
    kept: &Store<K>,
    unreadable: &mut Unreadable,
) -> Option<Event<K>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    match event {
        Event::Apply(object) => match open(object, kept) {
            Ok(object) => {
                unreadable.now.remove(&place(&object));
                Some(Event::Apply(object))
            }
            Err(Kept { before, place }) => {
                if before.is_none() {
                    unreadable.now.insert(place);
                }
                None
            }
        },
        Event::Delete(object) => {
            let object = open(object, kept).or_else(|kept| {
                unreadable.now.remove(&kept.place);
                kept.before.ok_or(())
            });
            object.ok().map(Event::Delete)
        }
        Event::Init => {
            unreadable.listed.clear();
            Some(Event::Init)
        }
        // A new list: what is not told again is gone afterwards.
        Event::InitApply(object) => match open(object, kept) {
            Ok(object) => Some(Event::InitApply(object)),
            Err(kept) if kept.before.is_none() => {
                unreadable.listed.insert(kept.place);
                None
            }
            Err(kept) => kept.before.map(Event::InitApply),
        },
        Event::InitDone => {
            unreadable.now = std::mem::take(&mut unreadable.listed);
            Some(Event::InitDone)
        }
    }
}

/// What is known of an object that cannot be read.
struct Kept<K> {
    place: Place,
    before: Option<K>,
}

fn open<K>(guard: DeserializeGuard<K>, kept: &Store<K>) -> Result<K, Kept<K>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    match guard.0 {
        Ok(mut object) => {
            object.meta_mut().managed_fields = None;
            Ok(object)
        }
        Err(invalid) => {
            let (namespace, name) = (invalid.metadata.namespace, invalid.metadata.name);
            let name = name.unwrap_or_default();
            tracing::warn!(
                kind = %K::kind(&()),
                namespace,
                name,
                error = invalid.error,
                "an object cannot be read; what it said before stays"
            );
            let mut reference = ObjectRef::new(&name);
            if let Some(namespace) = &namespace {
                reference = reference.within(namespace);
            }
            Err(Kept {
                before: kept.get(&reference).map(|before| K::clone(&before)),
                place: (namespace, name),
            })
        }
    }
}

fn place(object: &impl Resource) -> Place {
    (object.namespace(), object.name_any())
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
        let mut unreadable = Unreadable::default();
        let mut tell = |event| {
            if let Some(event) = slim(event, &store, &mut unreadable) {
                writer.apply_watcher_event(&event);
            }
            unreadable.now.len()
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
        assert_eq!(tell(Event::Apply(broken())), 0, "it is known from before");
        assert_eq!(said().as_deref(), Some("v"));
        for event in [
            Event::Init,
            Event::InitApply(broken()),
            Event::InitApply(map("b", &json!(7))),
        ] {
            assert_eq!(tell(event), 0, "the list is not over");
        }
        assert_eq!(tell(Event::InitDone), 1);
        assert_eq!(said().as_deref(), Some("v"));
        assert_eq!(store.state().len(), 1);
        assert_eq!(tell(Event::Delete(broken())), 1);
        assert_eq!(said(), None);
        assert_eq!(tell(Event::Apply(map("b", &json!({})))), 0);
        assert_eq!(tell(Event::Apply(map("c", &json!(7)))), 1);
        assert_eq!(tell(Event::Delete(map("c", &json!(7)))), 0);
    }
}
