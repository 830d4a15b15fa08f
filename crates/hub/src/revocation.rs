//! Cuts open streams whose right to be open has gone.

use std::{collections::BTreeMap, sync::Arc};

use futures::{StreamExt, stream};
use strait_types::RefusalCode;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    caller::Fingerprint,
    config::Times,
    decisions::{Decisions, Freshness},
    live::{LiveStream, LiveStreams},
    snapshot::Snapshot,
};

/// How many callers are reviewed at a time.
const AT_A_TIME: usize = 16;

/// Looks after open streams.
#[derive(Debug)]
pub(crate) struct Revocation {
    pub(crate) live: Arc<LiveStreams>,
    pub(crate) decisions: Arc<Decisions>,
    pub(crate) inventory: watch::Receiver<Arc<Snapshot>>,
    pub(crate) times: Times,
}

// === impl Revocation ===

impl Revocation {
    /// Cuts the streams of entrypoints that are gone, as soon as they are.
    pub(crate) async fn follow_inventory(self: Arc<Self>, stop: CancellationToken) {
        let mut inventory = self.inventory.clone();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                changed = inventory.changed() => if changed.is_err() { return },
            }
            let snapshot = Arc::clone(&inventory.borrow_and_update());
            for stream in self.live.all() {
                if !snapshot.still_leads(&stream.destination) {
                    tracing::debug!(service = %stream.destination.service, "not exposed any more");
                    stream.cut.now(RefusalCode::Revoked);
                }
            }
        }
    }

    /// Asks again about the callers of all open streams, every few seconds, and cuts those who may
    /// not connect any more. When nobody can say, what is open stays open.
    pub(crate) async fn review_callers(self: Arc<Self>, stop: CancellationToken) {
        let mut every = tokio::time::interval(self.times.recheck);
        every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = every.tick() => self.review().await,
            }
        }
    }

    async fn review(&self) {
        let mut groups: BTreeMap<(Fingerprint, Arc<str>), Vec<LiveStream>> = BTreeMap::new();
        for stream in self.live.all() {
            let key = (
                stream.caller.fingerprint(),
                Arc::clone(&stream.destination.key),
            );
            groups.entry(key).or_default().push(stream);
        }
        stream::iter(groups.into_values())
            .for_each_concurrent(AT_A_TIME, |group| self.review_group(group))
            .await;
    }

    /// All streams of one credential to one entrypoint: one review decides about them.
    async fn review_group(&self, group: Vec<LiveStream>) {
        let Some(first) = group.first() else {
            return;
        };
        let identified = self
            .decisions
            .identify(first.caller.credential().clone(), Freshness::Now)
            .await;
        let allowed = match identified {
            Ok(caller) => {
                self.decisions
                    .may_connect(&caller, &first.destination, Freshness::Now)
                    .await
            }
            Err(refusal) if refusal.code == RefusalCode::Unauthenticated => Ok(false),
            Err(refusal) => Err(refusal),
        };
        if matches!(allowed, Ok(false)) {
            for stream in &group {
                stream.cut.now(RefusalCode::Revoked);
            }
        }
    }

    /// Waits until no stream is open, at most until `deadline`.
    pub(crate) async fn drained(&self, deadline: tokio::time::Instant) {
        let _ = tokio::time::timeout_at(deadline, self.live.empty()).await;
    }

    /// Cuts everything that is still open.
    pub(crate) fn cut_all(&self, why: RefusalCode) {
        for stream in self.live.all() {
            stream.cut.now(why);
        }
    }
}
