//! Who the agent is: its certificate, where it comes from and where it is kept.

mod active;
mod decide;
mod directory;
mod join;
mod keeper;
mod pace;
mod renew;
mod secret;

use std::{fmt, sync::Arc};

use futures::future::BoxFuture;
use strait_types::{JoinToken, Redacted};
use thiserror::Error;
use tokio::sync::watch;

pub(crate) use self::{
    active::Active,
    join::{HubJoiner, Joiner},
    keeper::{Keeper, chain},
    renew::{RenewError, Renewer, renew_over},
};
pub use self::{directory::DirectoryStore, secret::SecretStore};

/// An identity as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredIdentity {
    /// The cluster that it was issued for.
    pub cluster: String,
    /// PEM of the certificate chain, leaf first.
    pub certificate: String,
    /// PEM of the private key. It was made by this agent and never leaves it.
    pub key: Redacted,
    /// PEM of what the hubs' certificates must chain to.
    pub ca_bundle: String,
    /// Where the hubs listen, `host:port` each.
    pub hubs: Vec<String>,
    /// The id of the token that it was got with; empty when by other means.
    pub token: String,
}

/// What an agent finds: its identity, and a token to get one with.
#[derive(Clone, Debug, Default)]
pub struct Materials {
    /// Whether it has been looked at all.
    pub loaded: bool,
    /// The identity, when there is one.
    pub identity: Option<Arc<StoredIdentity>>,
    /// The token, when there is one that can be read.
    pub token: Option<Arc<JoinToken>>,
    /// What is there and cannot be read, and why; no secrets.
    pub problem: Option<String>,
}

/// An identity could not be kept.
#[derive(Debug, Error)]
#[error("failed to keep the identity in {place}")]
pub struct StoreError {
    /// Where.
    pub place: String,
    /// Why.
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// Where an identity and a token are kept.
pub trait IdentityStore: fmt::Debug + Send + Sync + 'static {
    /// What is there, again and again as it changes.
    fn materials(&self) -> watch::Receiver<Materials>;

    /// Keeps an identity in place of the one before.
    fn save<'a>(&'a self, identity: &'a StoredIdentity) -> BoxFuture<'a, Result<(), StoreError>>;
}

// The keys of the Secret, and the names of the files.
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const CA_BUNDLE: &str = "ca.crt";
const HUBS: &str = "hubs";
const CLUSTER: &str = "cluster";
const TOKEN: &str = "token";

// === impl StoredIdentity ===

impl StoredIdentity {
    /// Reads what `get` finds under the keys; `None` when there is no certificate at all.
    fn from_parts(get: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let text = |key: &str| get(key).unwrap_or_default();
        let certificate = get(CERTIFICATE).filter(|text| !text.trim().is_empty())?;
        Some(Self {
            cluster: text(CLUSTER).trim().to_owned(),
            certificate,
            key: Redacted::new(text(KEY)),
            ca_bundle: text(CA_BUNDLE),
            hubs: text(HUBS).split_whitespace().map(str::to_owned).collect(),
            token: text(TOKEN).trim().to_owned(),
        })
    }

    /// The texts under their keys. The key comes before its certificate, so that who reads them
    /// while they are written sees two that do not match, and not an old pair.
    fn parts(&self) -> [(&'static str, String); 6] {
        [
            (KEY, self.key.reveal().to_owned()),
            (CA_BUNDLE, self.ca_bundle.clone()),
            (HUBS, self.hubs.join("\n")),
            (CLUSTER, self.cluster.clone()),
            (TOKEN, self.token.clone()),
            (CERTIFICATE, self.certificate.clone()),
        ]
    }
}

/// Reads a token file without quoting it in the error.
fn parse_token(text: &str) -> Result<JoinToken, String> {
    match serde_saphyr::from_str(text) {
        Ok(token) => Ok(token),
        Err(wrong) => Err(match wrong.location() {
            Some(at) => format!(
                "line {} of the join token is not what it should be",
                at.line()
            ),
            None => "the join token is not what it should be".to_owned(),
        }),
    }
}

/// The hubs from now on: those that the hub names, unless the agent was told to use others.
fn next_hubs(current: &[String], named: Vec<String>) -> Vec<String> {
    if current.is_empty() || named.iter().any(|hub| current.contains(hub)) {
        named
    } else {
        current.to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hubs_that_the_agent_was_told_are_not_replaced_by_others() {
        let named = || vec!["a:1".to_owned(), "b:1".to_owned()];
        assert_eq!(next_hubs(&["b:1".to_owned()], named()), named());
        assert_eq!(
            next_hubs(&["10.0.0.5:1".to_owned()], named()),
            ["10.0.0.5:1"]
        );
        assert_eq!(next_hubs(&["a:1".to_owned()], vec![]), ["a:1"]);
        assert_eq!(next_hubs(&[], named()), named());
    }

    #[test]
    fn a_wrong_token_is_not_quoted() {
        assert!(
            !parse_token("token: [hunter2")
                .unwrap_err()
                .contains("hunter2")
        );
    }
}
