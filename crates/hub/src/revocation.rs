//! Cuts open streams whose right to be open has gone.

use std::{collections::BTreeMap, sync::Arc};

use futures::{StreamExt, stream};
use strait_types::RefusalCode;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    caller::{Caller, Fingerprint},
    config::Times,
    decisions::{Decisions, Freshness},
    live::{LiveStream, LiveStreams},
    snapshot::Snapshot,
};

/// How many callers are reviewed at a time, and how many entrypoints of each.
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
        let mut callers: BTreeMap<Fingerprint, Vec<LiveStream>> = BTreeMap::new();
        for stream in self.live.all() {
            callers
                .entry(stream.caller.fingerprint())
                .or_default()
                .push(stream);
        }
        stream::iter(callers.into_values())
            .for_each_concurrent(AT_A_TIME, |streams| self.review_caller(streams))
            .await;
    }

    /// All streams of one credential: one review says whose it still is, and one for each
    /// entrypoint whether they may still connect.
    async fn review_caller(&self, streams: Vec<LiveStream>) {
        let Some(first) = streams.first() else {
            return;
        };
        let credential = first.caller.credential().clone();
        let caller = match self.decisions.identify_again(credential).await {
            Ok(caller) => caller,
            Err(refusal) if refusal.code == RefusalCode::Unauthenticated => {
                streams
                    .iter()
                    .for_each(|stream| stream.cut.now(RefusalCode::Revoked));
                return;
            }
            Err(_) => return,
        };
        let mut entrypoints: BTreeMap<Arc<str>, Vec<LiveStream>> = BTreeMap::new();
        for stream in streams {
            entrypoints
                .entry(Arc::clone(&stream.destination.key))
                .or_default()
                .push(stream);
        }
        stream::iter(entrypoints.into_values())
            .for_each_concurrent(AT_A_TIME, |streams| self.review_right(&caller, streams))
            .await;
    }

    /// All streams of one caller to one entrypoint.
    async fn review_right(&self, caller: &Caller, streams: Vec<LiveStream>) {
        let Some(LiveStream { destination, .. }) = streams.first() else {
            return;
        };
        // As the entrypoint is now: its own subjects may have changed since the stream began.
        let snapshot = Arc::clone(&self.inventory.borrow());
        let now = snapshot.names.by_uid(&destination.uid);
        let destination = now.map_or(destination, |entry| entry.policy());
        let allowed = self
            .decisions
            .may_connect(caller, destination, Freshness::Now)
            .await;
        if matches!(allowed, Ok(false)) {
            streams
                .iter()
                .for_each(|stream| stream.cut.now(RefusalCode::Revoked));
        }
    }

    /// Cuts everything that is still open, and lets nothing more open.
    pub(crate) fn cut_all(&self, why: RefusalCode) {
        self.live.close(why);
        for stream in self.live.all() {
            stream.cut.now(why);
        }
    }
}
