//! What the hub counts.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Registry, Unit},
};

use crate::audit::Bytes;

/// What the hub counts. Clones share the numbers.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    streams: Family<StreamLabels, Counter>,
    open: Gauge,
    seconds: Histogram,
    bytes: Family<DirectionLabels, Counter>,
    handshakes: Family<OutcomeLabels, Counter>,
    joins: Family<OutcomeLabels, Counter>,
    sessions: Gauge,
    expiry: Family<WhichLabels, Gauge<i64>>,
    reload_problems: Family<WhichLabels, Gauge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StreamLabels {
    via: &'static str,
    code: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DirectionLabels {
    direction: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WhichLabels {
    which: &'static str,
}

/// Counts one more of something until it is dropped.
#[derive(Debug)]
#[must_use = "dropped at once it counts nothing"]
pub(crate) struct Counted(Gauge);

// === impl Metrics ===

impl Metrics {
    /// Registers everything.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("strait_hub");
        let metrics = Self {
            streams: Family::default(),
            open: Gauge::default(),
            seconds: Histogram::new(exponential_buckets(0.001, 4.0, 12)),
            bytes: Family::default(),
            handshakes: Family::default(),
            joins: Family::default(),
            sessions: Gauge::default(),
            expiry: Family::default(),
            reload_problems: Family::default(),
        };
        registry.register(
            "streams",
            "Finished streams and refusals",
            metrics.streams.clone(),
        );
        registry.register(
            "streams_open",
            "Streams that are open",
            metrics.open.clone(),
        );
        registry.register_with_unit(
            "stream_duration",
            "How long finished streams were open",
            Unit::Seconds,
            metrics.seconds.clone(),
        );
        registry.register_with_unit(
            "stream",
            "Bytes through finished streams",
            Unit::Bytes,
            metrics.bytes.clone(),
        );
        registry.register("handshakes", "TLS handshakes", metrics.handshakes.clone());
        registry.register(
            "joins",
            "Requests to join and to renew",
            metrics.joins.clone(),
        );
        registry.register("sessions", "Sessions with agents", metrics.sessions.clone());
        registry.register_with_unit(
            "certificate_expiry",
            "Time until a certificate ends",
            Unit::Seconds,
            metrics.expiry.clone(),
        );
        registry.register(
            "reload_problem",
            "1 while a file or Secret is broken and its last good content is in force",
            metrics.reload_problems.clone(),
        );
        metrics
    }

    pub(crate) fn finished(
        &self,
        via: &'static str,
        code: &'static str,
        bytes: Bytes,
        duration: Option<Duration>,
    ) {
        self.streams
            .get_or_create(&StreamLabels { via, code })
            .inc();
        if let Some(duration) = duration {
            self.seconds.observe(duration.as_secs_f64());
        }
        self.bytes
            .get_or_create(&DirectionLabels { direction: "sent" })
            .inc_by(bytes.sent);
        self.bytes
            .get_or_create(&DirectionLabels {
                direction: "received",
            })
            .inc_by(bytes.received);
    }

    pub(crate) fn open_stream(&self) -> Counted {
        Counted::new(&self.open)
    }

    pub(crate) fn open_session(&self) -> Counted {
        Counted::new(&self.sessions)
    }

    pub(crate) fn handshake(&self, outcome: &'static str) {
        self.handshakes
            .get_or_create(&OutcomeLabels { outcome })
            .inc();
    }

    pub(crate) fn join(&self, outcome: &'static str) {
        self.joins.get_or_create(&OutcomeLabels { outcome }).inc();
    }

    pub(crate) fn expiry(&self, which: &'static str, seconds: i64) {
        self.expiry
            .get_or_create(&WhichLabels { which })
            .set(seconds);
    }

    pub(crate) fn reload_problem(&self, which: &'static str, there: bool) {
        self.reload_problems
            .get_or_create(&WhichLabels { which })
            .set(i64::from(there));
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
