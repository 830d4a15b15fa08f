//! The only reader of the clock.

use std::time::Instant;

use jiff::Timestamp;

/// Monotonic time, from tokio's clock: a paused test pauses this as well.
#[must_use]
pub fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The time of day, for what people read and for the life of certificates.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "this is the one place that reads the wall clock"
)]
pub fn timestamp() -> Timestamp {
    Timestamp::now()
}
