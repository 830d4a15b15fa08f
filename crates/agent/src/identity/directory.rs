//! An identity kept in files, for an agent outside of a cluster.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use futures::future::BoxFuture;
use tokio::{io::AsyncWriteExt, sync::watch};
use tokio_util::sync::CancellationToken;

use super::{
    CA_BUNDLE, CERTIFICATE, CLUSTER, HUBS, IdentityStore, KEY, Materials, StoreError,
    StoredIdentity, TOKEN, parse_token,
};

/// How often the files are looked at.
const EVERY: Duration = Duration::from_secs(1);

/// An identity in the files of a directory, and a token in a file of its own.
#[derive(Debug)]
pub struct DirectoryStore {
    directory: PathBuf,
    materials: watch::Sender<Materials>,
}

// === impl DirectoryStore ===

impl DirectoryStore {
    /// Keeps the identity in `directory` (`tls.crt`, `tls.key`, `ca.crt`, `hubs`, `cluster`,
    /// `token`) and reads the token file `token`, if one is given. The future looks at the files
    /// until it is stopped.
    pub fn new(
        directory: PathBuf,
        token: Option<PathBuf>,
        stop: CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (materials, _) = watch::channel(Materials::default());
        let store = Self {
            directory: directory.clone(),
            materials: materials.clone(),
        };
        let watching = async move {
            while !stop.is_cancelled() {
                let new = load(&directory, token.as_deref()).await;
                materials.send_if_modified(|old| replaced(old, new));
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = tokio::time::sleep(EVERY) => {}
                }
            }
        };
        (store, watching)
    }
}

impl IdentityStore for DirectoryStore {
    fn materials(&self) -> watch::Receiver<Materials> {
        self.materials.subscribe()
    }

    fn save<'a>(&'a self, identity: &'a StoredIdentity) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            save(&self.directory, identity)
                .await
                .map_err(|source| StoreError {
                    place: self.directory.display().to_string(),
                    source: source.into(),
                })
        })
    }
}

/// Takes what is new; returns whether it is.
fn replaced(old: &mut Materials, new: Materials) -> bool {
    let same =
        (&old.identity, &old.token, &old.problem) == (&new.identity, &new.token, &new.problem);
    if old.loaded && same {
        return false;
    }
    *old = new;
    true
}

async fn load(directory: &Path, token: Option<&Path>) -> Materials {
    let mut found = std::collections::BTreeMap::new();
    let mut problem = None;
    for name in [CERTIFICATE, KEY, CA_BUNDLE, HUBS, CLUSTER, TOKEN] {
        match read(&directory.join(name)).await {
            Ok(Some(text)) => {
                found.insert(name, text);
            }
            Ok(None) => {}
            Err(error) => problem = Some(error),
        }
    }
    let identity = StoredIdentity::from_parts(|key| found.get(key).cloned());
    let mut parsed = None;
    if let Some(path) = token {
        match read(path)
            .await
            .and_then(|text| text.as_deref().map(parse_token).transpose())
        {
            Ok(found) => parsed = found.map(Into::into),
            Err(error) => problem = Some(error),
        }
    }
    Materials {
        loaded: true,
        identity: identity.map(Into::into),
        token: parsed,
        problem,
    }
}

async fn read(path: &Path) -> Result<Option<String>, String> {
    match tokio::fs::read_to_string(path).await {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("failed to read {}: {error}", path.display())),
    }
}

async fn save(directory: &Path, identity: &StoredIdentity) -> io::Result<()> {
    tokio::fs::create_dir_all(directory).await?;
    for (name, text) in identity.parts() {
        let new = directory.join(format!(".{name}.new"));
        let _ = tokio::fs::remove_file(&new).await;
        let mut options = tokio::fs::OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)
            .await?;
        file.write_all(text.as_bytes()).await?;
        file.sync_all().await?;
        tokio::fs::rename(&new, directory.join(name)).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use strait_types::Redacted;

    use super::*;

    #[tokio::test]
    async fn an_identity_survives_its_files() {
        let directory = tempfile::tempdir().unwrap();
        let identity = StoredIdentity {
            cluster: "cluster1".to_owned(),
            certificate: "CERT\n".to_owned(),
            key: Redacted::new("KEY\n"),
            ca_bundle: "CA\n".to_owned(),
            hubs: vec!["a:1".to_owned(), "b:2".to_owned()],
            token: "ab".to_owned(),
        };
        assert!(load(directory.path(), None).await.identity.is_none());
        save(directory.path(), &identity).await.unwrap();
        let loaded = load(directory.path(), None).await;
        assert_eq!(loaded.identity.as_deref(), Some(&identity));
        assert_eq!(loaded.problem, None);
        let key = std::fs::metadata(directory.path().join("tls.key")).unwrap();
        assert_eq!(
            std::os::unix::fs::PermissionsExt::mode(&key.permissions()) & 0o777,
            0o600
        );
    }

    #[tokio::test]
    async fn a_wrong_token_file_is_a_problem_and_not_quoted() {
        let directory = tempfile::tempdir().unwrap();
        let token = directory.path().join("join");
        std::fs::write(&token, "hunter2").unwrap();
        let loaded = load(directory.path(), Some(&token)).await;
        assert!(!loaded.problem.unwrap().contains("hunter2"));
    }
}
