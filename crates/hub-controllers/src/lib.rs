//! Keeps entrypoints, members' namespaces and certificates at the hub as they should be.
//!
//! Each controller looks at everything it decides about at once, decides by a pure function, and
//! writes what differs: see `observe`, `decide` and `apply` in its folder. Nothing is written at
//! rest, and nothing by a process that does not lead.
#![warn(missing_docs)]

mod app;
mod certificates;
mod clusters;
mod config;
mod entrypoints;
mod grants;
mod inventory;
mod join_tokens;
mod metrics;

pub use app::run;
pub use config::{ControllerArgs, ControllerConfig, InvalidControllerConfig};
pub use metrics::Metrics;
