//! The agent: runs in a member, dials every hub, and connects to local services for them.
//!
//! What the hub may reach is decided here as well: a service must be in the hub's table *and* in
//! the agent's allow-list, and its endpoints must be addresses that a service may have.
#![warn(missing_docs)]

mod address;
mod dial;
mod frames;
mod port;
mod services;
mod table;

pub use services::{Endpoint, KubeServices, LookupError, Service, ServicePort, Services};
