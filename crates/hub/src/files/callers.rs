//! Callers with tokens that were written down, and their rights.

use std::sync::Arc;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use strait_api::wire_names::{CLUSTER_GROUP, CONNECT_VERB, ENTRYPOINTS, PROXY_GROUP};
use strait_file_kit::{Ask, HubFile, Rights};
use strait_types::{ClusterName, Redacted};

use crate::{
    User,
    deps::{Reviews, Unanswered},
};

/// A group that everybody who is known belongs to.
const AUTHENTICATED: &str = "system:authenticated";

/// Who is known, and what they may do.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// What is left out, and why; a sentence each.
    pub(super) left_out: Vec<String>,
    /// SHA-256 of a token in lower-case hexadecimal, and whose it is.
    callers: Vec<(Redacted, User)>,
    rights: Rights,
}

/// Reviews by what was written down.
#[derive(Debug)]
pub(super) struct FileReviews {
    known: Arc<Mutex<Known>>,
}

// === impl Known ===

impl Known {
    /// Reads the files of tokens that a hub's file names. A caller whose file cannot be read is
    /// nobody: deleting the file takes the token back.
    pub(super) fn read(file: &HubFile) -> Self {
        let (mut callers, mut left_out) = (vec![], vec![]);
        for caller in &file.spec.callers {
            let hash = match (&caller.token_sha256, &caller.token_file) {
                (Some(hash), _) => hash.to_ascii_lowercase(),
                (None, Some(path)) => {
                    let token = match std::fs::read_to_string(path) {
                        Ok(token) if !token.trim().is_empty() => token,
                        Ok(_) => {
                            left_out.push(format!("{}: {} is empty", caller.user, path.display()));
                            continue;
                        }
                        Err(error) => {
                            let path = path.display();
                            left_out.push(format!("{}: {path}: {error}", caller.user));
                            continue;
                        }
                    };
                    hash(token.trim())
                }
                (None, None) => continue,
            };
            let mut groups = caller.groups.clone();
            groups.push(AUTHENTICATED.to_owned());
            let user = User {
                name: caller.user.clone(),
                groups,
                ..User::default()
            };
            callers.push((Redacted::new(hash), user));
        }
        Self {
            left_out,
            callers,
            rights: file.rights.clone(),
        }
    }

    /// Says who is left out.
    pub(super) fn warn(&self) {
        for caller in &self.left_out {
            tracing::warn!(caller, "this caller is left out");
        }
    }

    /// Every token is compared, in constant time.
    fn who_is(&self, token: &Redacted) -> Option<User> {
        let hash = Redacted::new(hash(token.reveal()));
        let mut found = None;
        for (known, user) in &self.callers {
            if *known == hash {
                found = Some(user);
            }
        }
        found.cloned()
    }
}

/// Rights are compared with the text that they were read from, beside this.
impl PartialEq for Known {
    fn eq(&self, other: &Self) -> bool {
        (&self.callers, &self.left_out) == (&other.callers, &other.left_out)
    }
}

impl Eq for Known {}

fn hash(token: &str) -> String {
    let digest = Sha256::digest(token.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

// === impl FileReviews ===

impl FileReviews {
    pub(super) fn new(known: Arc<Mutex<Known>>) -> Self {
        Self { known }
    }

    fn allow(&self, user: &User, ask: &Ask<'_>) -> bool {
        let known = self.known.lock();
        known.rights.allow(&user.name, &user.groups, ask)
    }
}

impl Reviews for FileReviews {
    fn who_is<'a>(
        &'a self,
        token: &'a Redacted,
    ) -> BoxFuture<'a, Result<Option<User>, Unanswered>> {
        let user = self.known.lock().who_is(token);
        Box::pin(async { Ok(user) })
    }

    fn may_connect<'a>(
        &'a self,
        user: &'a User,
        cluster: &'a ClusterName,
        object: &'a str,
    ) -> BoxFuture<'a, Result<bool, Unanswered>> {
        let ask = Ask {
            verb: CONNECT_VERB,
            group: PROXY_GROUP,
            resource: ENTRYPOINTS,
            namespace: Some(cluster.as_str()),
            name: Some(object),
        };
        let allowed = self.allow(user, &ask);
        Box::pin(async move { Ok(allowed) })
    }

    fn may_list_members<'a>(&'a self, user: &'a User) -> BoxFuture<'a, Result<bool, Unanswered>> {
        let ask = Ask {
            verb: "list",
            group: CLUSTER_GROUP,
            resource: "managedclusters",
            namespace: None,
            name: None,
        };
        let allowed = self.allow(user, &ask);
        Box::pin(async move { Ok(allowed) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_as_long_as_its_file_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("dev.token");
        std::fs::write(&token, "secret\n").unwrap();
        let text = "apiVersion: strait.dev/v1alpha1\nkind: HubConfiguration\nspec:\n  callers:\n  \
                    - {user: dev, tokenFile: dev.token}\n";
        let file = HubFile::parse(text, &folder.path().join("hub.yaml")).unwrap();
        let who =
            |known: &Known, token: &str| known.who_is(&Redacted::new(token)).map(|user| user.name);
        let known = Known::read(&file);
        assert_eq!(known.left_out, Vec::<String>::new());
        assert_eq!(who(&known, "secret").as_deref(), Some("dev"));
        assert_eq!(who(&known, "other"), None);
        std::fs::remove_file(&token).unwrap();
        let without = Known::read(&file);
        assert_eq!(who(&without, "secret"), None);
        assert_eq!(without.left_out.len(), 1);
        assert_ne!(known, without);
    }
}
