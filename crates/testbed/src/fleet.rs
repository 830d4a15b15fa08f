//! A set of clusters as a whole: up, found again, down.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use futures::future;
use serde::Serialize;

use crate::{
    cell::{self, Cell},
    cgroup,
    cluster::{self, Cluster, Parts},
    components::{self, PAUSE_IMAGE},
    error::Error,
    image::Image,
    kube_build::Kube,
    network, packages, paths, pki,
    plan::{ClusterPlan, MOST_MEMBERS, Role, Set},
    progress::Progress,
    record::{self, ClusterRecord, Decision, FleetRecord, Origin, Seen},
    set_lock::SetLock,
};

/// What a fleet shall be.
#[derive(Clone, Debug)]
pub struct FleetSpec {
    /// Which names and addresses it has.
    pub set: Set,
    /// Clusters besides the hub, at least one.
    pub members: usize,
    /// Binaries built by hand; those of this checkout if there are none.
    pub kube: Option<Kube>,
    /// Images (tar files) that every cluster shall have.
    pub images: Vec<PathBuf>,
}

/// A hub and its members, all up.
///
/// Dropping it leaves the clusters as they are.
#[derive(Clone, Debug)]
pub struct Fleet {
    set: Set,
    folder: PathBuf,
    clusters: Vec<Cluster>,
}

/// How a cluster is.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// Which set it belongs to.
    pub set: Set,
    /// Its name in the set.
    pub name: String,
    /// `up`, `starting`, `given`, or `broken` when something of it has ended.
    pub state: &'static str,
    /// Where other clusters reach its node.
    pub address: Option<String>,
    /// The administrator's kubeconfig.
    pub kubeconfig: Option<PathBuf>,
    /// Bytes of memory that its processes hold.
    pub memory: Option<u64>,
    /// The first process of its cell, for `nsenter --target PID --all`.
    pub pid: Option<i32>,
    /// Components that have ended, though nobody asked.
    pub ended: Vec<&'static str>,
}

// === impl Fleet ===

impl Fleet {
    /// Starts the fleet, all clusters at once. One that is up already as asked for is left as it is and only
    /// gets the images; what a dead run left is removed first.
    ///
    /// # Errors
    ///
    /// [`Error::NotRoot`], [`Error::Busy`], [`Error::OtherShape`], and whatever fails on the way. What was
    /// started stays for a look at its logs, until the next `up` or `down`.
    pub async fn up(spec: FleetSpec, progress: &Progress) -> Result<Self, Error> {
        let FleetSpec { set, members, .. } = spec;
        if members == 0 || members > MOST_MEMBERS {
            return Err(Error::Members {
                members,
                most: MOST_MEMBERS,
            });
        }
        if !paths::is_root() {
            return Err(Error::NotRoot);
        }
        let _lock = SetLock::take(set)?;
        match record::decide(set, members, &look(set)?) {
            Decision::Start => {}
            Decision::CleanThenStart => {
                progress.note(&format!(
                    "removing what an earlier run of the {set} clusters left"
                ));
                remove(set).await?;
            }
            Decision::Refuse(difference) => return Err(Error::OtherShape { set, difference }),
            Decision::Reuse => {
                let fleet = Self::attach(set)?;
                fleet.load_images(&spec.images).await?;
                progress.note(&format!("the {set} clusters are up already"));
                return Ok(fleet);
            }
        }
        start(spec, progress).await
    }

    /// Finds the fleet that is up.
    ///
    /// # Errors
    ///
    /// [`Error::NotUp`] unless every cluster of the set is there.
    pub fn attach(set: Set) -> Result<Self, Error> {
        let folder = paths::set(set);
        let record = FleetRecord::read(&folder)?.ok_or(Error::NotUp { set })?;
        let dead = |cluster: &ClusterRecord| {
            matches!(cluster.origin, Origin::Made { .. })
                && Cell::find(&folder.join(&cluster.name)).is_none()
        };
        if record.clusters.iter().any(dead) {
            return Err(Error::NotUp { set });
        }
        Ok(Self::of_record(set, folder, record))
    }

    pub(crate) fn of_record(set: Set, folder: PathBuf, record: FleetRecord) -> Self {
        let kubectl = kubectl_link(&folder);
        let clusters = record
            .clusters
            .into_iter()
            .map(|cluster| {
                let home = folder.join(&cluster.name);
                Cluster::new(cluster, kubectl.clone(), home)
            })
            .collect();
        Self {
            set,
            folder,
            clusters,
        }
    }

    /// Which set it is.
    pub fn set(&self) -> Set {
        self.set
    }

    /// All clusters, the hub first.
    pub fn clusters(&self) -> &[Cluster] {
        &self.clusters
    }

    /// The cluster called `name`.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchCluster`] with the names there are.
    pub fn cluster(&self, name: &str) -> Result<&Cluster, Error> {
        self.clusters
            .iter()
            .find(|cluster| cluster.name() == name)
            .ok_or_else(|| {
                let names: Vec<_> = self.clusters.iter().map(Cluster::name).collect();
                Error::NoSuchCluster {
                    set: self.set,
                    name: name.to_owned(),
                    known: names.join(", "),
                }
            })
    }

    /// The hub's cluster.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchCluster`] never, for a fleet that was started or found.
    pub fn hub(&self) -> Result<&Cluster, Error> {
        self.cluster("hub")
    }

    /// The clusters besides the hub's.
    pub fn members(&self) -> impl Iterator<Item = &Cluster> {
        self.clusters
            .iter()
            .filter(|cluster| cluster.role() == Role::Member)
    }

    /// One kubeconfig with a context per cluster, named as the cluster is; the hub's is current.
    pub fn kubeconfig_path(&self) -> PathBuf {
        merged_kubeconfig(self.set, &self.folder)
    }

    /// kubectl of the clusters' version, also for `PATH`.
    pub fn kubectl_path(&self) -> PathBuf {
        kubectl_link(&self.folder)
    }

    /// Imports images into every cluster.
    ///
    /// # Errors
    ///
    /// As [`Cluster::load_image`].
    pub async fn load_images(&self, tars: &[PathBuf]) -> Result<(), Error> {
        future::try_join_all(self.clusters.iter().map(|cluster| async move {
            for tar in tars {
                cluster.load_image(tar).await?;
            }
            Ok(())
        }))
        .await
        .map(|_all: Vec<()>| ())
    }

    /// Ends the fleet, as [`Self::down_set`].
    ///
    /// # Errors
    ///
    /// As [`Self::down_set`].
    pub async fn down(self, progress: &Progress) -> Result<(), Error> {
        Self::down_set(self.set, progress).await
    }

    /// Ends whatever there is of `set`: running, half started or dead. Given clusters are only forgotten.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] while another process starts or ends it; whatever could not be removed.
    pub async fn down_set(set: Set, progress: &Progress) -> Result<(), Error> {
        let lock = SetLock::take(set)?;
        let step = progress.step(format!("{set} clusters"));
        step.message("down");
        remove(set).await?;
        step.finish("down");
        lock.remove()?;
        // Only if the other set is not in it.
        fs::remove_dir(paths::state()).ok();
        Ok(())
    }

    /// How every cluster of `set` is, whether the set is up as a whole or not.
    ///
    /// # Errors
    ///
    /// [`Error::Record`] if the set's record cannot be understood.
    pub fn status(set: Set) -> Result<Vec<ClusterStatus>, Error> {
        let folder = paths::set(set);
        let record = FleetRecord::read(&folder)?;
        let recorded = record
            .as_ref()
            .map_or(&[][..], |record| record.clusters.as_slice());
        let mut all: BTreeMap<String, Option<&ClusterRecord>> = homes(&folder)
            .into_iter()
            .map(|name| (name, None))
            .collect();
        for cluster in recorded {
            all.insert(cluster.name.clone(), Some(cluster));
        }
        let hierarchies = cgroup::hierarchies()?;
        let mut rows: Vec<_> = all
            .into_iter()
            .map(|(name, cluster)| {
                let memory =
                    cgroup::memory(&hierarchies, &format!("{}{name}", set.cgroup_prefix()));
                status(set, &folder, name, cluster, memory)
            })
            .collect();
        rows.sort_by_key(|row| (row.name != "hub", row.name.len()));
        Ok(rows)
    }
}

fn status(
    set: Set,
    folder: &Path,
    name: String,
    record: Option<&ClusterRecord>,
    memory: Option<u64>,
) -> ClusterStatus {
    let cell = Cell::find(&folder.join(&name));
    let ended: Vec<_> = cell.as_ref().map_or_else(Vec::new, |cell| {
        components::NAMES
            .into_iter()
            .filter(|component| cell.has_ended(component))
            .collect()
    });
    let given = record.is_some_and(|record| matches!(record.origin, Origin::Given { .. }));
    let state = match (&cell, record) {
        _ if given => "given",
        (Some(_), Some(_)) if ended.is_empty() => "up",
        (Some(_), None) if ended.is_empty() => "starting",
        _ => "broken",
    };
    ClusterStatus {
        set,
        name,
        state,
        address: record.and_then(|record| record.address.clone()),
        kubeconfig: record.map(|record| record.kubeconfig.clone()),
        memory,
        pid: cell.map(|cell| cell.pid()),
        ended,
    }
}

// === starting ===

async fn start(spec: FleetSpec, progress: &Progress) -> Result<Fleet, Error> {
    let set = spec.set;
    let folder = paths::set(set);
    let kube = match spec.kube {
        Some(kube) => kube,
        None => Kube::ensure(progress).await?,
    };
    let plugins = packages::ensure(progress).await?;
    fs::create_dir_all(folder.join("bin")).map_err(Error::file("create", &folder))?;
    link_kubectl(&kube.binary(), &folder)?;
    let pause = folder.join("pause.tar");
    Image::of_program(PAUSE_IMAGE, "pause", kube.pause()).write(&pause)?;
    let parts = Parts {
        binaries: kube.folder().to_owned(),
        plugins,
        hierarchies: cgroup::hierarchies()?,
        pause,
        images: spec.images,
    };
    network::create_bridge(set).await?;
    let plans = set.clusters(spec.members);
    let started = plans
        .iter()
        .map(|plan| start_one(plan, &folder, &parts, progress));
    future::try_join_all(started).await?;
    finish(set, folder, plans)
}

async fn start_one(
    plan: &ClusterPlan,
    folder: &Path,
    parts: &Parts,
    progress: &Progress,
) -> Result<(), Error> {
    let step = progress.step(plan.name.as_str());
    cluster::start(plan, &folder.join(&plan.name), parts, &step).await?;
    step.finish("ready");
    Ok(())
}

fn finish(set: Set, folder: PathBuf, plans: Vec<ClusterPlan>) -> Result<Fleet, Error> {
    let mut contexts = Vec::new();
    let mut records = Vec::new();
    for plan in plans {
        let etc = cluster::etc(&folder.join(&plan.name));
        contexts.push((plan.name.clone(), pki::admin_parts(&etc)?));
        records.push(ClusterRecord {
            name: plan.name.clone(),
            role: plan.role,
            kubeconfig: etc.join("admin.kubeconfig"),
            address: Some(plan.address.to_string()),
            origin: Origin::Made { plan },
        });
    }
    let merged = merged_kubeconfig(set, &folder);
    fs::write(&merged, pki::merged_kubeconfig(&contexts)).map_err(Error::file("write", &merged))?;
    let record = FleetRecord::new(records);
    record.write(&folder)?;
    Ok(Fleet::of_record(set, folder, record))
}

pub(crate) fn merged_kubeconfig(set: Set, folder: &Path) -> PathBuf {
    folder.join(format!("{set}.kubeconfig"))
}

pub(crate) fn kubectl_link(folder: &Path) -> PathBuf {
    folder.join("bin/kubectl")
}

pub(crate) fn link_kubectl(binary: &Path, folder: &Path) -> Result<(), Error> {
    let link = kubectl_link(folder);
    std::os::unix::fs::symlink(binary, &link).map_err(Error::file("create", &link))
}

// === ending ===

/// What there is of `set`.
fn look(set: Set) -> Result<Seen, Error> {
    let folder = paths::set(set);
    let alive = homes(&folder)
        .into_iter()
        .filter(|name| Cell::find(&folder.join(name)).is_some())
        .collect();
    let cgroups = cgroup::with_prefix(&cgroup::hierarchies()?, &set.cgroup_prefix());
    let remains = folder.exists() || !network::links(set)?.is_empty() || !cgroups.is_empty();
    // A record that cannot be read is no record of a set that is up.
    Ok(Seen {
        record: FleetRecord::read(&folder).unwrap_or(None),
        alive,
        remains,
    })
}

/// The clusters that have a folder in the set's.
fn homes(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(Result::ok);
    entries
        .filter(|entry| cell::var(&entry.path()).exists())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

/// Removes everything of `set`, and nothing else: processes by what they wrote about themselves, links and
/// cgroups by the set's own names.
async fn remove(set: Set) -> Result<(), Error> {
    let folder = paths::set(set);
    let cells: Vec<_> = homes(&folder)
        .iter()
        .filter_map(|name| cell::recorded(&folder.join(name)))
        .collect();
    future::try_join_all(cells.iter().map(|first| first.kill())).await?;
    if paths::is_root() {
        network::remove(set).await?;
        let hierarchies = cgroup::hierarchies()?;
        for name in cgroup::with_prefix(&hierarchies, &set.cgroup_prefix()) {
            cgroup::remove(&hierarchies, &name).await?;
        }
    }
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::file("remove", folder)(error))
        }
        _ => Ok(()),
    }
}
