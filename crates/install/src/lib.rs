//! What is applied to a cluster to make it a hub or a member, as values.
//!
//! Nothing here talks to a cluster: the command line, the controller and other installers apply
//! the same objects. The same input gives the same objects in the same order, each object carries
//! only the fields that we own, and each is found again by [`Part::selector`].
#![warn(missing_docs)]

mod agent;
mod agent_status;
mod crds;
mod hub;
mod hub_info;
mod join_record;
mod object;
mod pod;

pub use agent::AgentInstall;
pub use agent_status::{AgentState, AgentStatus};
pub use crds::crds;
pub use hub::{HubInstall, ServiceType};
pub use hub_info::HubInfo;
pub use join_record::{InvalidJoinRecord, JoinRecord};
pub use object::{Kind, Object, Part};
