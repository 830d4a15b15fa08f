use std::{io, path::PathBuf, time::Duration};

use crate::plan::Set;

/// Why test clusters could not be built, started, used or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Namespaces, bridges and cgroups are the administrator's.
    #[error(
        "starting clusters needs root; run it as root, or name clusters that exist with `cargo xtask clusters use`"
    )]
    NotRoot,
    /// What the machine lacks, and how to get it.
    #[error("{missing} missing on this machine; install: {packages}")]
    Missing {
        /// The programs or files that were looked for.
        missing: String,
        /// Debian's packages that hold them, or where else to find them.
        packages: String,
    },
    /// A program ended with an error.
    #[error("failed to {what}: `{program}` {ending}{output}")]
    Command {
        /// What it was run for.
        what: String,
        /// The program and its first argument.
        program: String,
        /// The exit status, in words.
        ending: String,
        /// The last lines it wrote, indented, or nothing.
        output: String,
    },
    /// A program could not be run at all.
    #[error("failed to run `{program}`")]
    Run {
        /// The program.
        program: String,
        /// The system's answer.
        source: io::Error,
    },
    /// A file or folder could not be read or written.
    #[error("failed to {what} {}", path.display())]
    File {
        /// The verb.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A file of ours says something that we never write.
    #[error("{} is not what this version writes", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// Something did not come true in time.
    #[error("{what} not within {} s; last seen: {last}", limit.as_secs())]
    Timeout {
        /// What was waited for.
        what: String,
        /// How long.
        limit: Duration,
        /// What was seen instead.
        last: String,
    },
    /// A component of a cluster stopped by itself.
    #[error("{component} of {cluster} ended; its log is {}{output}", log.display())]
    Ended {
        /// Which cluster.
        cluster: String,
        /// Which program.
        component: &'static str,
        /// What it wrote.
        log: PathBuf,
        /// The last lines of it, indented, or nothing.
        output: String,
    },
    /// Somebody is at work on this set.
    #[error("another process is starting or stopping the {set} clusters")]
    Busy {
        /// The set.
        set: Set,
    },
    /// The set is up with another shape than the one asked for.
    #[error("the {set} clusters are up already, but {difference}; take them down first")]
    OtherShape {
        /// The set.
        set: Set,
        /// What is not as asked for.
        difference: String,
    },
    /// The set is not up.
    #[error("the {set} clusters are not up; `cargo xtask clusters up --set {set}` starts them")]
    NotUp {
        /// The set.
        set: Set,
    },
    /// The set has no such cluster.
    #[error("the {set} clusters are {known}; there is no `{name}`")]
    NoSuchCluster {
        /// The set.
        set: Set,
        /// What was asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// More or fewer members than the address plan holds.
    #[error("{members} members asked for; 1 to {most} are possible")]
    Members {
        /// What was asked for.
        members: usize,
        /// The most there can be.
        most: usize,
    },
    /// A certificate could not be made.
    #[error("failed to make the certificate of {name}")]
    Certificate {
        /// The subject.
        name: String,
        /// What the library says.
        source: rcgen::Error,
    },
    /// TLS to a cluster could not be set up.
    #[error("failed to set up TLS")]
    Tls(#[source] rustls::Error),
    /// This is for clusters that we made, and this one was given.
    #[error("{name} is not a cluster of ours, so it is not possible to {what}")]
    Given {
        /// The cluster.
        name: String,
        /// What cannot be done.
        what: &'static str,
    },
}

impl Error {
    /// Wraps an I/O error of `path`.
    pub(crate) fn file(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { what, path, source }
    }
}
