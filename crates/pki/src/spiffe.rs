//! Names of agents in their certificates: `spiffe://<trust domain>/cluster/<name>`, and in the
//! subject the uid of the member that the certificate was issued to.

use std::{fmt, str::FromStr};

use strait_types::ClusterName;
use thiserror::Error;
use x509_parser::{certificate::X509Certificate, der_parser::Oid, extensions::GeneralName};

use crate::{PkiError, certificate};

/// The trust domain when none is given.
pub const DEFAULT_TRUST_DOMAIN: &str = "strait.local";

/// The attribute of a subject that holds a uid: 1.3.6.1.4.1.57683.2, where Kubernetes reads the
/// uid of a user from a client certificate.
pub(crate) const MEMBER_UID: [u64; 8] = [1, 3, 6, 1, 4, 1, 57683, 2];

/// Whose agent a certificate was issued to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentName {
    /// The cluster.
    pub cluster: ClusterName,
    /// The uid of its object in the inventory, so that a certificate ends with the member: one
    /// that comes later under the same name is another. Empty where the inventory has no uids.
    pub member: String,
}

/// The authority of the names of agents: 1 to 255 of `a-z0-9.-_` (SPIFFE ID, section 2.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustDomain(Box<str>);

/// Why a peer's certificate names no cluster.
#[derive(Debug, Error)]
pub enum InvalidPeer {
    /// It cannot be read.
    #[error("failed to read the peer's certificate")]
    Unreadable(#[source] PkiError),
    /// It has not exactly one URI; holds how many.
    #[error("it has {0} URI names, an agent's certificate has one")]
    Uris(usize),
    /// Its URI is not one of an agent of this trust domain.
    #[error("`{0}` does not name a cluster of this trust domain")]
    OtherName(String),
    /// It holds several uids of members, or one that is no text.
    #[error("the uid of the member in its subject cannot be read")]
    Member,
}

/// The text is no trust domain.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("a trust domain has 1 to 255 of a-z, 0-9, `.`, `-`, `_`")]
pub struct InvalidTrustDomain;

// === impl TrustDomain ===

impl TrustDomain {
    /// The URI of a cluster's agents.
    #[must_use]
    pub fn cluster_uri(&self, cluster: &ClusterName) -> String {
        format!("spiffe://{self}/cluster/{cluster}")
    }
}

impl Default for TrustDomain {
    fn default() -> Self {
        Self(DEFAULT_TRUST_DOMAIN.into())
    }
}

impl FromStr for TrustDomain {
    type Err = InvalidTrustDomain;

    fn from_str(text: &str) -> Result<Self, InvalidTrustDomain> {
        let good = (1..=255).contains(&text.len())
            && text
                .bytes()
                .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b'_'));
        if good {
            Ok(Self(text.into()))
        } else {
            Err(InvalidTrustDomain)
        }
    }
}

impl fmt::Display for TrustDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whose agent a certificate names. Whether the certificate is to be trusted at all was decided by
/// the TLS handshake.
///
/// # Errors
/// When it has not exactly one URI name, that is not of the form of this trust domain, or there
/// are several uids.
pub fn peer_agent(der: &[u8], trust_domain: &TrustDomain) -> Result<AgentName, InvalidPeer> {
    let certificate = certificate::parse(der).map_err(InvalidPeer::Unreadable)?;
    let names = certificate
        .subject_alternative_name()
        .map_err(|source| InvalidPeer::Unreadable(PkiError::NotX509(source)))?
        .map(|extension| extension.value.general_names.as_slice())
        .unwrap_or_default();
    let uris: Vec<&str> = names
        .iter()
        .filter_map(|name| match name {
            GeneralName::URI(uri) => Some(*uri),
            _ => None,
        })
        .collect();
    let [uri] = uris.as_slice() else {
        return Err(InvalidPeer::Uris(uris.len()));
    };
    let cluster = uri
        .strip_prefix("spiffe://")
        .and_then(|rest| rest.strip_prefix(&*trust_domain.0))
        .and_then(|rest| rest.strip_prefix("/cluster/"))
        .and_then(|name| name.parse().ok())
        .ok_or_else(|| InvalidPeer::OtherName(uri.chars().take(300).collect()))?;
    let member = member_of(&certificate).ok_or(InvalidPeer::Member)?;
    Ok(AgentName { cluster, member })
}

/// The uid in the subject, empty when there is none; `None` when there are several or it is no
/// text.
fn member_of(certificate: &X509Certificate<'_>) -> Option<String> {
    let uid = Oid::from(&MEMBER_UID).ok()?;
    let mut uids = certificate.subject().iter_by_oid(&uid);
    match (uids.next(), uids.next()) {
        (None, _) => Some(String::new()),
        (Some(uid), None) => uid.as_str().ok().map(str::to_owned),
        (Some(_), Some(_)) => None,
    }
}
