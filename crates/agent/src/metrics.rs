//! What the agent counts.

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};

/// Label: how a stream ended, from a closed set.
type Outcome = [(&'static str, &'static str); 1];

/// What the agent counts. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    streams: Family<Outcome, Counter>,
    open: Gauge,
    bytes: Family<Direction, Counter>,
    sessions: Gauge,
}

/// Label: `sent` to the hub, or `received` from it.
type Direction = [(&'static str, &'static str); 1];

/// Counts one more of something until it is dropped.
#[derive(Debug)]
#[must_use = "dropped at once it counts nothing"]
pub(crate) struct Counted(Gauge);

// === impl Metrics ===

impl Metrics {
    /// Counts into this registry.
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let registry = registry.sub_registry_with_prefix("strait_agent");
        registry.register(
            "streams",
            "Streams to services by how they ended",
            metrics.streams.clone(),
        );
        registry.register(
            "open_streams",
            "Streams to services that are open",
            metrics.open.clone(),
        );
        registry.register_with_unit(
            "stream",
            "Bytes through finished streams",
            Unit::Bytes,
            metrics.bytes.clone(),
        );
        registry.register(
            "sessions",
            "Sessions with hubs that stand",
            metrics.sessions.clone(),
        );
        metrics
    }

    /// A stream has ended after so many bytes to the hub and from it.
    pub(crate) fn bytes(&self, sent: u64, received: u64) {
        for (direction, bytes) in [("sent", sent), ("received", received)] {
            let counter = self.bytes.get_or_create(&[("direction", direction)]);
            counter.inc_by(bytes);
        }
    }

    /// A session stands.
    pub(crate) fn session(&self) -> Counted {
        Counted::new(&self.sessions)
    }

    /// A stream has ended, or was refused with this code.
    pub(crate) fn stream(&self, outcome: &'static str) {
        self.streams.get_or_create(&[("outcome", outcome)]).inc();
    }

    /// A stream is open.
    pub(crate) fn open(&self) -> Counted {
        Counted::new(&self.open)
    }
}

// === impl Counted ===

impl Counted {
    fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}
