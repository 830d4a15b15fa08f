//! One cluster: how it is started, and what can be done with it.

use std::{
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::net::UnixStream;

use crate::{
    api_server::{self, ApiServer},
    cell::{self, Cell},
    cgroup::Hierarchy,
    command::{self, Job},
    components::{self, CONTAINERD_SOCKET, DNS_READY_PORT, PROXY_HEALTH_PORT},
    error::Error,
    pki,
    plan::{ClusterPlan, Role},
    progress::Step,
    record::{ClusterRecord, Origin},
    wait,
};

/// From the start of etcd to an API server that is ready; three start at once on two processors in 12 s.
const API_LIMIT: Duration = Duration::from_secs(120);
/// From then to a node that takes pods.
const NODE_LIMIT: Duration = Duration::from_secs(120);

/// A cluster of a fleet that is up.
#[derive(Clone, Debug)]
pub struct Cluster {
    record: ClusterRecord,
    kubectl: PathBuf,
    folder: PathBuf,
}

/// What starting a cluster needs besides its plan.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    /// The folder of the binaries.
    pub(crate) binaries: PathBuf,
    /// The folder of the CNI plugins.
    pub(crate) plugins: PathBuf,
    pub(crate) hierarchies: Vec<Hierarchy>,
    /// Imported before the first pod.
    pub(crate) pause: PathBuf,
    /// Imported before the cluster counts as ready.
    pub(crate) images: Vec<PathBuf>,
}

// === impl Cluster ===

impl Cluster {
    pub(crate) fn new(record: ClusterRecord, kubectl: PathBuf, folder: PathBuf) -> Self {
        Self {
            record,
            kubectl,
            folder,
        }
    }

    /// `hub`, `cluster1`, …
    pub fn name(&self) -> &str {
        &self.record.name
    }

    /// What it is for.
    pub fn role(&self) -> Role {
        self.record.role
    }

    /// A kubeconfig of the administrator, whose current context is this cluster.
    pub fn kubeconfig_path(&self) -> &Path {
        &self.record.kubeconfig
    }

    /// Where other clusters reach this one's node, if that is known. Only the hub answers there.
    pub fn address(&self) -> Option<&str> {
        self.record.address.as_deref()
    }

    /// The names and addresses of a cluster that we made.
    pub fn plan(&self) -> Option<&ClusterPlan> {
        match &self.record.origin {
            Origin::Made { plan } => Some(plan),
            Origin::Given { .. } => None,
        }
    }

    /// Runs kubectl as the administrator and returns its output.
    ///
    /// # Errors
    ///
    /// [`Error::Command`] with what kubectl said, if it fails.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String, Error> {
        self.kubectl_job(args).run().await
    }

    /// Like [`Self::kubectl`], with `input` on its standard input (`apply -f -`).
    ///
    /// # Errors
    ///
    /// As for [`Self::kubectl`].
    pub async fn kubectl_with_input(&self, args: &[&str], input: &str) -> Result<String, Error> {
        self.kubectl_job(args).input(input).run().await
    }

    /// kubectl as the administrator, to be run by the caller; killed when the child is dropped.
    pub fn kubectl_command(&self, args: &[&str]) -> tokio::process::Command {
        self.kubectl_job(args).into_command()
    }

    fn kubectl_job(&self, args: &[&str]) -> Job {
        let verb = args.first().copied().unwrap_or("run");
        Job::new(
            format!("{verb} with kubectl in {}", self.name()),
            &self.kubectl,
        )
        .arg("--kubeconfig")
        .arg(self.kubeconfig_path())
        .args(args)
    }

    /// Imports an image (a tar file as [`crate::Image::write`] makes it).
    ///
    /// # Errors
    ///
    /// [`Error::Given`] for a given cluster without a load command.
    pub async fn load_image(&self, tar: &Path) -> Result<(), Error> {
        match &self.record.origin {
            Origin::Made { plan } => import(&self.cell("import an image")?, &plan.name, tar).await,
            Origin::Given {
                load_image: Some(template),
            } => {
                let tar = tar.display().to_string();
                let line = template
                    .replace("{tar}", &tar)
                    .replace("{cluster}", self.name());
                Job::new(format!("load an image into {}", self.name()), "sh")
                    .args(["-c", &line])
                    .run()
                    .await
                    .map(|_said| ())
            }
            Origin::Given { load_image: None } => Err(self.given("load an image")),
        }
    }

    /// Runs a program of this machine in the cluster's network, as if it ran on the node.
    ///
    /// # Errors
    ///
    /// [`Error::Given`] for a cluster that we did not make; [`Error::Command`] if the program fails.
    pub async fn run_on_node(&self, argv: &[&str]) -> Result<String, Error> {
        self.node_job(argv)?.run().await
    }

    /// As [`Self::run_on_node`], to be run by the caller; killed when the child is dropped.
    ///
    /// # Errors
    ///
    /// [`Error::Given`] for a cluster that we did not make.
    pub fn node_command(&self, argv: &[&str]) -> Result<tokio::process::Command, Error> {
        self.node_job(argv).map(Job::into_command)
    }

    fn node_job(&self, argv: &[&str]) -> Result<Job, Error> {
        let what = format!("run a program on the node of {}", self.name());
        Ok(self
            .cell("run a program on its node")?
            .enter_network(what)
            .args(argv))
    }

    /// Writes a kubeconfig for `user`, a member of `group`, who has no rights but those granted to them.
    ///
    /// # Errors
    ///
    /// [`Error::Given`] for a cluster that we did not make, as only its authority could sign.
    pub fn user_kubeconfig(&self, user: &str, group: Option<&str>) -> Result<PathBuf, Error> {
        let plan = self
            .plan()
            .ok_or_else(|| self.given("sign a user's certificate"))?;
        let text = pki::user_kubeconfig(plan, &etc(&self.folder), user, group)?;
        let users = self.folder.join("users");
        fs::create_dir_all(&users).map_err(Error::file("create", &users))?;
        let path = users.join(format!("{}.kubeconfig", user.replace('/', "_")));
        fs::write(&path, text).map_err(Error::file("write", &path))?;
        Ok(path)
    }

    /// The file that holds what `component` (`kubelet`, `kube-apiserver`, …) said.
    ///
    /// # Errors
    ///
    /// [`Error::Given`] for a cluster that we did not make.
    pub fn log_path(&self, component: &str) -> Result<PathBuf, Error> {
        self.plan().ok_or_else(|| self.given("read its logs"))?;
        Ok(log(&self.folder, component))
    }

    fn cell(&self, what: &'static str) -> Result<Cell, Error> {
        let plan = self.plan().ok_or_else(|| self.given(what))?;
        Cell::find(&self.folder).ok_or(Error::NotUp { set: plan.set })
    }

    fn given(&self, what: &'static str) -> Error {
        Error::Given {
            name: self.name().to_owned(),
            what,
        }
    }
}

/// Where the certificates and configurations of the cluster kept in `folder` are.
pub(crate) fn etc(folder: &Path) -> PathBuf {
    cell::var(folder).join("strait")
}

fn log(folder: &Path, component: &str) -> PathBuf {
    cell::var(folder).join(format!("log/{component}.log"))
}

// === starting ===

struct Starting<'a> {
    plan: &'a ClusterPlan,
    folder: &'a Path,
    cell: Cell,
    step: &'a Step,
}

/// Starts the cluster and waits until it takes pods and answers names.
pub(crate) async fn start(
    plan: &ClusterPlan,
    folder: &Path,
    parts: &Parts,
    step: &Step,
) -> Result<(), Error> {
    step.message("cell");
    let cell = Cell::start(plan, folder, &parts.binaries, &parts.hierarchies).await?;
    configure(plan, folder, &parts.plugins)?;
    let starting = Starting {
        plan,
        folder,
        cell,
        step,
    };
    starting.run(parts).await
}

fn configure(plan: &ClusterPlan, folder: &Path, plugins: &Path) -> Result<(), Error> {
    let etc = etc(folder);
    pki::create(plan, &etc)?;
    for (name, content) in components::files(plan) {
        let path = etc.join(name);
        let parent = path.parent().unwrap_or(&etc);
        fs::create_dir_all(parent).map_err(Error::file("create", parent))?;
        fs::write(&path, content).map_err(Error::file("write", &path))?;
    }
    let link = etc.join("cni-bin");
    std::os::unix::fs::symlink(plugins, &link).map_err(Error::file("create", &link))
}

impl Starting<'_> {
    async fn run(&self, parts: &Parts) -> Result<(), Error> {
        self.step.message("API server");
        self.launch(&["containerd", "etcd", "kube-apiserver"])
            .await?;
        let api = ApiServer::new(self.plan, &etc(self.folder).join("pki"))?;
        let pause = self.import_when_ready(&parts.pause);
        let ready = self.until("API server ready", API_LIMIT, || api.get("/readyz"));
        futures::future::try_join(pause, ready).await?;
        self.step.message("node");
        self.launch(&components::NAMES[3..]).await?;
        for image in &parts.images {
            import(&self.cell, &self.plan.name, image).await?;
        }
        self.node_ready(&api).await
    }

    async fn launch(&self, names: &[&'static str]) -> Result<(), Error> {
        for name in names {
            self.cell
                .launch(name, &components::argv(self.plan, name))
                .await?;
        }
        Ok(())
    }

    async fn import_when_ready(&self, tar: &Path) -> Result<(), Error> {
        let socket = self.cell.outside(CONTAINERD_SOCKET);
        self.until("containerd ready", API_LIMIT, || async {
            UnixStream::connect(&socket)
                .await
                .map_err(|error| error.to_string())
        })
        .await?;
        import(&self.cell, &self.plan.name, tar).await
    }

    async fn node_ready(&self, api: &ApiServer) -> Result<(), Error> {
        let node = format!("/api/v1/nodes/{}", self.plan.name);
        self.until("node ready", NODE_LIMIT, || async {
            node_is_ready(&api.get(&node).await?)
        })
        .await?;
        let account = "/api/v1/namespaces/default/serviceaccounts/default";
        self.until("service account there", NODE_LIMIT, || api.get(account))
            .await?;
        for (what, port, path) in [
            ("service addresses in place", PROXY_HEALTH_PORT, "/healthz"),
            ("names answered", DNS_READY_PORT, "/ready"),
        ] {
            self.until(what, NODE_LIMIT, || {
                api_server::get_plain(self.plan, port, path)
            })
            .await?;
        }
        Ok(())
    }

    /// Waits for `look`, but not for a component that has ended.
    async fn until<T, F>(
        &self,
        what: &str,
        limit: Duration,
        mut look: impl FnMut() -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, String>>,
    {
        wait::until(format!("{what} in {}", self.plan.name), limit, || {
            let looked = look();
            async move {
                match components::NAMES
                    .iter()
                    .find(|name| self.cell.has_ended(name))
                {
                    Some(component) => Ok(Err(self.ended(component))),
                    None => looked.await.map(Ok),
                }
            }
        })
        .await?
    }

    fn ended(&self, component: &'static str) -> Error {
        let log = log(self.folder, component);
        let said = fs::read_to_string(&log).unwrap_or_default();
        let output = command::last_lines(&said);
        Error::Ended {
            cluster: self.plan.name.clone(),
            component,
            log,
            output,
        }
    }
}

/// An empty base name keeps the name that the image's own index gives.
async fn import(cell: &Cell, cluster: &str, tar: &Path) -> Result<(), Error> {
    let socket = cell.outside(CONTAINERD_SOCKET);
    Job::new(format!("import an image into {cluster}"), "ctr")
        .args([OsStr::new("--address"), socket.as_os_str()])
        .args([
            "--namespace",
            "k8s.io",
            "images",
            "import",
            "--base-name",
            "",
        ])
        .arg(OsString::from(tar))
        .run()
        .await
        .map(|_said| ())
}

fn node_is_ready(node: &str) -> Result<(), String> {
    let node: serde_json::Value = serde_json::from_str(node).map_err(|error| error.to_string())?;
    let conditions = node["status"]["conditions"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let ready = conditions
        .iter()
        .find(|condition| condition["type"] == "Ready");
    match ready {
        Some(condition) if condition["status"] == "True" => Ok(()),
        Some(condition) => Err(format!("not ready: {}", condition["message"])),
        None => Err("the node says nothing yet".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_ready_when_it_says_so() {
        let node = |status| {
            format!(
                r#"{{"status":{{"conditions":[{{"type":"Ready","status":"{status}","message":"m"}}]}}}}"#
            )
        };
        assert_eq!(node_is_ready(&node("True")), Ok(()));
        assert_eq!(
            node_is_ready(&node("False")),
            Err("not ready: \"m\"".to_owned())
        );
        assert_eq!(
            node_is_ready("{}"),
            Err("the node says nothing yet".to_owned())
        );
    }
}
