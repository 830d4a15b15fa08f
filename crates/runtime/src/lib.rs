//! What every role needs around its work: owned tasks, the clock, backoff, logs, health.
#![warn(missing_docs)]

pub mod admin;
mod backoff;
pub mod clock;
mod read_ahead;
mod reset_on_drop;
mod signal;
mod tasks;
mod telemetry;

pub use backoff::Backoff;
pub use read_ahead::ReadAhead;
pub use reset_on_drop::ResetOnDrop;
pub use signal::stop_signal;
pub use tasks::Tasks;
pub use telemetry::{LogArgs, LogError, LogFilter, LogFormat};
