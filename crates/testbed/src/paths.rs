//! Where things are kept. The only reader of the environment in this crate.

use std::path::{Path, PathBuf};

use crate::plan::Set;

/// The folder for everything about running clusters: `/var/lib/strait-testbed` for root, whose clusters are
/// the machine's, and below the user's state folder for others, who can only name clusters that exist.
/// Outside the checkout, so that another clone can use the clusters and take them down.
pub(crate) fn state() -> PathBuf {
    if is_root() {
        PathBuf::from("/var/lib/strait-testbed")
    } else {
        user_folder("XDG_STATE_HOME", ".local/state").join("strait-testbed")
    }
}

/// The folder of one set.
pub(crate) fn set(set: Set) -> PathBuf {
    state().join(set.name())
}

/// The folder for what can be made again: `$XDG_CACHE_HOME/strait` or `~/.cache/strait`.
pub(crate) fn cache() -> PathBuf {
    user_folder("XDG_CACHE_HOME", ".cache").join("strait")
}

/// The top of the checkout that this crate was compiled from.
pub(crate) fn workspace() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}

/// Whether this process may make namespaces.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn user_folder(variable: &str, default: &str) -> PathBuf {
    #[expect(
        clippy::disallowed_methods,
        reason = "a folder of the user's desktop, not a setting of ours; tests that attach have no command line"
    )]
    let chosen = std::env::var_os(variable).filter(|value| !value.is_empty());
    chosen.map_or_else(
        || {
            std::env::home_dir()
                .unwrap_or_else(|| PathBuf::from("/"))
                .join(default)
        },
        PathBuf::from,
    )
}

/// The folders in which a shell would look for programs.
pub(crate) fn search_path() -> Vec<PathBuf> {
    #[expect(
        clippy::disallowed_methods,
        reason = "where a user's own kubectl is, not a setting of ours"
    )]
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).collect()
}
