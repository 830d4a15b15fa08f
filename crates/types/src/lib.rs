//! Names and numbers that cross crates, checked once, when made.
//!
//! A value of one of these types is valid: its fields are private and every constructor checks.
//! Nothing here does I/O, and nothing knows Kubernetes beyond the form of its names.
#![warn(missing_docs)]

mod allow;
mod carrier;
mod cluster_name;
mod exposure_table;
mod hub_status;
mod join;
mod label;
mod port;
mod redacted;
mod refusal;
mod service_name;
mod target;

pub use allow::{AllowPattern, InvalidAllowPattern};
pub use carrier::{CarrierKind, SESSION_PATH, SESSION_PROTOCOL};
pub use cluster_name::ClusterName;
pub use exposure_table::{ExposedService, ExposureTable};
pub use hub_status::{HubStatus, STATUS_PATH, SessionStatus};
pub use join::{
    InvalidJoinToken, JOIN_PATH, JoinAnswer, JoinCredential, JoinRefusal, JoinRequest, JoinToken,
    RenewAnswer, RenewRequest, TokenId,
};
pub use label::InvalidLabel;
pub use port::{InvalidPort, Port};
pub use redacted::Redacted;
pub use refusal::{Refusal, RefusalCode, Side};
pub use service_name::{InvalidServiceName, ServiceName};
pub use target::{AcceptDetail, InvalidTarget, PortChoice, Target};
