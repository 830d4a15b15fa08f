//! What is known about a set of clusters, and what follows from it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    error::Error,
    plan::{ClusterPlan, Role, Set},
};

/// Written once a set is up as a whole; without it, or with another version, a set is not up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FleetRecord {
    version: u32,
    pub(crate) clusters: Vec<ClusterRecord>,
}

/// One cluster of a set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClusterRecord {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) address: Option<String>,
    pub(crate) origin: Origin,
}

/// Whose cluster it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Origin {
    /// Ours, to be removed by us.
    Made { plan: ClusterPlan },
    /// Somebody's, never started, stopped or changed as a whole.
    Given { load_image: Option<String> },
}

/// What there is of a set before it is started.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// The record of a set that was up as a whole.
    pub(crate) record: Option<FleetRecord>,
    /// The clusters of ours that are alive.
    pub(crate) alive: Vec<String>,
    /// Folders, links or cgroups of this set.
    pub(crate) remains: bool,
}

/// What starting a set begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Nothing is there.
    Start,
    /// It is up as asked for.
    Reuse,
    /// A run that died, or a cluster that did: remove what it left.
    CleanThenStart,
    /// It is up and somebody may be using it.
    Refuse(String),
}

const VERSION: u32 = 1;

// === impl FleetRecord ===

impl FleetRecord {
    pub(crate) fn new(clusters: Vec<ClusterRecord>) -> Self {
        Self {
            version: VERSION,
            clusters,
        }
    }

    /// The record in the set's `folder`; none if there is none or an older program wrote it.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>, Error> {
        let path = file(folder);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::file("read", path)(error)),
        };
        let record: Self =
            serde_json::from_str(&text).map_err(|source| Error::Record { path, source })?;
        Ok(Some(record).filter(|record| record.version == VERSION))
    }

    pub(crate) fn write(&self, folder: &Path) -> Result<(), Error> {
        let path = file(folder);
        let text = serde_json::to_string_pretty(self).map_err(|source| Error::Record {
            path: path.clone(),
            source,
        })?;
        let new = path.with_extension("new");
        fs::write(&new, text).map_err(Error::file("write", &new))?;
        fs::rename(&new, &path).map_err(Error::file("write", &path))
    }

    fn is_given(&self) -> bool {
        self.clusters
            .iter()
            .any(|cluster| matches!(cluster.origin, Origin::Given { .. }))
    }
}

fn file(folder: &Path) -> PathBuf {
    folder.join("fleet.json")
}

/// Decides how to start `set` with `members`. The set's lock is held, so no other run is at work.
pub(crate) fn decide(set: Set, members: usize, seen: &Seen) -> Decision {
    let Some(record) = &seen.record else {
        let nothing = seen.alive.is_empty() && !seen.remains;
        return if nothing {
            Decision::Start
        } else {
            Decision::CleanThenStart
        };
    };
    if record.is_given() {
        return Decision::Refuse(
            "they are clusters that were named with `clusters use`".to_owned(),
        );
    }
    let wanted: Vec<_> = set
        .clusters(members)
        .into_iter()
        .map(|plan| plan.name)
        .collect();
    let there: Vec<_> = record
        .clusters
        .iter()
        .map(|cluster| cluster.name.clone())
        .collect();
    let all_alive = there.iter().all(|name| seen.alive.contains(name));
    match (all_alive, wanted == there) {
        (false, _) => Decision::CleanThenStart,
        (true, true) => Decision::Reuse,
        (true, false) => {
            Decision::Refuse(format!("with {} members", there.len().saturating_sub(1)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(members: usize) -> FleetRecord {
        let clusters = Set::Test
            .clusters(members)
            .into_iter()
            .map(|plan| ClusterRecord {
                name: plan.name.clone(),
                role: plan.role,
                kubeconfig: PathBuf::from("/k"),
                address: Some(plan.address.to_string()),
                origin: Origin::Made { plan },
            });
        FleetRecord::new(clusters.collect())
    }

    fn seen(record: Option<FleetRecord>, alive: &[&str], remains: bool) -> Seen {
        Seen {
            record,
            alive: alive.iter().map(|name| (*name).to_owned()).collect(),
            remains,
        }
    }

    #[test]
    fn what_a_dead_run_left_is_removed_first() {
        let two = ["hub", "cluster1"];
        for (seen, expected) in [
            (seen(None, &[], false), Decision::Start),
            (seen(None, &[], true), Decision::CleanThenStart),
            (seen(None, &["hub"], true), Decision::CleanThenStart),
            (
                seen(Some(record(1)), &["hub"], true),
                Decision::CleanThenStart,
            ),
            (seen(Some(record(1)), &two, true), Decision::Reuse),
        ] {
            assert_eq!(decide(Set::Test, 1, &seen), expected, "{seen:?}");
        }
    }

    #[test]
    fn clusters_in_use_are_not_touched() {
        let other = seen(Some(record(1)), &["hub", "cluster1"], true);
        assert_eq!(
            decide(Set::Test, 2, &other),
            Decision::Refuse("with 1 members".to_owned())
        );
        let mut given = record(1);
        given.clusters[0].origin = Origin::Given { load_image: None };
        let given = seen(Some(given), &[], true);
        assert!(matches!(decide(Set::Test, 1, &given), Decision::Refuse(_)));
    }

    #[test]
    fn a_record_is_read_back() {
        let folder = std::env::temp_dir().join(format!("strait-record-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        assert_eq!(FleetRecord::read(&folder).unwrap(), None);
        record(2).write(&folder).unwrap();
        assert_eq!(FleetRecord::read(&folder).unwrap(), Some(record(2)));
        fs::write(file(&folder), "{").unwrap();
        assert!(matches!(
            FleetRecord::read(&folder),
            Err(Error::Record { .. })
        ));
        fs::remove_dir_all(&folder).unwrap();
    }
}
