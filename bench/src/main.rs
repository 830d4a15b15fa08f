//! Compares TCP tunnels side by side over loopback. See README.md.

mod backend;
mod certs;
mod conn;
mod delay;
mod fault;
mod perf;
mod proc;
mod relay;
mod report;
mod spec;
mod summary;

use std::{fs::File, io::Write, path::PathBuf, time::Duration};

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

use fault::Stall;
use proc::{Metrics, wait_quiet};
use spec::{BACKEND_PLAIN, BACKEND_TLS, Dirs, Spec, Tunnel};

#[derive(Parser)]
#[command(about = "Compares TCP tunnels side by side over loopback")]
enum Cli {
    /// Write throw-away mTLS certificates.
    Certs { dir: PathBuf },
    /// Run scenarios against tunnels and append one JSON line for each repetition.
    Run(RunArgs),
    /// Print result files as Markdown tables: median [min–max].
    Report {
        files: Vec<PathBuf>,
        /// Only figures whose name contains one of these.
        #[arg(long)]
        only: Vec<String>,
    },
    /// Write the medians of the figures that are compared between versions.
    Summary {
        files: Vec<PathBuf>,
        #[arg(long)]
        out: PathBuf,
    },
    #[command(flatten)]
    Part(Part),
}

/// Programs that a run starts by itself.
#[derive(Subcommand)]
enum Part {
    /// The service behind the tunnel.
    Backend {
        #[arg(long, default_value = BACKEND_PLAIN)]
        plain: String,
        #[arg(long, default_value = BACKEND_TLS)]
        tls: String,
        #[arg(long)]
        certs: PathBuf,
    },
    /// A link with latency.
    Delay {
        #[arg(long)]
        listen: String,
        #[arg(long)]
        forward: String,
        /// One way.
        #[arg(long)]
        ms: u64,
    },
    /// A relay without multiplexing, for reference.
    Relay {
        /// tls:ADDR or tcp:ADDR
        #[arg(long)]
        listen: String,
        /// tls:ADDR or tcp:ADDR
        #[arg(long)]
        forward: String,
        #[arg(long)]
        certs: PathBuf,
    },
}

#[derive(Args)]
struct RunArgs {
    /// Tunnel descriptions.
    #[arg(required = true)]
    specs: Vec<PathBuf>,
    /// bulk, latency, setup, idle, hol, fault, leak; all when left out.
    #[arg(long, value_delimiter = ',')]
    scenario: Vec<String>,
    /// Only cases whose name contains this.
    #[arg(long, default_value = "")]
    case: String,
    #[arg(long, default_value_t = 3)]
    reps: u32,
    /// Length of a measuring window in seconds.
    #[arg(long, default_value_t = 4.0)]
    secs: f64,
    /// Numbers of idle connections. Mind the limit on descriptors: a relay takes two for each.
    #[arg(long, value_delimiter = ',', default_value = "1000,5000,10000")]
    idle: Vec<usize>,
    /// Measure again (at most three times in all) when other programs used more cores than this.
    #[arg(long, default_value_t = 0.1)]
    max_noise: f64,
    /// Directory of the tunnels' binaries.
    #[arg(long)]
    bin: PathBuf,
    /// Directory made by `tunnelbench certs`.
    #[arg(long)]
    certs: PathBuf,
    /// Directory for logs and configuration files.
    #[arg(long)]
    run: PathBuf,
    /// Result file, appended to.
    #[arg(long)]
    out: PathBuf,
}

#[derive(Clone, Copy)]
enum Case {
    Bulk { streams: usize, down: bool },
    Latency { conns: usize, size: usize },
    Setup { workers: usize },
    Idle,
    Hol(Stall),
    KillRestart { who: &'static str, down: u64 },
    AgentGone,
    AgentFrozen,
    Closing,
    DialErrors,
    Leak,
}

impl Case {
    fn all() -> Vec<Case> {
        let mut cases = Vec::new();
        for down in [true, false] {
            cases.extend([1, 8, 64].map(|streams| Case::Bulk { streams, down }));
        }
        for conns in [1, 64] {
            cases.extend([1, 1024].map(|size| Case::Latency { conns, size }));
        }
        cases.extend([1, 64].map(|workers| Case::Setup { workers }));
        cases.push(Case::Idle);
        cases.extend([Stall::Client, Stall::SlowClient, Stall::Backend].map(Case::Hol));
        cases.extend(
            [("agent", 0), ("server", 0), ("server", 20)]
                .map(|(who, down)| Case::KillRestart { who, down }),
        );
        cases.extend([
            Case::AgentGone,
            Case::AgentFrozen,
            Case::Closing,
            Case::DialErrors,
        ]);
        cases.push(Case::Leak);
        cases
    }

    /// Scenario and name.
    fn name(self) -> (&'static str, String) {
        match self {
            Case::Bulk { streams, down } => (
                "bulk",
                format!("{} x{streams}", if down { "down" } else { "up" }),
            ),
            Case::Latency { conns, size } => ("latency", format!("{size}B x{conns}")),
            Case::Setup { workers } => ("setup", format!("x{workers}")),
            Case::Idle => ("idle", "memory".into()),
            Case::Hol(Stall::Client) => ("hol", "client stops reading".into()),
            Case::Hol(Stall::SlowClient) => ("hol", "client reads 1 MB/s".into()),
            Case::Hol(Stall::Backend) => ("hol", "backend stops reading".into()),
            Case::KillRestart { who, down } => (
                "fault",
                format!("{who} killed and restarted after {down} s"),
            ),
            Case::AgentGone => ("fault", "agent killed".into()),
            Case::AgentFrozen => ("fault", "agent frozen".into()),
            Case::Closing => ("fault", "closing".into()),
            Case::DialErrors => ("fault", "dial errors".into()),
            Case::Leak => ("leak", "20k open and close".into()),
        }
    }

    /// Whether it makes sense for this tunnel.
    fn applies(self, t: &Tunnel) -> bool {
        match self {
            Case::Idle | Case::Leak => t.has("server"),
            Case::KillRestart { who, .. } => t.has(who),
            Case::AgentGone | Case::AgentFrozen => t.has("agent"),
            Case::DialErrors => t.dialer.picks_target(),
            _ => true,
        }
    }

    async fn measure(self, t: &mut Tunnel, args: &RunArgs) -> Result<Metrics> {
        let secs = args.secs;
        match self {
            Case::Bulk { streams, down } => perf::bulk(t, secs, streams, down).await,
            Case::Latency { conns, size } => perf::latency(t, secs, conns, size).await,
            Case::Setup { workers } => perf::setup(t, secs, workers).await,
            Case::Idle => perf::idle(t, &args.idle).await,
            Case::Hol(kind) => fault::hol(t, kind).await,
            Case::KillRestart { who, down } => fault::kill_restart(t, who, down).await,
            Case::AgentGone => fault::agent_gone(t).await,
            Case::AgentFrozen => fault::agent_frozen(t).await,
            Case::Closing => fault::closing(t).await,
            Case::DialErrors => fault::dial_errors(t).await,
            Case::Leak => fault::leak(t, 10_000).await,
        }
    }
}

async fn run(mut args: RunArgs) -> Result<()> {
    raise_fd_limit();
    // Programs read paths from wherever they are.
    std::fs::create_dir_all(&args.run)?;
    for path in [&mut args.bin, &mut args.certs, &mut args.run] {
        *path = path.canonicalize()?;
    }
    let mut out = File::options().create(true).append(true).open(&args.out)?;
    let specs = args
        .specs
        .iter()
        .map(|s| Spec::load(s))
        .collect::<Result<Vec<_>>>()?;
    for case in Case::all() {
        let (scenario, name) = case.name();
        let wanted = args.scenario.is_empty() || args.scenario.iter().any(|s| s == scenario);
        if !wanted || !name.contains(&args.case) {
            continue;
        }
        // Tunnels take turns, so that a drift of the machine's speed meets all of them.
        for rep in 1..=args.reps {
            for spec in &specs {
                match quietest(case, spec, &args).await {
                    Ok(Some(metrics)) => {
                        let line = report::Line {
                            tunnel: spec.name.clone(),
                            scenario: scenario.into(),
                            case: name.clone(),
                            rep,
                            metrics,
                        };
                        writeln!(out, "{}", serde_json::to_string(&line)?)?;
                        eprintln!("{scenario} {name} #{rep} {}", spec.name);
                    }
                    Ok(None) => {}
                    Err(e) => eprintln!("{scenario} {name} #{rep} {}: FAILED: {e:#}", spec.name),
                }
            }
        }
    }
    Ok(())
}

/// Measures on a freshly started tunnel, again while the machine is busy with something else.
async fn quietest(case: Case, spec: &Spec, args: &RunArgs) -> Result<Option<Metrics>> {
    let run = args.run.join(&spec.name);
    let dirs = Dirs {
        bin: args.bin.clone(),
        certs: args.certs.clone(),
        run,
    };
    let noise = |m: &Metrics| m.get("foreign_cores").copied().unwrap_or(0.0);
    let mut best: Option<Metrics> = None;
    for _ in 0..3 {
        wait_quiet(Duration::from_secs(60)).await;
        let mut tunnel = Tunnel::start(spec, &dirs).await?;
        if !case.applies(&tunnel) {
            return Ok(None);
        }
        let metrics = case.measure(&mut tunnel, args).await?;
        if best.as_ref().is_none_or(|b| noise(&metrics) < noise(b)) {
            best = Some(metrics);
        }
        if best.as_ref().is_some_and(|b| noise(b) <= args.max_noise) {
            break;
        }
    }
    Ok(best)
}

/// Thousands of connections take more descriptors than the usual soft limit; children inherit it.
fn raise_fd_limit() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid for both calls.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    match Cli::parse() {
        Cli::Certs { dir } => certs::generate(&dir),
        Cli::Run(args) => run(args).await,
        Cli::Report { files, only } => report::print(&files, &only),
        Cli::Summary { files, out } => summary::write(&files, &out),
        Cli::Part(Part::Backend { plain, tls, certs }) => backend::run(&plain, &tls, &certs).await,
        Cli::Part(Part::Delay {
            listen,
            forward,
            ms,
        }) => delay::run(&listen, &forward, Duration::from_millis(ms)).await,
        Cli::Part(Part::Relay {
            listen,
            forward,
            certs,
        }) => relay::run(&listen, &forward, &certs).await,
    }
}
