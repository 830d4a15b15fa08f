//! Hub and agent without Kubernetes: the same kinds in YAML, and what has to be kept in a
//! directory.
//!
//! A [`HubFile`] is everything that people say; a [`State`] is everything that the hub has to
//! remember: its authorities, its members' uids and join tokens.
#![warn(missing_docs)]

mod agent_file;
mod documents;
mod hub_file;
mod rights;
mod state;

pub use agent_file::AgentFile;
pub use documents::DocumentError;
pub use hub_file::{HubFile, HubSpec, StaticCaller};
pub use rights::{Ask, Rights};
pub use state::{State, StateError, TokenVersion};
