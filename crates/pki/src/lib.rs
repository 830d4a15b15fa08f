//! Keys, requests and certificates: made, read, watched, and turned into TLS configurations.
//!
//! The only crypto provider is aws-lc-rs. Nothing here reads the clock: whoever needs the time
//! passes it. Rotation is the pure function [`rotation`].
#![warn(missing_docs)]

mod bundle;
mod ca;
mod certificate;
mod error;
mod file_watch;
mod identity;
mod reload;
mod request;
mod rotation;
mod serving;
mod spiffe;
mod tls;
mod verify;

pub use bundle::{Bundle, InvalidBundle};
pub use ca::{Ca, Issued};
pub use certificate::{Subject, Validity};
pub use error::PkiError;
pub use file_watch::{FileError, FileWatch, MAX_FILE_BYTES, follow_files};
pub use identity::Identity;
pub use reload::Reloadable;
pub use request::{AgentKey, AgentRequest, RequestError};
pub use rotation::{Rotation, rotation};
pub use serving::{Clock, NameCheck, ServingCerts, ServingConfig};
pub use spiffe::{
    AgentName, DEFAULT_TRUST_DOMAIN, InvalidPeer, InvalidTrustDomain, TrustDomain, peer_agent,
};
pub use tls::{
    ALPN_HTTP1, ALPN_SESSION, ServerTrust, agent_server_config, caller_server_config,
    client_config, provider, session_client_config,
};
pub use verify::ClientVerifier;
