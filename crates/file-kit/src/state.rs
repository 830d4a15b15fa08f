//! What a hub without Kubernetes has to remember, in a directory of its own.
//!
//! ```text
//! hub-ca/{tls.crt,tls.key,ca.crt}     signs the hub's certificates
//! agent-ca/{tls.crt,tls.key,ca.crt}   signs agents' certificates
//! members/<cluster>                   the uid of a cluster that has joined
//! join-tokens/<id>.json               one token each: its hash, cluster, times
//! ```

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use rand::Rng;
use strait_install::JoinRecord;
use strait_pki::{Ca, PkiError};
use strait_types::{ClusterName, TokenId};
use thiserror::Error;

/// How long the authorities live: ten years.
const CA_LIFETIME: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);

/// A hub's directory. Only one hub may have it; others may put tokens into it.
#[derive(Debug)]
pub struct State {
    directory: PathBuf,
    /// One change at a time.
    writing: Mutex<()>,
}

/// The content of a token's file when it was read; opaque.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenVersion(pub String);

/// What is in the directory cannot be read or written.
#[derive(Debug, Error)]
pub enum StateError {
    /// A file.
    #[error("failed to use {path}", path = path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// An authority could not be made.
    #[error("failed to make an authority")]
    Authority(#[source] PkiError),
}

// === impl State ===

impl State {
    /// Opens a directory, and makes what is missing: the directory and both authorities.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn open(directory: &Path, now: Timestamp) -> Result<Self, StateError> {
        let state = Self {
            directory: directory.to_owned(),
            writing: Mutex::new(()),
        };
        for folder in ["", "members", "join-tokens"] {
            state.make_folder(folder)?;
        }
        for (folder, name) in [("hub-ca", "strait hub"), ("agent-ca", "strait agents")] {
            state.make_authority(folder, name, now)?;
        }
        Ok(state)
    }

    /// Certificate, key and bundle of the authority that signs the hub's certificates.
    #[must_use]
    pub fn hub_ca(&self) -> [PathBuf; 3] {
        self.authority("hub-ca")
    }

    /// The same of the one that signs agents' certificates.
    #[must_use]
    pub fn agent_ca(&self) -> [PathBuf; 3] {
        self.authority("agent-ca")
    }

    /// The clusters that have joined, and their uids.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn members(&self) -> Result<BTreeMap<ClusterName, String>, StateError> {
        let folder = self.directory.join("members");
        let failed = |source| file(&folder, source);
        let mut members = BTreeMap::new();
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            if let Some(cluster) = name.and_then(|name| name.parse().ok()) {
                let uid = fs::read_to_string(&path).map_err(|source| file(&path, source))?;
                members.insert(cluster, uid.trim().to_owned());
            }
        }
        Ok(members)
    }

    /// The uid of a cluster; a new one when it joins for the first time.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn ensure_member(&self, cluster: &ClusterName) -> Result<String, StateError> {
        let _one = self.writing.lock();
        let path = self.directory.join("members").join(cluster.as_str());
        match fs::read_to_string(&path) {
            Ok(uid) => Ok(uid.trim().to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut bytes = [0; 16];
                rand::rng().fill_bytes(&mut bytes);
                let uid: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                write(&path, uid.as_bytes())?;
                Ok(uid)
            }
            Err(source) => Err(file(&path, source)),
        }
    }

    /// The record of a token and its version; `None` when there is none that can be read.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn find_token(
        &self,
        id: &TokenId,
    ) -> Result<Option<(JoinRecord, TokenVersion)>, StateError> {
        let path = self.token(id);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(file(&path, source)),
        };
        let data: BTreeMap<String, String> = serde_json::from_str(&text).unwrap_or_default();
        let record = JoinRecord::from_data(&data).ok();
        Ok(record.map(|record| (record, TokenVersion(text))))
    }

    /// Replaces the record of a token, if it still has this version. Returns whether it had.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn replace_token(
        &self,
        id: &TokenId,
        version: &TokenVersion,
        record: &JoinRecord,
    ) -> Result<bool, StateError> {
        let _one = self.writing.lock();
        let path = self.token(id);
        let now = fs::read_to_string(&path).map_err(|source| file(&path, source))?;
        if now != version.0 {
            return Ok(false);
        }
        self.write_token(id, record)?;
        Ok(true)
    }

    /// Puts a new token down.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_token(&self, id: &TokenId, record: &JoinRecord) -> Result<(), StateError> {
        let data = serde_json::to_string(&record.to_data()).unwrap_or_default();
        write(&self.token(id), data.as_bytes())
    }

    fn token(&self, id: &TokenId) -> PathBuf {
        self.directory
            .join("join-tokens")
            .join(format!("{id}.json"))
    }

    fn authority(&self, folder: &str) -> [PathBuf; 3] {
        ["tls.crt", "tls.key", "ca.crt"].map(|name| self.directory.join(folder).join(name))
    }

    fn make_folder(&self, folder: &str) -> Result<(), StateError> {
        let path = self.directory.join(folder);
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path);
        made.map_err(|source| file(&path, source))
    }

    /// The key is written last: an authority without one is made anew.
    fn make_authority(&self, folder: &str, name: &str, now: Timestamp) -> Result<(), StateError> {
        let [certificate, key, bundle] = self.authority(folder);
        if key.exists() {
            return Ok(());
        }
        self.make_folder(folder)?;
        let ca = Ca::generate(name, CA_LIFETIME, now).map_err(StateError::Authority)?;
        write(&certificate, ca.certificate_pem().as_bytes())?;
        write(&bundle, ca.certificate_pem().as_bytes())?;
        write(&key, ca.key_pem().reveal().as_bytes())
    }
}

fn file(path: &Path, source: io::Error) -> StateError {
    StateError::File {
        path: path.to_owned(),
        source,
    }
}

/// Writes beside the file and puts it in its place, so that nobody reads half of it; readable by
/// its owner alone.
fn write(path: &Path, content: &[u8]) -> Result<(), StateError> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let written = || -> io::Result<()> {
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&beside)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        // A token that is used stays used, also when the power fails.
        let folder = path.parent().unwrap_or_else(|| Path::new("."));
        fs::File::open(folder)?.sync_all()
    };
    written().map_err(|source| file(path, source))
}

#[cfg(test)]
mod tests {
    use strait_types::{JoinCredential, Redacted};

    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap()
    }

    #[test]
    fn authorities_are_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let first = State::open(folder.path(), now()).unwrap();
        let read = |state: &State| fs::read_to_string(&state.hub_ca()[0]).unwrap();
        let (certificate, key) = (
            read(&first),
            fs::read_to_string(&first.hub_ca()[1]).unwrap(),
        );
        Ca::from_pem(&certificate, &Redacted::new(key)).unwrap();
        let again = State::open(folder.path(), now()).unwrap();
        assert_eq!(read(&again), certificate);
    }

    #[test]
    fn a_member_keeps_its_uid_until_it_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::open(folder.path(), now()).unwrap();
        let cluster: ClusterName = "cluster1".parse().unwrap();
        let uid = state.ensure_member(&cluster).unwrap();
        assert_eq!(state.ensure_member(&cluster).unwrap(), uid);
        assert_eq!(state.members().unwrap()[&cluster], uid);
        fs::remove_file(folder.path().join("members/cluster1")).unwrap();
        assert!(state.members().unwrap().is_empty());
        assert_ne!(state.ensure_member(&cluster).unwrap(), uid);
    }

    #[test]
    fn a_token_is_replaced_by_who_has_read_it_last() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::open(folder.path(), now()).unwrap();
        let token = JoinCredential::from_random([1; 8], [2; 32]);
        assert!(state.find_token(token.id()).unwrap().is_none());
        let record = JoinRecord::new("cluster1".parse().unwrap(), &token, now());
        state.write_token(token.id(), &record).unwrap();
        let (found, version) = state.find_token(token.id()).unwrap().unwrap();
        assert_eq!(found, record);
        let used = JoinRecord {
            used_at: Some(now()),
            ..record
        };
        assert!(state.replace_token(token.id(), &version, &used).unwrap());
        assert!(!state.replace_token(token.id(), &version, &used).unwrap());
    }
}
