//! The namespaces that hold one cluster: processes, mounts, network, host name.
//!
//! The first process of a cell does nothing but collect orphans. When it is killed the kernel kills every
//! other process of the cell and drops its mounts and network, so a cell ends as a whole and at once.
//!
//! A cell sees the machine's files, but `/var`, `/run` and `/tmp` are its own; so every cluster may use the
//! same paths, and what kubelet, containerd and the CNI plugins leave there goes with it.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    cgroup::{self, Hierarchy},
    command::Job,
    error::Error,
    firewall, network,
    plan::ClusterPlan,
    process::ProcessRecord,
    wait,
};

/// Where the Kubernetes binaries are, inside.
pub(crate) const BIN: &str = "/var/strait/bin";
/// Where certificates and configurations are, inside.
pub(crate) const ETC: &str = "/var/strait";
/// Where logs are, inside.
const LOG: &str = "/var/log";

/// A shell starts in no time.
const START_LIMIT: Duration = Duration::from_secs(20);

/// A running cell.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    first: ProcessRecord,
}

/// The `/var` of the cell kept in `folder`.
pub(crate) fn var(folder: &Path) -> PathBuf {
    folder.join("var")
}

/// What the first process wrote about itself, in the cell kept in `folder`.
pub(crate) fn recorded(folder: &Path) -> Option<ProcessRecord> {
    ProcessRecord::parse(&fs::read_to_string(folder.join("process")).ok()?)
}

impl Cell {
    /// The cell kept in `folder`, if it is alive.
    pub(crate) fn find(folder: &Path) -> Option<Self> {
        recorded(folder)
            .filter(ProcessRecord::is_alive)
            .map(|first| Self { first })
    }

    /// Starts a cell and connects it; `binaries` is what will be at [`BIN`] inside.
    pub(crate) async fn start(
        plan: &ClusterPlan,
        folder: &Path,
        binaries: &Path,
        hierarchies: &[Hierarchy],
    ) -> Result<Self, Error> {
        prepare(folder, hierarchies, plan)?;
        cgroup::create(hierarchies, &plan.cgroup())?;
        let script = folder.join("first.sh");
        let cells = cgroup::cells(hierarchies, &plan.cgroup());
        fs::write(&script, first_script(plan, folder, binaries, &cells))
            .map_err(Error::file("write", &script))?;
        Job::new(format!("start the cell of {}", plan.name), "unshare")
            .args([
                "--pid", "--mount", "--net", "--uts", "setsid", "--fork", "sh",
            ])
            .arg(&script)
            .run()
            .await?;
        let cell = wait::until(
            format!("cell of {} started", plan.name),
            START_LIMIT,
            || async {
                let ready = var(folder).join("strait/ready").exists();
                let log = fs::read_to_string(folder.join("first.log")).unwrap_or_default();
                Self::find(folder).filter(|_| ready).ok_or(log)
            },
        )
        .await?;
        cell.connect(plan).await?;
        Ok(cell)
    }

    /// The firewall comes first, so that there is no moment without it.
    async fn connect(&self, plan: &ClusterPlan) -> Result<(), Error> {
        self.enter(format!("set the firewall of {}", plan.name))
            .args(["iptables-restore", "--noflush"])
            .input(firewall::rules(plan))
            .run()
            .await?;
        network::plug_in(plan, self.first.pid).await?;
        let (address, host) = (plan.address, plan.set.host_address());
        self.enter(format!("give {} its address", plan.name))
            .args(["sh", "-eu", "-c"])
            .arg(format!(
                "for f in /proc/sys/net/ipv6/conf/eth0/disable_ipv6; do [ ! -e $f ] || echo 1 > $f; done\n\
                 ip addr add {address}/24 dev eth0\n\
                 ip link set eth0 up\n\
                 ip route add default via {host}\n"
            ))
            .run()
            .await
            .map(|_said| ())
    }

    /// A program in all namespaces of the cell; arguments follow.
    pub(crate) fn enter(&self, what: impl Into<String>) -> Job {
        self.nsenter(what, &["--pid", "--mount", "--net", "--uts"])
    }

    /// A program of the machine that only sees the cell's network; arguments follow.
    pub(crate) fn enter_network(&self, what: impl Into<String>) -> Job {
        self.nsenter(what, &["--net"])
    }

    fn nsenter(&self, what: impl Into<String>, namespaces: &[&str]) -> Job {
        Job::new(what, "nsenter")
            .args(["--target", &self.first.pid.to_string()])
            .args(namespaces)
            .arg("--")
    }

    /// Starts a component that runs as long as the cell does; its output goes to `/var/log/NAME.log` inside.
    pub(crate) async fn launch(&self, name: &str, argv: &[String]) -> Result<(), Error> {
        self.enter(format!("start {name}"))
            .args(["setsid", "--fork", "sh"])
            .arg(format!("{ETC}/launch.sh"))
            .arg(name)
            .args(argv)
            .run()
            .await
            .map(|_said| ())
    }

    /// Whether the component `name` was started and is no more.
    pub(crate) fn has_ended(&self, name: &str) -> bool {
        self.component(name).is_some_and(|proc| !proc.exists())
    }

    /// The folder of the component's process; none as long as it has not written its number.
    fn component(&self, name: &str) -> Option<PathBuf> {
        let pid = fs::read_to_string(self.outside(&format!("/run/strait/{name}.pid"))).ok()?;
        let pid: u32 = pid.trim().parse().ok()?;
        Some(self.outside(&format!("/proc/{pid}")))
    }

    /// A path inside, as the machine sees it.
    pub(crate) fn outside(&self, inside: &str) -> PathBuf {
        self.first.root().join(inside.trim_start_matches('/'))
    }

    /// The number of the cell's first process.
    pub(crate) fn pid(&self) -> i32 {
        self.first.pid
    }
}

fn prepare(folder: &Path, hierarchies: &[Hierarchy], plan: &ClusterPlan) -> Result<(), Error> {
    let var = var(folder);
    for inside in ["log", "lib", "tmp", "strait/bin", "strait/pki"] {
        fs::create_dir_all(var.join(inside)).map_err(Error::file("create", var.join(inside)))?;
    }
    let run = var.join("run");
    std::os::unix::fs::symlink("/run", &run).map_err(Error::file("create", &run))?;
    let launch = var.join("strait/launch.sh");
    let script = launch_script(&cgroup::cells(hierarchies, &plan.cgroup()));
    fs::write(&launch, script).map_err(Error::file("write", &launch))
}

/// What the first process does. `/proc` is the machine's until the new one is mounted, so its record, which
/// it writes before anything else, names it as the machine sees it.
fn first_script(plan: &ClusterPlan, folder: &Path, binaries: &Path, cells: &[PathBuf]) -> String {
    let (folder, binaries) = (quoted(folder), quoted(binaries));
    let name = &plan.name;
    let join = join_cells(cells);
    format!(
        "set -eu\n\
         exec </dev/null >{folder}/first.log 2>&1\n\
         read -r boot </proc/sys/kernel/random/boot_id\n\
         read -r stat </proc/self/stat\n\
         printf '%s\\n%s\\n' \"$boot\" \"$stat\" >{folder}/process.new\n\
         mv {folder}/process.new {folder}/process\n\
         {join}\
         mount --make-rshared /\n\
         mount -t proc proc /proc\n\
         mount --bind {binaries} {folder}/var/strait/bin\n\
         mount --rbind {folder}/var /var\n\
         mount -t tmpfs -o mode=755 tmpfs /run\n\
         mount -t tmpfs tmpfs /tmp\n\
         mkdir /run/lock /run/strait\n\
         cd /\n\
         echo {name} >/proc/sys/kernel/hostname\n\
         ip link set lo up\n\
         echo 1 >/proc/sys/net/ipv4/ip_forward\n\
         : >/var/strait/ready\n\
         # `wait` collects orphans of the cell too; without it they would stay as zombies\n\
         while :; do sleep 86400 & wait; done\n"
    )
}

fn launch_script(cells: &[PathBuf]) -> String {
    let join = join_cells(cells);
    format!(
        "set -eu\n\
         name=$1; shift\n\
         exec </dev/null >>{LOG}/$name.log 2>&1\n\
         {join}\
         echo $$ >/run/strait/$name.pid\n\
         cd {ETC}\n\
         exec \"$@\"\n"
    )
}

fn join_cells(cells: &[PathBuf]) -> String {
    cells
        .iter()
        .map(|cell| format!("echo 0 >{}/cgroup.procs\n", quoted(cell)))
        .collect()
}

fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Set;

    #[test]
    fn the_first_process_records_itself_before_it_makes_anything() {
        let [hub, _member] = Set::Demo.clusters(1).try_into().unwrap();
        let script = first_script(&hub, Path::new("/s/it's"), Path::new("/k"), &[]);
        let record = script.find("mv '/s/it'\\''s'/process.new").unwrap();
        for made in ["mount", "ip link", "hostname"] {
            assert!(record < script.find(made).unwrap(), "{made}");
        }
    }
}
