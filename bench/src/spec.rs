//! A tunnel under test, described by a TOML file, and its running processes.
//!
//! `{bin}`, `{certs}`, `{run}`, `{self}` and `{target}` are replaced in commands and files by the
//! directory of binaries, of certificates, of this run's files, by this program, and by the
//! backend's address.

use std::{
    fs::{self, File},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use tokio::time::{Instant, sleep, timeout};

use crate::{
    backend::Control,
    conn::Dialer,
    proc::{self, Metrics},
};

pub const BACKEND_PLAIN: &str = "127.0.0.1:21080";
pub const BACKEND_TLS: &str = "127.0.0.1:21443";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Column heading in reports.
    pub name: String,
    /// Where connections go in: see `Front`.
    front: String,
    /// What a CONNECT names; the backend's address when absent.
    target: Option<String>,
    /// Started in this order. The fault scenarios look for `server` and `agent`.
    #[serde(default)]
    process: Vec<ProcessSpec>,
    /// Configuration files to write into the run directory first.
    #[serde(default)]
    file: Vec<FileSpec>,
}

#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
struct ProcessSpec {
    name: String,
    cmd: Vec<String>,
    /// `host:port` of a Prometheus endpoint, and the gauges worth recording from it.
    metrics: Option<String>,
    #[serde(default)]
    gauges: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileSpec {
    name: String,
    content: String,
}

impl Spec {
    pub fn load(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("reading {path:?}"))?;
        toml::from_str(&text).with_context(|| format!("parsing {path:?}"))
    }
}

pub struct Dirs {
    pub bin: PathBuf,
    pub certs: PathBuf,
    pub run: PathBuf,
}

struct Process {
    spec: ProcessSpec,
    argv: Vec<String>,
    log: PathBuf,
    child: Child,
}

/// The backend and the tunnel in front of it, all freshly started; killed when dropped.
pub struct Tunnel {
    backend: Child,
    processes: Vec<Process>,
    pub dialer: Arc<Dialer>,
    pub control: Control,
}

impl Tunnel {
    pub async fn start(spec: &Spec, dirs: &Dirs) -> Result<Self> {
        let this = std::env::current_exe()?;
        let fill = |s: &str| {
            s.replace("{bin}", &dirs.bin.to_string_lossy())
                .replace("{certs}", &dirs.certs.to_string_lossy())
                .replace("{run}", &dirs.run.to_string_lossy())
                .replace("{self}", &this.to_string_lossy())
                .replace("{target}", BACKEND_PLAIN)
        };
        fs::create_dir_all(&dirs.run)?;
        for file in &spec.file {
            fs::write(dirs.run.join(&file.name), fill(&file.content))?;
        }
        let argv = fill("{self} backend --certs {certs}");
        let argv: Vec<String> = argv.split(' ').map(Into::into).collect();
        let backend = spawn(&argv, &dirs.run.join("backend.log"))?;
        let control = retry("backend", || Control::open(BACKEND_PLAIN)).await?;

        let target = spec.target.as_deref();
        let dialer = Dialer::new(fill(&spec.front).parse()?, target, &dirs.certs)?;
        let mut tunnel = Self {
            backend,
            processes: Vec::new(),
            dialer: dialer.clone(),
            control,
        };
        for p in &spec.process {
            let argv: Vec<String> = p.cmd.iter().map(|a| fill(a)).collect();
            let log = dirs.run.join(format!("{}.log", p.name));
            let child = spawn(&argv, &log)?;
            tunnel.processes.push(Process {
                spec: p.clone(),
                argv,
                log,
                child,
            });
        }
        retry("tunnel", || dialer.hello()).await?.close().await;
        Ok(tunnel)
    }

    /// Every process that takes part, for CPU accounting.
    pub fn pids(&self) -> Vec<(String, u32)> {
        let mut pids = self.tunnel_pids();
        pids.push(("client".into(), std::process::id()));
        pids.push(("backend".into(), self.backend.id()));
        pids
    }

    /// The processes of the tunnel itself.
    pub fn tunnel_pids(&self) -> Vec<(String, u32)> {
        self.processes
            .iter()
            .map(|p| (p.spec.name.clone(), p.child.id()))
            .collect()
    }

    /// Memory, descriptors and gauges of the tunnel's processes.
    pub async fn footprint(&self) -> Metrics {
        let mut out = Metrics::new();
        for p in &self.processes {
            let (name, pid) = (&p.spec.name, p.child.id());
            out.insert(format!("{name}.rss_mib"), proc::rss_mib(pid));
            out.insert(format!("{name}.fds"), proc::fds(pid));
            if let Some(addr) = &p.spec.metrics {
                for (gauge, value) in proc::scrape(addr, &p.spec.gauges).await.unwrap_or_default() {
                    out.insert(format!("{name}.{gauge}"), value);
                }
            }
        }
        out
    }

    pub fn has(&self, name: &str) -> bool {
        self.processes.iter().any(|p| p.spec.name == name)
    }

    /// SIGKILL, and wait for the process to be gone.
    pub fn kill(&mut self, name: &str) -> Result<()> {
        let child = &mut self.find(name)?.child;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    pub fn restart(&mut self, name: &str) -> Result<()> {
        let p = self.find(name)?;
        p.child = spawn(&p.argv, &p.log)?;
        Ok(())
    }

    pub fn signal(&mut self, name: &str, signal: libc::c_int) -> Result<()> {
        let pid = self.find(name)?.child.id() as libc::pid_t;
        // SAFETY: the pid is a child not yet waited for, so it cannot have been reused.
        unsafe { libc::kill(pid, signal) };
        Ok(())
    }

    fn find(&mut self, name: &str) -> Result<&mut Process> {
        let found = self.processes.iter_mut().find(|p| p.spec.name == name);
        found.with_context(|| format!("the spec has no process {name:?}"))
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        let tunnel = self.processes.iter_mut().rev().map(|p| &mut p.child);
        for child in tunnel.chain([&mut self.backend]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn spawn(argv: &[String], log: &Path) -> Result<Child> {
    let log = File::options().create(true).append(true).open(log)?;
    let mut command = Command::new(&argv[0]);
    command
        .args(&argv[1..])
        .stdout(log.try_clone()?)
        .stderr(log);
    // SAFETY: prctl is async-signal-safe; it makes the child die with this process.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        });
    }
    command
        .spawn()
        .with_context(|| format!("starting {}", argv[0]))
}

async fn retry<T, F: Future<Output = Result<T>>>(
    what: &str,
    mut f: impl FnMut() -> F,
) -> Result<T> {
    let start = Instant::now();
    loop {
        match timeout(Duration::from_secs(2), f()).await {
            Ok(Ok(done)) => return Ok(done),
            other if start.elapsed() > Duration::from_secs(20) => match other {
                Ok(Err(e)) => return Err(e.context(format!("{what} did not come up"))),
                _ => bail!("{what} did not come up"),
            },
            _ => sleep(Duration::from_millis(50)).await,
        }
    }
}
