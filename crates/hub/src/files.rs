//! The hub's needs, met by files: for hubs outside of Kubernetes.
//!
//! What people say is one YAML file with the kinds that a cluster has; what the hub has to remember
//! is a directory. Both are looked at every second. A file that is wrong leaves the last good one
//! in force.

mod callers;
mod material;
mod store;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use kube::core::ObjectMeta;
use parking_lot::Mutex;
use strait_api::{ManagedCluster, ManagedClusterSpec};
use strait_file_kit::{DocumentError, HubFile, State, StateError};
use strait_pki::FileError;
use strait_runtime::Tasks;
use strait_types::ClusterName;
use thiserror::Error;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::{Deps, HubConfig, InvalidHubConfig, Objects, Snapshot};
use callers::{FileReviews, Known};
use store::{FileMembers, FileTokens, LogNotices};

/// How often the files are looked at.
const EVERY: Duration = Duration::from_secs(1);

/// The files cannot be used.
#[derive(Debug, Error)]
pub enum FilesError {
    /// The file cannot be read.
    #[error("failed to read {path}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It says something that cannot be.
    #[error("{path} cannot be used", path = path.display())]
    Document {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: DocumentError,
    },
    /// The hub's directory.
    #[error("the hub's directory cannot be used")]
    State(#[from] StateError),
    /// A certificate file.
    #[error("failed to load a file")]
    File(#[from] FileError),
}

/// A hub's file and directory, read for the first time.
#[derive(Debug)]
pub struct Files {
    path: PathBuf,
    text: String,
    file: HubFile,
    known: Known,
    state: Arc<State>,
}

/// What the inventory is made of, kept up to date.
#[derive(Debug)]
struct Source {
    path: PathBuf,
    domain: String,
    state: Arc<State>,
    /// Somebody has joined.
    joined: Arc<Notify>,
    rights: Arc<Mutex<Known>>,
    seen: Seen,
    file: HubFile,
    version: u64,
    told: Option<String>,
}

/// What was read last, to know what is new.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    text: String,
    known: Known,
    members: Vec<(ClusterName, String)>,
}

// === impl Files ===

impl Files {
    /// Reads file and directory; makes what is missing in the directory.
    ///
    /// # Errors
    /// Names the file, the document and the field.
    pub fn open(path: &Path, now: Timestamp) -> Result<Self, FilesError> {
        let (text, file, known) = read(path)?;
        known.warn();
        let directory = file.spec.state_directory.clone().unwrap_or_default();
        let state = Arc::new(State::open(&directory, now)?);
        Ok(Self {
            path: path.to_owned(),
            text,
            file,
            known,
            state,
        })
    }

    /// What flags say, with what the file says in its place.
    ///
    /// # Errors
    /// Names what cannot be.
    pub fn config(&self, flags: HubConfig) -> Result<HubConfig, InvalidHubConfig> {
        let spec = self.file.spec.clone();
        let mut config = flags;
        config.listen = spec.listen.unwrap_or(config.listen);
        config.domain = spec.domain.unwrap_or(config.domain);
        config.callers_ca = spec.callers_ca.or(config.callers_ca);
        if !spec.addresses.is_empty() {
            config.addresses = spec.addresses;
        }
        config.checked()
    }

    /// Meets the hub's needs with them. What follows the files belongs to `tasks`.
    ///
    /// # Errors
    /// When a certificate file cannot be used.
    pub async fn connect(self, config: &HubConfig, tasks: &Tasks) -> Result<Deps, FilesError> {
        let Self {
            path,
            text,
            file,
            known,
            state,
        } = self;
        let material = material::gather(&state, config, tasks).await?;
        let joined = Arc::new(Notify::new());
        let rights = Arc::new(Mutex::new(known.clone()));
        let mut source = Source {
            path,
            domain: config.domain.clone(),
            joined: Arc::clone(&joined),
            rights: Arc::clone(&rights),
            seen: Seen {
                text,
                known,
                members: state.members()?.into_iter().collect(),
            },
            state: Arc::clone(&state),
            file,
            version: 0,
            told: None,
        };
        let (sender, inventory) = watch::channel(Arc::new(source.snapshot()));
        tasks.spawn("inventory", |stop| source.keep(sender, stop));
        Ok(Deps {
            inventory,
            reviews: Arc::new(FileReviews::new(rights)),
            join_tokens: Arc::new(FileTokens::new(Arc::clone(&state))),
            members: Arc::new(FileMembers::new(state, joined)),
            notices: Arc::new(LogNotices),
            material,
        })
    }
}

fn read(path: &Path) -> Result<(String, HubFile, Known), FilesError> {
    let text = std::fs::read_to_string(path).map_err(|source| FilesError::Read {
        path: path.to_owned(),
        source,
    })?;
    let file = HubFile::parse(&text, path).map_err(|source| FilesError::Document {
        path: path.to_owned(),
        source,
    })?;
    let known = Known::read(&file);
    Ok((text, file, known))
}

// === impl Source ===

impl Source {
    /// The inventory of what was read last.
    fn snapshot(&mut self) -> Snapshot {
        self.version += 1;
        let joined = &self.seen.members;
        let mut members = self.file.members.clone();
        for member in &mut members {
            let name = member.metadata.name.clone().unwrap_or_default();
            let uid = joined
                .iter()
                .find(|(cluster, _)| *cluster.as_str() == *name);
            member.metadata.uid = uid.map(|(_, uid)| uid.clone());
        }
        let written = |cluster: &ClusterName| {
            let mut members = self.file.members.iter();
            members.any(|member| member.metadata.name.as_deref() == Some(cluster.as_str()))
        };
        let others = joined.iter().filter(|(cluster, _)| !written(cluster));
        members.extend(others.map(|(cluster, uid)| member(cluster, uid)));
        let names: BTreeSet<ClusterName> = members
            .iter()
            .filter_map(|member| member.metadata.name.as_ref()?.parse().ok())
            .collect();
        let (entrypoints, problems) = self.file.entrypoints(&names);
        for problem in problems {
            tracing::warn!(file = %self.path.display(), %problem, "an entry is left out");
        }
        let objects = Objects {
            entrypoints: entrypoints.into_iter().map(Arc::new).collect(),
            members: members.into_iter().map(Arc::new).collect(),
            configurations: self
                .file
                .configurations
                .iter()
                .cloned()
                .map(Arc::new)
                .collect(),
        };
        Snapshot::new(self.version, &self.domain, &objects)
    }

    async fn keep(mut self, sender: watch::Sender<Arc<Snapshot>>, stop: CancellationToken) {
        let joined = Arc::clone(&self.joined);
        let mut every = tokio::time::interval(EVERY);
        every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = joined.notified() => {}
                _ = every.tick() => {}
            }
            if self.look() {
                sender.send_replace(Arc::new(self.snapshot()));
            }
        }
    }

    /// Reads everything again. Returns whether anything is new.
    fn look(&mut self) -> bool {
        let members = self.state.members().map_err(FilesError::from);
        let read = members.and_then(|members| Ok((read(&self.path)?, members)));
        let ((text, file, known), members) = match read {
            Ok(read) => read,
            Err(error) => {
                self.tell(&error);
                return false;
            }
        };
        self.told = None;
        let seen = Seen {
            text,
            known,
            members: members.into_iter().collect(),
        };
        if seen == self.seen {
            return false;
        }
        seen.known.warn();
        *self.rights.lock() = seen.known.clone();
        self.file = file;
        self.seen = seen;
        tracing::info!(file = %self.path.display(), "loaded");
        true
    }

    /// Once for each problem.
    fn tell(&mut self, error: &FilesError) {
        let mut problem = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(error) = cause {
            problem.push_str(&format!(": {error}"));
            cause = error.source();
        }
        if self.told.as_ref() != Some(&problem) {
            tracing::warn!(problem, "the last good file stays in force");
            self.told = Some(problem);
        }
    }
}

/// A member that joined with a token and is not written down.
fn member(cluster: &ClusterName, uid: &str) -> ManagedCluster {
    ManagedCluster {
        metadata: ObjectMeta {
            name: Some(cluster.to_string()),
            uid: Some(uid.to_owned()),
            ..ObjectMeta::default()
        },
        spec: ManagedClusterSpec {
            hub_accepts_client: true,
            ..ManagedClusterSpec::default()
        },
        status: None,
    }
}
