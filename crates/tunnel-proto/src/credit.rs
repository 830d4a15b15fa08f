//! Flow control: how much a side may send, and when the other side grants more.
//!
//! Two credits gate every byte of DATA, and they protect different things.
//!
//! - The **stream's** credit bounds what one stream can make its receiver hold. It comes back as
//!   the reader takes bytes, so a reader that stops stops its stream, after at most one window.
//! - The **session's** credit bounds what is under way on the carrier. It comes back when bytes
//!   *arrive*, whether or not anybody reads them. No reader can hold it, so stopped streams, few or
//!   many, cannot take it from the others: whatever they send returns within a round trip.
//!
//! Memory stays bounded because of the stream windows. Each stream keeps its initial window,
//! which nobody can take away; growth beyond it comes out of one [`GrowthPool`] per session. A
//! stream takes at most half of what the pool still has, so the pool gives ever less but is never
//! emptied by one stream, and a stream that gets nothing still moves an initial window per round
//! trip. A stream that no longer needs its size gives it back while the pool is short.
//!
//! A window doubles when half of it was read within a round trip (so the sender was waiting for
//! credit), that is until it holds between two and four times the bandwidth-delay product.

use std::time::{Duration, Instant};

/// Below this a round trip counts as this long: on fast local links a window should last for many
/// frames, else the CREDITs cost more than the data.
const MIN_HORIZON: Duration = Duration::from_millis(2);
/// A window that takes this many horizons for its half is larger than the reader needs.
const SLOW_HORIZONS: u32 = 16;

/// The part of the windows that streams share.
#[derive(Debug)]
pub(crate) struct GrowthPool {
    capacity: u64,
    used: u64,
}

/// What a peer may send on one stream, and when it gets more.
#[derive(Debug)]
pub(crate) struct StreamWindow {
    initial: u64,
    max: u64,
    /// The size now: `granted + held + returning`.
    size: u64,
    /// What the peer may still send.
    granted: u64,
    /// What arrived and was not read.
    held: u64,
    /// What was read and not granted again.
    returning: u64,
    /// Since when the bytes in `returning` were read: the last grant, or, when the reader had
    /// nothing to read then, the next arrival.
    since: Option<Instant>,
}

/// What a peer may send on all streams together.
#[derive(Debug)]
pub(crate) struct SessionWindow {
    size: u64,
    granted: u64,
    returning: u64,
}

/// The peer sent more than it was allowed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overrun;

/// What this side may send.
#[derive(Debug)]
pub(crate) struct SendCredit(u64);

// === impl GrowthPool ===

impl GrowthPool {
    pub(crate) fn new(capacity: u64) -> Self {
        Self { capacity, used: 0 }
    }

    fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.used)
    }

    fn take(&mut self, wanted: u64) -> u64 {
        let taken = wanted.min(self.free() / 2);
        self.used += taken;
        taken
    }

    fn give_back(&mut self, bytes: u64) {
        self.used = self.used.saturating_sub(bytes);
    }

    fn is_short(&self) -> bool {
        self.free() < self.capacity / 4
    }
}

// === impl StreamWindow ===

impl StreamWindow {
    pub(crate) fn new(initial: u32, max: u32) -> Self {
        let initial = u64::from(initial);
        Self {
            initial,
            max: u64::from(max),
            size: initial,
            granted: initial,
            held: 0,
            returning: 0,
            since: None,
        }
    }

    pub(crate) fn on_arrived(&mut self, now: Instant, bytes: usize) -> Result<(), Overrun> {
        let bytes = count(bytes);
        self.granted = self.granted.checked_sub(bytes).ok_or(Overrun)?;
        self.held += bytes;
        self.since.get_or_insert(now);
        Ok(())
    }

    /// The reader took bytes. Returns how many the peer may send in addition, when it is time to
    /// say so.
    pub(crate) fn on_read(
        &mut self,
        now: Instant,
        bytes: usize,
        rtt: Option<Duration>,
        pool: &mut GrowthPool,
    ) -> Option<u32> {
        let bytes = count(bytes).min(self.held);
        self.held -= bytes;
        self.returning += bytes;
        if self.returning < self.size.div_ceil(2) {
            return None;
        }
        let horizon = rtt.unwrap_or(MIN_HORIZON).max(MIN_HORIZON);
        let took = self
            .since
            .take()
            .map_or(Duration::MAX, |since| now.saturating_duration_since(since));
        if took < horizon {
            self.grow(pool);
        } else if took > horizon.saturating_mul(SLOW_HORIZONS) && pool.is_short() {
            self.shrink(pool);
        }
        self.since = (self.held > 0).then_some(now);
        let grant = std::mem::take(&mut self.returning);
        self.granted += grant;
        u32::try_from(grant).ok().filter(|grant| *grant > 0)
    }

    fn grow(&mut self, pool: &mut GrowthPool) {
        let more = pool.take(self.size.min(self.max.saturating_sub(self.size)));
        self.size += more;
        self.returning += more;
    }

    /// Gives back what is grown and about to be granted again; never below the initial window.
    fn shrink(&mut self, pool: &mut GrowthPool) {
        let less = self.size.saturating_sub(self.initial).min(self.returning);
        self.size -= less;
        self.returning -= less;
        pool.give_back(less);
    }

    /// The stream is over.
    pub(crate) fn close(&self, pool: &mut GrowthPool) {
        pool.give_back(self.size.saturating_sub(self.initial));
    }

    pub(crate) fn held(&self) -> u64 {
        self.held
    }
}

// === impl SessionWindow ===

impl SessionWindow {
    pub(crate) fn new(size: u32) -> Self {
        let size = u64::from(size);
        Self {
            size,
            granted: size,
            returning: 0,
        }
    }

    /// Bytes arrived. Returns how many the peer may send in addition, when it is time to say so.
    pub(crate) fn on_arrived(&mut self, bytes: usize) -> Result<Option<u32>, Overrun> {
        let bytes = count(bytes);
        self.granted = self.granted.checked_sub(bytes).ok_or(Overrun)?;
        self.returning += bytes;
        if self.returning < self.size / 4 {
            return Ok(None);
        }
        let grant = std::mem::take(&mut self.returning);
        self.granted += grant;
        Ok(u32::try_from(grant).ok().filter(|grant| *grant > 0))
    }
}

// === impl SendCredit ===

impl SendCredit {
    pub(crate) fn new(bytes: u32) -> Self {
        Self(u64::from(bytes))
    }

    /// How many bytes may be sent.
    pub(crate) fn available(&self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    pub(crate) fn spend(&mut self, bytes: usize) {
        self.0 = self.0.saturating_sub(count(bytes));
    }

    /// Fails when the sum is beyond what a window can be.
    pub(crate) fn add(&mut self, bytes: u32) -> Result<(), Overrun> {
        let sum = self.0 + u64::from(bytes);
        if sum > u64::from(u32::MAX) {
            return Err(Overrun);
        }
        self.0 = sum;
        Ok(())
    }
}

pub(crate) fn count(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
