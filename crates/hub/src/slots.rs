//! Places for connections: so many for everybody, a quarter of them for one source.
//!
//! Who only waits cannot lock others out: when there is no place, the newcomer gets that of
//! whoever has been waiting longest in the network that has most who wait.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::source::network;

/// Places for connections.
#[derive(Debug)]
pub(crate) struct Slots {
    limit: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Counts up; who came first has the smaller number.
    last: u64,
    taken: usize,
    networks: BTreeMap<IpAddr, Network>,
}

/// The places of one source.
#[derive(Debug, Default)]
struct Network {
    /// Those that nobody has vouched for, oldest first.
    waiting: BTreeMap<u64, CancellationToken>,
    vouched: usize,
}

/// One place; given back when dropped.
#[derive(Debug)]
#[must_use = "dropping it gives the place back"]
pub(crate) struct Slot {
    all: Arc<Slots>,
    network: IpAddr,
    number: u64,
    vouched: AtomicBool,
    lost: CancellationToken,
}

// === impl Slots ===

impl Slots {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            inner: Mutex::default(),
        }
    }

    /// A place, unless all that this source may have, or all that there are, are taken by
    /// connections that were vouched for.
    pub(crate) fn enter(self: &Arc<Self>, source: IpAddr) -> Option<Slot> {
        let network = network(source);
        let mut inner = self.inner.lock();
        let mine = inner.networks.get(&network).map_or(0, Network::taken);
        if mine >= self.limit.div_ceil(4) {
            inner.make_room(network)?;
        } else if inner.taken >= self.limit {
            let most = inner.most_waiting()?;
            inner.make_room(most)?;
        }
        inner.last += 1;
        inner.taken += 1;
        let (number, lost) = (inner.last, CancellationToken::new());
        let entry = inner.networks.entry(network).or_default();
        entry.waiting.insert(number, lost.clone());
        Some(Slot {
            all: Arc::clone(self),
            network,
            number,
            vouched: AtomicBool::new(false),
            lost,
        })
    }
}

// === impl Inner ===

impl Inner {
    /// Takes the place of whoever has waited longest in this network.
    fn make_room(&mut self, network: IpAddr) -> Option<()> {
        let entry = self.networks.get_mut(&network)?;
        let (_, oldest) = entry.waiting.pop_first()?;
        oldest.cancel();
        self.left(network);
        Some(())
    }

    /// Of several networks with as many who wait, the one whose first came first.
    fn most_waiting(&self) -> Option<IpAddr> {
        let waiting = self.networks.iter().filter_map(|(network, entry)| {
            let (first, _) = entry.waiting.first_key_value()?;
            Some(((entry.waiting.len(), Reverse(*first)), *network))
        });
        waiting.max().map(|(_, network)| network)
    }

    /// One place less is taken by this network; its entry says so already.
    fn left(&mut self, network: IpAddr) {
        self.taken -= 1;
        if self.networks.get(&network).is_some_and(|n| n.taken() == 0) {
            self.networks.remove(&network);
        }
    }
}

// === impl Network ===

impl Network {
    fn taken(&self) -> usize {
        self.waiting.len() + self.vouched
    }
}

// === impl Slot ===

impl Slot {
    /// Waits until the place goes to somebody else; for ever, once somebody has vouched.
    pub(crate) async fn lost(&self) {
        self.lost.cancelled().await;
    }

    /// Says that this connection is somebody's whom the hub knows: it keeps its place.
    pub(crate) fn vouch(&self) {
        if self.vouched.load(Ordering::Relaxed) {
            return;
        }
        let mut inner = self.all.inner.lock();
        if let Some(entry) = inner.networks.get_mut(&self.network)
            && entry.waiting.remove(&self.number).is_some()
        {
            entry.vouched += 1;
            self.vouched.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut inner = self.all.inner.lock();
        let Some(entry) = inner.networks.get_mut(&self.network) else {
            return;
        };
        if self.vouched.load(Ordering::Relaxed) {
            entry.vouched -= 1;
        } else if entry.waiting.remove(&self.number).is_none() {
            // Somebody else has it.
            return;
        }
        inner.left(self.network);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn has(slot: &Slot) -> bool {
        slot.lost().now_or_never().is_none()
    }

    #[test]
    fn one_source_gets_a_quarter_and_the_newest_of_it_stay() {
        let slots = Arc::new(Slots::new(8));
        let mine = [0; 3].map(|_| slots.enter(address(1)).unwrap());
        assert_eq!(mine.each_ref().map(has), [false, true, true]);
        let theirs = slots.enter(address(2)).unwrap();
        assert!(has(&theirs) && has(&mine[2]));
    }

    #[test]
    fn many_silent_sources_lock_nobody_out() {
        let slots = Arc::new(Slots::new(8));
        let silent: Vec<_> = (0..8)
            .map(|n| slots.enter(address(n / 2)).unwrap())
            .collect();
        let newcomers = [100, 101].map(|n| slots.enter(address(n)).unwrap());
        assert!(newcomers.iter().all(has));
        let left: Vec<_> = silent.iter().map(has).collect();
        assert_eq!(
            left,
            [false, true, false, true, true, true, true, true],
            "the oldest of those networks that have two"
        );
    }

    #[test]
    fn who_is_vouched_for_keeps_the_place() {
        let slots = Arc::new(Slots::new(4));
        let known: Vec<_> = (0..4).map(|n| slots.enter(address(n)).unwrap()).collect();
        known.iter().for_each(Slot::vouch);
        assert!(slots.enter(address(9)).is_none());
        assert!(slots.enter(address(0)).is_none());
        drop(known);
        assert!(slots.enter(address(9)).is_some());
        assert_eq!(slots.inner.lock().taken, 0);
        assert!(slots.inner.lock().networks.is_empty());
    }

    #[test]
    fn a_place_that_was_taken_away_is_not_given_back_twice() {
        let slots = Arc::new(Slots::new(4));
        let first = slots.enter(address(1)).unwrap();
        let second = slots.enter(address(1)).unwrap();
        assert!(!has(&first));
        first.vouch();
        drop(first);
        assert_eq!(slots.inner.lock().taken, 1);
        assert!(has(&second));
        drop(second);
        assert_eq!(slots.inner.lock().taken, 0);
    }
}
