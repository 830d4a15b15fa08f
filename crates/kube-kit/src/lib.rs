//! How we talk to API servers: one maker of clients, watches that survive anything, writes by
//! server-side apply, leadership as a value.
#![warn(missing_docs)]

mod apply;
mod classify;
mod client;
mod controller;
mod crds;
mod delete;
mod lease;
mod watch;

pub use apply::{ApplyError, FieldManager, says};
pub use classify::{Classify, Verdict};
pub use client::{ClientArgs, ConnectError, Connection};
pub use controller::{Controller, Round, drive};
pub use crds::{CrdError, await_served as await_crds, install as install_crds};
pub use delete::{DeleteError, delete_same};
pub use lease::{Leadership, LeaseConfig, elect};
pub use watch::{Objects, watch};
