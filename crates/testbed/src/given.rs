//! Clusters that exist already, in place of ours: whoever is not root brings his own.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    cell::Cell,
    command::Job,
    error::Error,
    fleet::{self, Fleet},
    kube_build::Kube,
    paths,
    plan::{Role, Set},
    progress::Progress,
    record::{ClusterRecord, FleetRecord, Origin},
    set_lock::SetLock,
};

/// A cluster that exists.
#[derive(Clone, Debug)]
pub struct GivenCluster {
    /// What it is called in the set.
    pub name: String,
    /// The kubeconfig that knows it; kubectl's own choice if none.
    pub kubeconfig: Option<PathBuf>,
    /// The context in it; the current one if none.
    pub context: Option<String>,
}

/// A set made of clusters that exist.
#[derive(Clone, Debug)]
pub struct GivenFleet {
    /// The set that they stand in for.
    pub set: Set,
    /// Where the hub will run.
    pub hub: GivenCluster,
    /// Where members reach the hub's node.
    pub hub_address: Option<String>,
    /// Where agents will run.
    pub members: Vec<GivenCluster>,
    /// A shell command that loads an image; `{tar}` and `{cluster}` are replaced.
    pub load_image: Option<String>,
}

impl Fleet {
    /// Records clusters that exist as a set, after asking each for its version. They are never started,
    /// stopped or cleaned; `down` forgets them.
    ///
    /// # Errors
    ///
    /// [`Error::OtherShape`] if clusters of ours are up as this set, [`Error::Command`] if one does not answer.
    pub async fn adopt(given: GivenFleet, progress: &Progress) -> Result<Self, Error> {
        let GivenFleet {
            set,
            hub,
            hub_address,
            members,
            load_image,
        } = given;
        let _lock = SetLock::take(set)?;
        let folder = paths::set(set);
        refuse_if_made(set, &folder)?;
        fs::remove_dir_all(&folder).ok();
        fs::create_dir_all(folder.join("bin")).map_err(Error::file("create", &folder))?;
        let kubectl = match on_path("kubectl") {
            Some(kubectl) => kubectl,
            None => Kube::ensure(progress).await?.binary(),
        };
        fleet::link_kubectl(&kubectl, &folder)?;
        let mut records = Vec::new();
        let hub = (hub, Role::Hub, hub_address);
        let members = members
            .into_iter()
            .map(|member| (member, Role::Member, None));
        for (cluster, role, address) in std::iter::once(hub).chain(members) {
            let kubeconfig = flatten(&cluster, &folder).await?;
            let origin = Origin::Given {
                load_image: load_image.clone(),
            };
            records.push(ClusterRecord {
                name: cluster.name,
                role,
                kubeconfig,
                address,
                origin,
            });
        }
        merge(set, &records, &folder).await?;
        let record = FleetRecord::new(records);
        record.write(&folder)?;
        Ok(Self::of_record(set, folder, record))
    }
}

fn refuse_if_made(set: Set, folder: &Path) -> Result<(), Error> {
    let made = set
        .clusters(1)
        .iter()
        .any(|plan| Cell::find(&folder.join(&plan.name)).is_some());
    if made {
        return Err(Error::OtherShape {
            set,
            difference: "started by us".to_owned(),
        });
    }
    Ok(())
}

/// Copies what the kubeconfig says about one context into a file of its own, with the context named after the
/// cluster.
async fn flatten(cluster: &GivenCluster, folder: &Path) -> Result<PathBuf, Error> {
    let GivenCluster {
        name,
        kubeconfig,
        context,
    } = cluster;
    let kubectl = fleet::kubectl_link(folder);
    let mut view = Job::new(format!("read the kubeconfig of {name}"), &kubectl);
    if let Some(kubeconfig) = kubeconfig {
        view = view.arg("--kubeconfig").arg(kubeconfig);
    }
    if let Some(context) = context {
        view = view.args(["--context", context]);
    }
    let text = view
        .args([
            "config",
            "view",
            "--raw",
            "--minify",
            "--flatten",
            "--output",
            "json",
        ])
        .run()
        .await?;
    let path = folder.join(format!("{name}.kubeconfig"));
    let mut config: serde_json::Value =
        serde_json::from_str(&text).map_err(|source| Error::Record {
            path: path.clone(),
            source,
        })?;
    rename(&mut config, name);
    fs::write(&path, config.to_string()).map_err(Error::file("write", &path))?;
    Job::new(format!("reach {name}"), &kubectl)
        .arg("--kubeconfig")
        .arg(&path)
        .args(["version", "--request-timeout", "10s"])
        .run()
        .await?;
    Ok(path)
}

/// Names cluster, user and context of a minified kubeconfig `name`, so that several can be merged.
fn rename(config: &mut serde_json::Value, name: &str) {
    for list in ["clusters", "users", "contexts"] {
        config[list][0]["name"] = name.into();
    }
    config["contexts"][0]["context"]["cluster"] = name.into();
    config["contexts"][0]["context"]["user"] = name.into();
    config["current-context"] = name.into();
}

async fn merge(set: Set, records: &[ClusterRecord], folder: &Path) -> Result<(), Error> {
    let files: Vec<_> = records
        .iter()
        .map(|record| record.kubeconfig.display().to_string())
        .collect();
    let text = Job::new("merge kubeconfigs", fleet::kubectl_link(folder))
        .env("KUBECONFIG", files.join(":"))
        .args(["config", "view", "--raw", "--flatten"])
        .run()
        .await?;
    let merged = fleet::merged_kubeconfig(set, folder);
    fs::write(&merged, text).map_err(Error::file("write", &merged))
}

/// Where users' programs are commonly found.
fn on_path(program: &str) -> Option<PathBuf> {
    paths::search_path()
        .into_iter()
        .map(|folder| folder.join(program))
        .find(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_is_named_after_the_cluster() {
        let mut config = serde_json::json!({
            "clusters": [{"name": "kind-a", "cluster": {"server": "https://x"}}],
            "users": [{"name": "kind-a", "user": {}}],
            "contexts": [{"name": "kind-a", "context": {"cluster": "kind-a", "user": "kind-a", "namespace": "n"}}],
            "current-context": "kind-a",
        });
        rename(&mut config, "hub");
        assert_eq!(
            config["contexts"][0],
            serde_json::json!({"name": "hub", "context": {"cluster": "hub", "user": "hub", "namespace": "n"}})
        );
        assert_eq!(config["current-context"], "hub");
        assert_eq!(config["clusters"][0]["cluster"]["server"], "https://x");
    }
}
