//! How we talk to API servers: one maker of clients, watches that survive anything, writes by
//! server-side apply, leadership as a value.
#![warn(missing_docs)]

mod apply;
mod classify;
mod client;
mod crds;
mod lease;
mod watch;

pub use apply::{ApplyError, FieldManager, says};
pub use classify::{Classify, Verdict};
pub use client::{ClientArgs, ConnectError, Connection};
pub use crds::{CrdError, install as install_crds};
pub use lease::{Leadership, LeaseConfig, elect};
pub use watch::{Objects, watch};
