//! Who connects.

use std::{collections::BTreeMap, fmt, sync::Arc};

use rustls_pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use strait_types::Redacted;

/// A user as the API server of the hub's cluster knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The uid, empty when there is none.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// What else the API server's authenticator said.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// How a caller proves who they are. Kept while a stream is open, to ask again.
#[derive(Clone)]
pub(crate) enum Credential {
    /// A bearer token.
    Token(Redacted),
    /// A client certificate, leaf first; its key was proven in the handshake.
    Certificate(Arc<[CertificateDer<'static>]>),
    /// The hub's local socket, which only this user may open.
    LocalSocket(Arc<User>),
}

/// A SHA-256 that stands for something in caches.
pub(crate) type Fingerprint = [u8; 32];

/// A caller whose credential was good a moment ago.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    user: Arc<User>,
    user_fingerprint: Fingerprint,
    credential: Credential,
    fingerprint: Fingerprint,
}

// === impl User ===

impl User {
    /// Stands for everything that decides about the user's rights.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        let mut hash = Sha256::new();
        let mut add = |text: &str| {
            hash.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(text);
        };
        add(&self.name);
        add(&self.uid);
        add(&self.groups.len().to_string());
        self.groups.iter().for_each(|group| add(group));
        for (key, values) in &self.extra {
            add(key);
            add(&values.len().to_string());
            values.iter().for_each(|value| add(value));
        }
        hash.finalize().into()
    }
}

// === impl Credential ===

impl Credential {
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        let mut hash = Sha256::new();
        match self {
            Self::Token(token) => {
                hash.update(b"token\0");
                hash.update(token.reveal());
            }
            Self::Certificate(chain) => {
                hash.update(b"certificate\0");
                for certificate in chain.iter() {
                    hash.update(
                        u64::try_from(certificate.len())
                            .unwrap_or(u64::MAX)
                            .to_be_bytes(),
                    );
                    hash.update(certificate);
                }
            }
            Self::LocalSocket(user) => {
                hash.update(b"local socket\0");
                hash.update(user.fingerprint());
            }
        }
        hash.finalize().into()
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Token(_) => "Token([redacted])",
            Self::Certificate(_) => "Certificate",
            Self::LocalSocket(_) => "LocalSocket",
        })
    }
}

// === impl Caller ===

impl Caller {
    pub(crate) fn new(user: Arc<User>, credential: Credential, fingerprint: Fingerprint) -> Self {
        Self {
            user_fingerprint: user.fingerprint(),
            user,
            credential,
            fingerprint,
        }
    }

    /// Who it is.
    pub(crate) fn user(&self) -> &Arc<User> {
        &self.user
    }

    /// Stands for the user in caches.
    pub(crate) fn user_fingerprint(&self) -> Fingerprint {
        self.user_fingerprint
    }

    /// How they proved it.
    pub(crate) fn credential(&self) -> &Credential {
        &self.credential
    }

    /// Stands for the credential in caches.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_with_other_rights_have_other_fingerprints() {
        let user = |groups: &[&str]| User {
            name: "dev".to_owned(),
            groups: groups.iter().map(|g| (*g).to_owned()).collect(),
            ..User::default()
        };
        assert_eq!(
            user(&["a", "b"]).fingerprint(),
            user(&["a", "b"]).fingerprint()
        );
        assert_ne!(user(&["a", "b"]).fingerprint(), user(&["ab"]).fingerprint());
        assert_ne!(user(&["a"]).fingerprint(), user(&[]).fingerprint());
    }

    #[test]
    fn a_credential_does_not_print() {
        let credential = Credential::Token(Redacted::new("hunter2"));
        assert!(!format!("{credential:?}").contains("hunter2"));
    }
}
