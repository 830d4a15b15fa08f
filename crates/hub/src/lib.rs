//! The hub: accepts agents, and serves those who want to reach services of their clusters.
//!
//! [`Hub::bind`] takes a [`HubConfig`] and what the hub needs from outside ([`Deps`]), which
//! [`kubernetes::connect`] takes from a cluster and [`files::Files`] from files. Then [`Hub::run`] serves until it is told to stop.
//!
//! A request goes through: front end (what is asked for, and with which credential) → decisions
//! (who is it) → snapshot (where does the name lead) → decisions (may they) → agent sessions (which
//! one) → the agent. Each step can refuse with a code of one closed set, and each stream leaves one
//! line in the audit log.
#![warn(missing_docs)]

mod agent_session;
mod agent_sessions;
mod agents;
mod app;
mod audit;
mod authority;
mod caller;
mod callers_trust;
mod certificate_watch;
mod config;
mod credential;
mod decisions;
mod deps;
mod file_report;
pub mod files;
mod frontend;
mod headers;
mod join;
pub mod kubernetes;
mod listener;
mod live;
mod local_socket;
mod material_files;
mod member_report;
mod member_writer;
mod metrics;
mod problem;
mod rate_limit;
mod reach;
mod review_queue;
mod revocation;
mod select;
mod slots;
mod snapshot;
mod source;
mod tls_configs;
mod upstream;

pub use app::{BindError, Hub, PartEnded};
pub use caller::User;
pub use config::{HubArgs, HubConfig, InvalidHubConfig, Limits, Times};
pub use deps::{Deps, JoinTokens, Material, Members, Notices, RecordVersion, Reviews, Unanswered};
pub use file_report::FileReport;
pub use member_report::MemberReport;
pub use snapshot::{Objects, Snapshot};
