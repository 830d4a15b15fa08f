//! The streams that are open now: counted against limits, and cut when they have to be.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;
use strait_types::{Refusal, RefusalCode};
use tokio_util::sync::CancellationToken;

use crate::{
    caller::Caller,
    config::Limits,
    metrics::{Counted, Metrics},
    snapshot::Destination,
};

/// Every open stream.
#[derive(Debug)]
pub(crate) struct LiveStreams {
    limits: Limits,
    metrics: Metrics,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    last: u64,
    live: BTreeMap<u64, LiveStream>,
    per_user: BTreeMap<Arc<str>, usize>,
    /// Why no more are taken, if they are not.
    closed: Option<RefusalCode>,
}

/// What is needed to decide about an open stream again.
#[derive(Clone, Debug)]
pub(crate) struct LiveStream {
    /// Who opened it.
    pub(crate) caller: Arc<Caller>,
    /// Where it leads.
    pub(crate) destination: Arc<Destination>,
    /// Cuts it.
    pub(crate) cut: Cut,
}

/// Ends a stream from outside, with a reason.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cut {
    token: CancellationToken,
    why: Arc<OnceLock<RefusalCode>>,
}

/// An open stream's place among the others; given back when dropped.
#[derive(Debug)]
#[must_use = "dropping it says that the stream is closed"]
pub(crate) struct Place {
    streams: Arc<LiveStreams>,
    id: u64,
    user: Arc<str>,
    cut: Cut,
    _counted: Counted,
}

// === impl LiveStreams ===

impl LiveStreams {
    pub(crate) fn new(limits: Limits, metrics: Metrics) -> Self {
        Self {
            limits,
            metrics,
            inner: Mutex::default(),
        }
    }

    /// Takes a place for one more stream.
    ///
    /// Refuses with `overloaded` when the caller, or all callers together, have as many as they may,
    /// and once no more are taken.
    pub(crate) fn enter(
        self: &Arc<Self>,
        caller: &Arc<Caller>,
        destination: &Arc<Destination>,
    ) -> Result<Place, Refusal> {
        let user: Arc<str> = caller.user().name.as_str().into();
        let cut = Cut::default();
        let mut inner = self.inner.lock();
        if let Some(why) = inner.closed {
            return Err(Refusal::new(why, "the hub takes no more streams").with_hint("try again"));
        }
        if inner.live.len() >= self.limits.streams {
            return Err(full("the hub has as many open streams as it may have"));
        }
        let mine = inner.per_user.entry(Arc::clone(&user)).or_default();
        if *mine >= self.limits.streams_per_caller {
            return Err(full("this caller has as many open streams as one may have"));
        }
        *mine += 1;
        inner.last += 1;
        let id = inner.last;
        let live = LiveStream {
            caller: Arc::clone(caller),
            destination: Arc::clone(destination),
            cut: cut.clone(),
        };
        inner.live.insert(id, live);
        drop(inner);
        let _counted = self.metrics.open_stream();
        Ok(Place {
            streams: Arc::clone(self),
            id,
            user,
            cut,
            _counted,
        })
    }

    /// All of them, to look at without the lock.
    pub(crate) fn all(&self) -> Vec<LiveStream> {
        self.inner.lock().live.values().cloned().collect()
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.inner.lock().live.len()
    }

    /// Takes no more, for this reason.
    pub(crate) fn close(&self, why: RefusalCode) {
        self.inner.lock().closed = Some(why);
    }

    fn leave(&self, id: u64, user: &Arc<str>) {
        let mut inner = self.inner.lock();
        inner.live.remove(&id);
        if let Some(count) = inner.per_user.get_mut(user) {
            *count -= 1;
            if *count == 0 {
                inner.per_user.remove(user);
            }
        }
    }
}

// === impl Cut ===

impl Cut {
    /// Ends the stream, for this reason. Only the first reason counts.
    pub(crate) fn now(&self, why: RefusalCode) {
        let _ = self.why.set(why);
        self.token.cancel();
    }

    /// Waits until the stream is to end; never returns when it never is.
    pub(crate) async fn wait(&self) -> RefusalCode {
        self.token.cancelled().await;
        self.reason().unwrap_or(RefusalCode::Internal)
    }

    /// Why the stream is to end, if it is.
    pub(crate) fn reason(&self) -> Option<RefusalCode> {
        self.why.get().copied()
    }
}

// === impl Place ===

impl Place {
    /// Ends when the stream has to.
    pub(crate) fn cut(&self) -> &Cut {
        &self.cut
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.streams.leave(self.id, &self.user);
    }
}

fn full(message: &str) -> Refusal {
    Refusal::new(RefusalCode::Overloaded, message).with_hint("try again later")
}
