//! How a cluster joins: the token file, the request and the answers.

use std::{fmt, str::FromStr};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::{ClusterName, Redacted};

/// The path at the hub that takes a [`JoinRequest`].
pub const JOIN_PATH: &str = "/.strait/v1/join";

/// The public half of a join token: 1 to 32 of `a-z0-9`. It names the Secret at the hub.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TokenId(Box<str>);

/// The secret that proves the right to join once: `<id>.<secret>`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JoinCredential {
    id: TokenId,
    secret: Redacted,
}

/// The token file: what `strait token create` writes and `strait join` reads, as YAML or JSON.
/// Everything but `token` may be read by anyone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JoinToken {
    /// The cluster that may join with it.
    pub cluster: ClusterName,
    /// After this the hub refuses it.
    pub expires: Timestamp,
    /// Where the hub listens, `host:port`, tried in this order.
    pub hubs: Vec<String>,
    /// PEM certificates that the hub's certificate must chain to.
    pub ca_bundle: String,
    /// The secret.
    pub token: JoinCredential,
}

/// What an agent posts to [`JOIN_PATH`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JoinRequest {
    /// The cluster that the agent believes to join.
    pub cluster: ClusterName,
    /// The secret of the token file.
    pub token: JoinCredential,
    /// PEM certificate request. Its key is taken, its names are not.
    pub csr: String,
}

/// What the hub answers to a good request; also what a renewal gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JoinAnswer {
    /// PEM certificate chain of the agent, leaf first.
    pub certificate: String,
    /// PEM certificates that the hub's certificate chains to, from here on.
    pub ca_bundle: String,
    /// Where the hub listens, from here on; may be empty: as before.
    #[serde(default)]
    pub hubs: Vec<String>,
}

/// What an agent asks in a stream that it opens with target `control:renew`, before its certificate
/// ends. The session says which cluster it is. On the stream, in both directions: a big-endian `u32`
/// length, at most [`RenewRequest::MAX_BYTES`], then JSON; then FIN.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RenewRequest {
    /// PEM certificate request with a new key.
    pub csr: String,
}

/// What the hub answers to a [`RenewRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RenewAnswer {
    /// The new certificate.
    Issued(JoinAnswer),
    /// There is none, for this reason.
    Refused(JoinRefusal),
}

/// Why the hub refuses a join. The text is the stable code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Error)]
#[serde(rename_all = "kebab-case")]
pub enum JoinRefusal {
    /// The token was used before.
    #[error("this join token has been used; each token joins one cluster once")]
    TokenUsed,
    /// The token's time is over.
    #[error("this join token has expired")]
    TokenExpired,
    /// The hub never issued such a token: it belongs to another hub, or is wrong.
    #[error("this hub does not know this join token; it was made for another hub, or was deleted")]
    TokenForeign,
    /// The token was made for another cluster.
    #[error("this join token was made for another cluster")]
    OtherCluster,
    /// The certificate request cannot be read or its key is not accepted.
    #[error("the certificate request is not valid")]
    BadRequest,
    /// The request as a whole cannot be read.
    #[error("the request to join cannot be read")]
    Malformed,
    /// The hub cannot look the token up now.
    #[error("the hub cannot check join tokens at the moment")]
    Unavailable,
}

/// Why a text is not a join credential.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("a join token has the form `<id>.<secret>`")]
pub struct InvalidJoinToken;

// === impl RenewRequest ===

impl RenewRequest {
    /// The longest JSON of a renewal that is sent or read, in bytes: bundles of hundreds of
    /// certificates fit.
    pub const MAX_BYTES: u32 = 1 << 20;
}

// === impl TokenId ===

impl TokenId {
    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TokenId {
    type Err = InvalidJoinToken;

    fn from_str(text: &str) -> Result<Self, InvalidJoinToken> {
        let good = (1..=32).contains(&text.len())
            && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9'));
        if good {
            Ok(Self(text.into()))
        } else {
            Err(InvalidJoinToken)
        }
    }
}

impl TryFrom<String> for TokenId {
    type Error = InvalidJoinToken;

    fn try_from(text: String) -> Result<Self, InvalidJoinToken> {
        text.parse()
    }
}

impl From<TokenId> for String {
    fn from(id: TokenId) -> Self {
        id.0.into()
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl JoinCredential ===

impl JoinCredential {
    /// Makes a credential of 8 random bytes for the id and 32 for the secret.
    #[must_use]
    pub fn from_random(id: [u8; 8], secret: [u8; 32]) -> Self {
        let id: String = id.iter().map(|b| format!("{b:02x}")).collect();
        Self {
            id: TokenId(id.into()),
            secret: Redacted::new(BASE64_URL_SAFE_NO_PAD.encode(secret)),
        }
    }

    /// The public half.
    #[must_use]
    pub fn id(&self) -> &TokenId {
        &self.id
    }

    /// What the hub stores: lower-case hex SHA-256 of the secret.
    #[must_use]
    pub fn secret_hash(&self) -> Redacted {
        let digest = Sha256::digest(self.secret.reveal().as_bytes());
        Redacted::new(
            digest
                .iter()
                .map(|b| format!("{b:02x}"))
                .collect::<String>(),
        )
    }
}

impl FromStr for JoinCredential {
    type Err = InvalidJoinToken;

    fn from_str(text: &str) -> Result<Self, InvalidJoinToken> {
        let (id, secret) = text.split_once('.').ok_or(InvalidJoinToken)?;
        if secret.is_empty() || secret.len() > 256 {
            return Err(InvalidJoinToken);
        }
        Ok(Self {
            id: id.parse()?,
            secret: Redacted::new(secret),
        })
    }
}

impl TryFrom<String> for JoinCredential {
    type Error = InvalidJoinToken;

    fn try_from(text: String) -> Result<Self, InvalidJoinToken> {
        text.parse()
    }
}

impl From<JoinCredential> for String {
    fn from(credential: JoinCredential) -> Self {
        format!("{}.{}", credential.id, credential.secret.reveal())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_survives_its_text_and_hides_its_secret() {
        let made = JoinCredential::from_random([7; 8], [9; 32]);
        let text = String::from(made.clone());
        assert_eq!(text.parse::<JoinCredential>().unwrap(), made);
        assert!(!format!("{made:?}").contains(text.split_once('.').unwrap().1));
    }

    #[test]
    fn other_texts_are_no_credentials() {
        for text in ["", ".", "a.", ".b", "A.b", "a", "../x.y"] {
            assert!(text.parse::<JoinCredential>().is_err(), "{text}");
        }
    }
}
