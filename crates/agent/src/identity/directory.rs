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
/// Holds a whole identity that is not yet, or not all, in its place. A process that finds it puts
/// the rest there: an identity is replaced as a whole, also when the one who does it is killed.
const NEXT: &str = ".next";
/// Becomes [`NEXT`] when it is whole.
const UNFINISHED: &str = ".unfinished";

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
            if let Err(error) = put_in_place(&directory).await {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(directory = %directory.display(), error, "an identity that was being saved is not all in its place");
            }
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
    // What was decided before is done first: it is not to come back later.
    put_in_place(directory).await?;
    let unfinished = directory.join(UNFINISHED);
    remove_directory(&unfinished).await?;
    tokio::fs::create_dir(&unfinished).await?;
    for (name, text) in identity.parts() {
        let mut options = tokio::fs::OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let mut file = options.open(unfinished.join(name)).await?;
        file.write_all(text.as_bytes()).await?;
        file.sync_all().await?;
    }
    sync(&unfinished).await?;
    tokio::fs::rename(&unfinished, directory.join(NEXT)).await?;
    sync(directory).await?;
    put_in_place(directory).await
}

/// Moves what is in [`NEXT`] to its place, the certificate last. Nothing to do when there is none.
async fn put_in_place(directory: &Path) -> io::Result<()> {
    let next = directory.join(NEXT);
    if !tokio::fs::try_exists(&next).await? {
        return Ok(());
    }
    for name in [KEY, CA_BUNDLE, HUBS, CLUSTER, TOKEN, CERTIFICATE] {
        match tokio::fs::rename(next.join(name), directory.join(name)).await {
            // It is in its place already.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            moved => moved?,
        }
    }
    sync(directory).await?;
    remove_directory(&next).await
}

async fn remove_directory(path: &Path) -> io::Result<()> {
    match tokio::fs::remove_dir_all(path).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Makes what happened in a directory last.
async fn sync(directory: &Path) -> io::Result<()> {
    tokio::fs::File::open(directory).await?.sync_all().await
}

#[cfg(test)]
mod tests {
    use strait_types::Redacted;

    use super::*;

    #[tokio::test]
    async fn an_identity_survives_its_files() {
        let directory = tempfile::tempdir().unwrap();
        let identity = identity("1");
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
        let names = std::fs::read_dir(directory.path()).unwrap();
        assert_eq!(names.count(), 6, "nothing is left over");
    }

    #[tokio::test]
    async fn an_identity_is_replaced_as_a_whole_wherever_its_writer_dies() {
        // The writer dies before the new one is whole, and after so many files were moved.
        for moved in [None, Some(0), Some(1), Some(3), Some(6)] {
            let directory = tempfile::tempdir().unwrap();
            let (old, new) = (identity("1"), identity("2"));
            save(directory.path(), &old).await.unwrap();
            let whole = directory
                .path()
                .join(if moved.is_some() { NEXT } else { UNFINISHED });
            std::fs::create_dir(&whole).unwrap();
            for (number, (name, text)) in new.parts().into_iter().enumerate() {
                let place = match moved {
                    Some(moved) if number < moved => directory.path(),
                    _ => &whole,
                };
                std::fs::write(place.join(name), text).unwrap();
            }
            let stop = CancellationToken::new();
            let (store, watching) =
                DirectoryStore::new(directory.path().to_owned(), None, stop.clone());
            let mut materials = store.materials();
            let (found, ()) = tokio::join!(
                async {
                    let loaded = materials.wait_for(|m| m.loaded).await.unwrap();
                    let found = loaded.identity.as_deref().cloned();
                    stop.cancel();
                    found
                },
                watching
            );
            let expected = if moved.is_some() { new } else { old };
            assert_eq!(found, Some(expected), "{moved:?}");
            save(directory.path(), &identity("3")).await.unwrap();
            let loaded = load(directory.path(), None).await;
            assert_eq!(loaded.identity.as_deref(), Some(&identity("3")));
        }
    }

    /// An identity that differs from that of another number in everything.
    fn identity(number: &str) -> StoredIdentity {
        StoredIdentity {
            cluster: format!("cluster{number}"),
            certificate: format!("CERT {number}\n"),
            key: Redacted::new(format!("KEY {number}\n")),
            ca_bundle: format!("CA {number}\n"),
            hubs: vec![format!("a:{number}"), format!("b:{number}")],
            token: format!("ab{number}"),
        }
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
