//! `cargo xtask clusters …`. Data goes to stdout, talk to stderr.

use std::{
    io::{self, Write},
    path::PathBuf,
};

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use strait_testbed::{
    ClusterStatus, Fleet, FleetSpec, GivenCluster, GivenFleet, Kube, Progress, Set,
};

/// What can be done with test clusters.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Starts a hub and its members; does nothing if they are up.
    Up(Up),
    /// Ends the clusters and removes every trace, also of a run that crashed.
    Down(Down),
    /// Shows how every cluster is.
    Status(Status),
    /// Prints the path of a cluster's kubeconfig, or of one for all clusters.
    Kubeconfig(Kubeconfig),
    /// Prints what a shell needs: `eval "$(cargo xtask clusters env)"`.
    Env(OneSet),
    /// Records clusters that exist, kind's for instance, as a set; needs no root.
    ///
    /// For example: cargo xtask clusters use --hub-context kind-hub --hub-address 172.18.0.2
    /// --member cluster1=:kind-cluster1 --load-images 'kind load image-archive {tar} --name {cluster}'
    Use(Use),
}

#[derive(Debug, Args)]
pub(crate) struct OneSet {
    /// Which clusters: demo or test.
    #[arg(long, default_value = "demo")]
    set: Set,
}

#[derive(Debug, Args)]
pub(crate) struct Down {
    #[command(flatten)]
    set: OneSet,
    /// The clusters of every set.
    #[arg(long, conflicts_with = "set")]
    all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Up {
    #[command(flatten)]
    set: OneSet,
    /// How many clusters besides the hub.
    #[arg(long, default_value_t = 2)]
    members: usize,
    /// An image to import into every cluster (a tar file); may be repeated.
    #[arg(long, value_name = "TAR")]
    image: Vec<PathBuf>,
    /// A folder with `kube` and `pause` built by hand, in place of a build.
    #[arg(long, value_name = "FOLDER", env = "STRAIT_KUBE")]
    kube: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Which clusters: demo or test; both if left out.
    #[arg(long)]
    set: Option<Set>,
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Table,
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct Kubeconfig {
    /// `hub`, `cluster1`, …; all of them in one file if left out.
    name: Option<String>,
    #[command(flatten)]
    set: OneSet,
}

#[derive(Debug, Args)]
pub(crate) struct Use {
    #[command(flatten)]
    set: OneSet,
    /// The hub's kubeconfig; kubectl's own choice if left out.
    #[arg(long, value_name = "FILE")]
    hub_kubeconfig: Option<PathBuf>,
    /// The hub's context; the current one if left out.
    #[arg(long, value_name = "CONTEXT")]
    hub_context: Option<String>,
    /// Where members reach the hub's node.
    #[arg(long, value_name = "HOST")]
    hub_address: Option<String>,
    /// A member, as NAME=FILE:CONTEXT; either of FILE and CONTEXT may be empty. May be repeated.
    #[arg(long, value_name = "NAME=FILE:CONTEXT", required = true, value_parser = member)]
    member: Vec<GivenCluster>,
    /// A shell command that loads an image; {tar} and {cluster} are replaced.
    #[arg(long, value_name = "COMMAND")]
    load_images: Option<String>,
}

// === impl Command ===

impl Command {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let progress = Progress::stderr();
        match self {
            Self::Up(up) => up.run(&progress).await,
            Self::Down(down) => {
                for set in down.chosen() {
                    Fleet::down_set(set, &progress).await?;
                }
                Ok(())
            }
            Self::Status(status) => status.run(),
            Self::Kubeconfig(kubeconfig) => print(&format!("{}\n", kubeconfig.path()?.display())),
            Self::Env(OneSet { set }) => print(&environment(&Fleet::attach(set)?)),
            Self::Use(given) => given.run(&progress).await,
        }
    }
}

impl Down {
    fn chosen(&self) -> Vec<Set> {
        if self.all {
            Set::ALL.to_vec()
        } else {
            vec![self.set.set]
        }
    }
}

impl Up {
    async fn run(self, progress: &Progress) -> anyhow::Result<()> {
        let Self {
            set: OneSet { set },
            members,
            image,
            kube,
        } = self;
        let kube = kube.map(Kube::at).transpose()?;
        let spec = FleetSpec {
            set,
            members,
            kube,
            images: image,
        };
        let fleet = Fleet::up(spec, progress)
            .await
            .with_context(|| format!("failed to start the {set} clusters"))?;
        progress.note(&format!(
            "export KUBECONFIG={}",
            fleet.kubeconfig_path().display()
        ));
        Ok(())
    }
}

impl Status {
    fn run(&self) -> anyhow::Result<()> {
        let mut rows = Vec::new();
        for set in self.set.map_or_else(|| Set::ALL.to_vec(), |set| vec![set]) {
            rows.extend(Fleet::status(set)?);
        }
        match self.output {
            Format::Table => print(&table(&rows)),
            Format::Json => print(&format!("{}\n", serde_json::to_string_pretty(&rows)?)),
        }
    }
}

impl Kubeconfig {
    fn path(&self) -> anyhow::Result<PathBuf> {
        let fleet = Fleet::attach(self.set.set)?;
        Ok(match &self.name {
            Some(name) => fleet.cluster(name)?.kubeconfig_path().to_owned(),
            None => fleet.kubeconfig_path(),
        })
    }
}

impl Use {
    async fn run(self, progress: &Progress) -> anyhow::Result<()> {
        let hub = GivenCluster {
            name: "hub".to_owned(),
            kubeconfig: self.hub_kubeconfig,
            context: self.hub_context,
        };
        if self.member.iter().any(|member| member.name == hub.name) {
            bail!("`hub` is the hub's name; call the member otherwise");
        }
        let given = GivenFleet {
            set: self.set.set,
            hub,
            hub_address: self.hub_address,
            members: self.member,
            load_image: self.load_images,
        };
        let fleet = Fleet::adopt(given, progress).await?;
        progress.note(&format!(
            "export KUBECONFIG={}",
            fleet.kubeconfig_path().display()
        ));
        Ok(())
    }
}

fn member(text: &str) -> Result<GivenCluster, String> {
    let parts = text
        .split_once('=')
        .and_then(|(name, rest)| Some((name, rest.rsplit_once(':')?)));
    let Some((name, (file, context))) = parts.filter(|(name, _)| !name.is_empty()) else {
        return Err("not of the form NAME=FILE:CONTEXT".to_owned());
    };
    let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    Ok(GivenCluster {
        name: name.to_owned(),
        kubeconfig: given(file).map(PathBuf::from),
        context: given(context),
    })
}

fn environment(fleet: &Fleet) -> String {
    let kubectl = fleet.kubectl_path();
    let bin = kubectl.parent().unwrap_or(&kubectl).display();
    format!(
        "export KUBECONFIG='{}'\nexport PATH='{bin}':\"$PATH\"\n",
        fleet.kubeconfig_path().display()
    )
}

fn table(rows: &[ClusterStatus]) -> String {
    if rows.is_empty() {
        return "no clusters\n".to_owned();
    }
    let mut text = format!(
        "{:<5} {:<10} {:<9} {:<13} {:>8}  {}\n",
        "SET", "CLUSTER", "STATE", "ADDRESS", "MEMORY", "KUBECONFIG"
    );
    for row in rows {
        let memory = row
            .memory
            .map_or_else(|| "-".to_owned(), |bytes| format!("{} MiB", bytes >> 20));
        let kubeconfig = row
            .kubeconfig
            .as_ref()
            .map_or_else(|| "-".to_owned(), |path| path.display().to_string());
        let address = row.address.as_deref().unwrap_or("-");
        text += &format!(
            "{:<5} {:<10} {:<9} {address:<13} {memory:>8}  {kubeconfig}\n",
            row.set.name(),
            row.name,
            row.state
        );
        for component in &row.ended {
            text += &format!("      {component} has ended\n");
        }
    }
    text
}

/// A reader that has seen enough is no failure.
fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("failed to write to stdout")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_named_with_file_and_context() {
        let full = member("cluster1=/home/u/config:kind-one").unwrap();
        assert_eq!(full.name, "cluster1");
        assert_eq!(full.kubeconfig, Some(PathBuf::from("/home/u/config")));
        assert_eq!(full.context.as_deref(), Some("kind-one"));
        let context_only = member("cluster1=:kind-one").unwrap();
        assert_eq!(context_only.kubeconfig, None);
        for bad in ["cluster1", "cluster1=file", "=file:context"] {
            assert!(member(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_table_reads_without_colour() {
        let row = ClusterStatus {
            set: Set::Demo,
            name: "hub".to_owned(),
            state: "broken",
            address: Some("172.30.0.11".to_owned()),
            kubeconfig: None,
            memory: Some(700 << 20),
            pid: Some(1),
            ended: vec!["etcd"],
        };
        assert_eq!(
            table(&[row]),
            "SET   CLUSTER    STATE     ADDRESS         MEMORY  KUBECONFIG\n\
             demo  hub        broken    172.30.0.11    700 MiB  -\n      etcd has ended\n"
        );
        assert_eq!(table(&[]), "no clusters\n");
    }
}
