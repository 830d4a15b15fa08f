//! Places for connections: so many for everybody, a quarter of them for one source.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use parking_lot::Mutex;

/// Places for connections that nobody has vouched for.
#[derive(Debug)]
pub(crate) struct Slots {
    limit: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    taken: usize,
    by_source: BTreeMap<IpAddr, usize>,
}

/// One place; given back when dropped.
#[derive(Debug)]
#[must_use = "dropping it gives the place back"]
pub(crate) struct Slot {
    all: Arc<Slots>,
    source: IpAddr,
}

// === impl Slots ===

impl Slots {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            inner: Mutex::default(),
        }
    }

    /// A place, unless all are taken or this source has a quarter of them.
    pub(crate) fn enter(self: &Arc<Self>, source: IpAddr) -> Option<Slot> {
        let source = source.to_canonical();
        let mut inner = self.inner.lock();
        let mine = inner.by_source.get(&source).copied().unwrap_or(0);
        if inner.taken >= self.limit || mine >= self.limit.div_ceil(4) {
            return None;
        }
        inner.taken += 1;
        inner.by_source.insert(source, mine + 1);
        Some(Slot {
            all: Arc::clone(self),
            source,
        })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut inner = self.all.inner.lock();
        inner.taken -= 1;
        if let Some(count) = inner.by_source.get_mut(&self.source) {
            *count -= 1;
            if *count == 0 {
                inner.by_source.remove(&self.source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_source_gets_a_quarter_of_the_places() {
        let slots = Arc::new(Slots::new(8));
        let (one, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let mine = [0; 3].map(|_| slots.enter(one));
        assert_eq!(mine.each_ref().map(Option::is_some), [true, true, false]);
        let theirs = slots.enter(other);
        assert!(theirs.is_some());
        drop(mine);
        assert!(slots.enter(one).is_some());
    }
}
