//! The agent: runs in a member, dials every hub, and connects to local services for them.
//!
//! What the hub may reach is decided here as well: a service must be in the hub's table *and* in
//! the agent's allow-list, and its endpoints must be addresses that a service may have.
#![warn(missing_docs)]

mod address;
mod app;
mod config;
mod connect;
mod dial;
#[cfg(test)]
mod fake_hub;
mod identity;
mod link;
mod metrics;
#[cfg(test)]
mod middlebox;
mod port;
mod services;
mod session;
mod status;
mod table;
mod transport;
#[cfg(test)]
mod world;

pub use app::{Agent, Deps, PartEnded};
pub use config::{AgentArgs, AgentConfig, ConfigError, Storage};
pub use identity::{
    DirectoryStore, IdentityStore, Materials, SecretStore, StoreError, StoredIdentity,
};
pub use services::{
    Endpoint, FileServices, KubeServices, LookupError, Service, ServicePort, Services,
    ServicesFileError,
};
pub use status::{ConfigMapStatus, LogStatus, StatusSink};
