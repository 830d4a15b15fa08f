//! What the agent counts.

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// Label: how a stream ended, from a closed set.
type Outcome = [(&'static str, &'static str); 1];

/// What the agent counts. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    streams: Family<Outcome, Counter>,
    open: Gauge,
}

/// Counts a stream as open; dropped, it is not any more.
#[derive(Debug)]
#[must_use = "dropping the guard at once counts the stream as closed"]
pub(crate) struct OpenStream(Gauge);

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
        metrics
    }

    /// A stream has ended, or was refused with this code.
    pub(crate) fn stream(&self, outcome: &'static str) {
        self.streams.get_or_create(&[("outcome", outcome)]).inc();
    }

    /// A stream is open.
    pub(crate) fn open(&self) -> OpenStream {
        self.open.inc();
        OpenStream(self.open.clone())
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.dec();
    }
}
