//! Pings, round-trip time, giving up.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// How many round trips the minimum is taken over. A queue on the way makes some of them longer,
/// not all.
const SAMPLES: usize = 8;

/// Watches whether the peer is there, and how far away it is.
#[derive(Debug)]
pub(crate) struct Liveness {
    interval: Duration,
    grace: Duration,
    next_ping: Instant,
    outstanding: Option<Outstanding>,
    heard: Instant,
    sent: u64,
    samples: VecDeque<Duration>,
}

#[derive(Debug)]
struct Outstanding {
    opaque: [u8; 8],
    at: Instant,
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    Ping([u8; 8]),
    GiveUp,
}

// === impl Liveness ===

impl Liveness {
    /// Starts with a PING at once, so that the round trip is known early.
    pub(crate) fn new(now: Instant, interval: Duration, grace: Duration) -> Self {
        Self {
            interval,
            grace,
            next_ping: now,
            outstanding: None,
            heard: now,
            sent: 0,
            samples: VecDeque::new(),
        }
    }

    /// Any bytes are a sign of life: a PONG may wait behind a lot of data.
    pub(crate) fn on_heard(&mut self, now: Instant) {
        self.heard = now;
    }

    /// An answer that was not asked for is ignored.
    pub(crate) fn on_pong(&mut self, now: Instant, opaque: [u8; 8]) {
        if let Some(ping) = self.outstanding.take_if(|ping| ping.opaque == opaque) {
            if self.samples.len() == SAMPLES {
                self.samples.pop_front();
            }
            self.samples
                .push_back(now.saturating_duration_since(ping.at));
        }
    }

    pub(crate) fn on_timeout(&mut self, now: Instant) -> Due {
        if now < self.deadline() {
            return Due::Nothing;
        }
        if self.outstanding.is_some() {
            return Due::GiveUp;
        }
        self.sent += 1;
        let opaque = self.sent.to_be_bytes();
        self.outstanding = Some(Outstanding { opaque, at: now });
        self.next_ping = now + self.interval;
        Due::Ping(opaque)
    }

    pub(crate) fn deadline(&self) -> Instant {
        match &self.outstanding {
            Some(ping) => ping.at.max(self.heard) + self.grace,
            None => self.next_ping,
        }
    }

    /// When bytes of the peer arrived last.
    pub(crate) fn heard(&self) -> Instant {
        self.heard
    }

    /// The shortest of the last round trips.
    pub(crate) fn rtt(&self) -> Option<Duration> {
        self.samples.iter().min().copied()
    }
}
