//! One line for each stream: who, from where, to what, what was decided, how it ended.

use std::{
    fmt,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use strait_runtime::clock;
use strait_types::{Refusal, RefusalCode};

use crate::metrics::Metrics;

/// How a caller came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Via {
    /// HTTP CONNECT.
    Connect,
    /// A request to the hub as to a forward proxy.
    ForwardProxy,
    /// HTTPS under the name of a service.
    HttpsByHost,
}

/// How an open stream ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Both sides said that they are done.
    Complete,
    /// The caller went away.
    CallerGone,
    /// The service, or the way to it, went away.
    TargetGone,
    /// The hub cut it.
    Cut(RefusalCode),
}

/// Bytes that went through a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bytes {
    /// From the caller to the service.
    pub(crate) sent: u64,
    /// From the service to the caller.
    pub(crate) received: u64,
}

/// Counts the bytes of a connection to a service, which may serve several streams one after another.
/// Clones share the numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    received: AtomicU64,
    service_ended: AtomicBool,
}

/// What is known so far; dropped unfinished, the line is written all the same.
#[derive(Debug)]
#[must_use = "dropped at once it writes a line without an end"]
pub(crate) struct AuditLine {
    metrics: Metrics,
    source: SocketAddr,
    via: Via,
    name: String,
    started: Instant,
    caller: String,
    entrypoint: String,
    cluster: String,
    allowed: bool,
    written: bool,
    /// Where the stream's bytes are counted, and what had been counted before it.
    meter: Option<(Meter, Bytes)>,
}

// === impl AuditLine ===

impl AuditLine {
    /// Somebody asked for `name`.
    pub(crate) fn begin(metrics: &Metrics, source: SocketAddr, via: Via, name: &str) -> Self {
        Self {
            metrics: metrics.clone(),
            source,
            via,
            name: clean(name),
            started: clock::now(),
            caller: String::new(),
            entrypoint: String::new(),
            cluster: String::new(),
            allowed: false,
            written: false,
            meter: None,
        }
    }

    /// It is this user.
    pub(crate) fn caller(&mut self, user: &str) {
        self.caller = clean(user);
    }

    /// The name leads here.
    pub(crate) fn entrypoint(&mut self, cluster: &str, object: &str) {
        cluster.clone_into(&mut self.cluster);
        object.clone_into(&mut self.entrypoint);
    }

    /// The caller may connect, and the stream is open.
    pub(crate) fn allowed(&mut self) {
        self.allowed = true;
    }

    /// From here on the stream's bytes are counted here.
    pub(crate) fn counted_by(&mut self, meter: &Meter) {
        self.meter = Some((meter.clone(), meter.bytes()));
    }

    /// The bytes until now, if they are counted.
    pub(crate) fn bytes(&self) -> Bytes {
        self.meter
            .as_ref()
            .map_or_else(Bytes::default, |(meter, before)| {
                let now = meter.bytes();
                Bytes {
                    sent: now.sent - before.sent,
                    received: now.received - before.received,
                }
            })
    }

    /// The caller got this instead.
    pub(crate) fn refused(mut self, refusal: &Refusal) {
        let bytes = self.bytes();
        self.write(refusal.code.as_str(), bytes, &clean(&refusal.message));
    }

    /// The stream was open and has ended.
    pub(crate) fn ended(mut self, bytes: Bytes, end: &End) {
        self.write(end.code(), bytes, &end.to_string());
    }

    fn write(&mut self, code: &'static str, bytes: Bytes, end: &str) {
        self.written = true;
        let duration = clock::now().saturating_duration_since(self.started);
        let lasted = self.allowed.then_some(duration);
        self.metrics
            .finished(self.via.as_str(), code, bytes, lasted);
        tracing::info!(
            target: "strait::audit",
            caller = self.caller,
            source = %self.source,
            via = self.via.as_str(),
            name = self.name,
            entrypoint = self.entrypoint,
            cluster = self.cluster,
            decision = if self.allowed { "allowed" } else { "refused" },
            code,
            sent = bytes.sent,
            received = bytes.received,
            duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            end,
            "stream"
        );
    }
}

impl Drop for AuditLine {
    fn drop(&mut self) {
        if !self.written {
            let (end, bytes) = (End::CallerGone, self.bytes());
            self.write(end.code(), bytes, &end.to_string());
        }
    }
}

// === impl Meter ===

impl Meter {
    /// So many more went to the service.
    pub(crate) fn sent(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(0);
        self.0.sent.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many more came from the service.
    pub(crate) fn received(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(0);
        self.0.received.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The service sends no more, or its connection broke.
    pub(crate) fn service_ended(&self) {
        self.0.service_ended.store(true, Ordering::Relaxed);
    }

    /// Who went away, when an exchange of bytes broke: the service if it ended before.
    pub(crate) fn broken(&self) -> End {
        if self.0.service_ended.load(Ordering::Relaxed) {
            End::TargetGone
        } else {
            End::CallerGone
        }
    }

    fn bytes(&self) -> Bytes {
        Bytes {
            sent: self.0.sent.load(Ordering::Relaxed),
            received: self.0.received.load(Ordering::Relaxed),
        }
    }
}

// === impl Via ===

impl Via {
    /// A word for the audit and the metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::ForwardProxy => "forward-proxy",
            Self::HttpsByHost => "https-by-host",
        }
    }

    /// Whether the caller speaks to the hub as to a proxy, with a proxy's status codes.
    pub(crate) fn is_proxy(self) -> bool {
        self != Self::HttpsByHost
    }
}

// === impl End ===

impl End {
    fn code(&self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::CallerGone => "caller-gone",
            Self::TargetGone => "target-gone",
            Self::Cut(code) => code.as_str(),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Complete => f.write_str("both sides finished"),
            Self::CallerGone => f.write_str("the caller went away"),
            Self::TargetGone => f.write_str("the service or the way to it went away"),
            Self::Cut(code) => write!(f, "cut by the hub: {code}"),
        }
    }
}

/// What others chose, without control characters and at most 300 characters long.
pub(crate) fn clean(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .take(300)
        .collect()
}
