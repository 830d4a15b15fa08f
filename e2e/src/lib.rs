//! The stage on which the demo and the end-to-end tests play: three real clusters, a hub in one,
//! agents in the others, services in those.
//!
//! `demo` sets the stage for people, `stage` for tests, which then attach to it. Everything is done
//! as a user does it: with the `strait` command line and kubectl.
#![warn(missing_docs)]

mod client;
mod eventually;
mod manifest;
mod stage;

pub use client::{Answer, Caller, Credential, Refused, Through};
pub use eventually::eventually;
pub use manifest::{caller_rights, member_admin, service};
pub use stage::{DOMAIN, Said, Stage};
