//! Scenarios that measure a healthy tunnel: throughput, latency, connection setup, memory.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow};
use hdrhistogram::Histogram;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    task::JoinSet,
    time::sleep,
};

use crate::{
    backend::{CHUNK, op},
    conn::Dialer,
    proc::{self, CpuWindow, Metrics},
    spec::Tunnel,
};

const WARM_UP: Duration = Duration::from_secs(1);

pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("valid bounds")
}

/// Adds `<name>.p50_us` and so on.
pub fn quantiles(name: &str, h: &Histogram<u64>, out: &mut Metrics) {
    for (label, q) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)] {
        out.insert(
            format!("{name}.{label}_us"),
            h.value_at_quantile(q) as f64 / 1e3,
        );
    }
}

/// Steady-state throughput of `streams` parallel connections in one direction.
/// Bytes count where they arrive: at the client for `down`, at the backend for up.
pub async fn bulk(t: &mut Tunnel, secs: f64, streams: usize, down: bool) -> Result<Metrics> {
    let counters: Arc<Vec<AtomicU64>> = Arc::new((0..streams).map(|_| AtomicU64::new(0)).collect());
    let mut tasks: JoinSet<Result<()>> = JoinSet::new();
    for i in 0..streams {
        let mut conn = t.dialer.dial().await?;
        let counters = counters.clone();
        tasks.spawn(async move {
            let mut buf = vec![0x5a; CHUNK];
            if down {
                conn.io.write_all(&op(b'G', u64::MAX)).await?;
                conn.io.flush().await?;
            } else {
                conn.start_upload(b'S', i as u64).await?;
            }
            loop {
                let n = if down {
                    conn.io.read(&mut buf).await?
                } else {
                    conn.io.write(&buf).await?
                };
                if n == 0 {
                    return Err(anyhow!("stream {i} ended early"));
                }
                counters[i].fetch_add(n as u64, Relaxed);
            }
        });
    }
    sleep(WARM_UP).await;
    let per_stream = || counters.iter().map(|c| c.load(Relaxed)).collect::<Vec<_>>();
    let before = per_stream();
    let sunk = t.control.sunk().await?;
    let cpu = CpuWindow::open(t.pids());
    sleep(Duration::from_secs_f64(secs)).await;
    let after = per_stream();
    let arrived = if down {
        after.iter().sum::<u64>() - before.iter().sum::<u64>()
    } else {
        t.control.sunk().await? - sunk
    };
    if let Some(ended) = tasks.try_join_next() {
        ended??;
    }

    let gb = arrived as f64 / 1e9;
    let mut out = Metrics::new();
    let wall = cpu.close("cpu_s_per_gb", gb, &mut out);
    out.insert("gb_per_s".into(), gb / wall);
    let moved: Vec<u64> = after.iter().zip(&before).map(|(a, b)| a - b).collect();
    let (least, most) = (moved.iter().min(), moved.iter().max());
    if let (Some(&least), Some(&most)) = (least, most)
        && streams > 1
    {
        out.insert(
            "slowest_to_fastest_stream".into(),
            least as f64 / most as f64,
        );
    }
    Ok(out)
}

/// Closed-loop ping-pong over established connections.
pub async fn latency(t: &mut Tunnel, secs: f64, conns: usize, size: usize) -> Result<Metrics> {
    let mut ready = Vec::new();
    for _ in 0..conns {
        ready.push(t.dialer.hello().await?);
    }
    let warm = Instant::now() + WARM_UP / 2;
    let end = warm + Duration::from_secs_f64(secs);
    let mut tasks: JoinSet<Result<Histogram<u64>>> = JoinSet::new();
    for mut conn in ready {
        tasks.spawn(async move {
            let (mut buf, mut h) = (vec![0x5a; size], histogram());
            loop {
                let start = Instant::now();
                if start >= end {
                    return Ok(h);
                }
                conn.ping(&mut buf).await?;
                if start >= warm {
                    h.saturating_record(start.elapsed().as_nanos() as u64);
                }
            }
        });
    }
    tokio::time::sleep_until(warm.into()).await;
    let cpu = CpuWindow::open(t.pids());
    tokio::time::sleep_until(end.into()).await;
    let mut out = Metrics::new();
    let mut total = histogram();
    while let Some(h) = tasks.join_next().await {
        total.add(h??)?;
    }
    let wall = cpu.close("cpu_us_per_ping", total.len() as f64 / 1e6, &mut out);
    out.insert("pings_per_s".into(), total.len() as f64 / wall);
    quantiles("rtt", &total, &mut out);
    Ok(out)
}

/// Closed-loop open, one-byte echo, close. `dial` ends when the front says connected, `first_byte`
/// when the echo is back: a front that accepts before it knows only differs in the first.
pub async fn setup(t: &mut Tunnel, secs: f64, workers: usize) -> Result<Metrics> {
    let warm = Instant::now() + WARM_UP;
    let end = warm + Duration::from_secs_f64(secs);
    let mut tasks = JoinSet::new();
    for _ in 0..workers {
        let dialer = t.dialer.clone();
        tasks.spawn(async move {
            let (mut dial, mut first, mut failed) = (histogram(), histogram(), 0u64);
            loop {
                let start = Instant::now();
                if start >= end {
                    return (dial, first, failed);
                }
                match open_close(&dialer).await {
                    Ok((a, b)) if start >= warm => {
                        dial.saturating_record(a.as_nanos() as u64);
                        first.saturating_record(b.as_nanos() as u64);
                    }
                    Ok(_) => {}
                    Err(error) => {
                        // The first of each worker says enough.
                        if failed == 0 {
                            eprintln!("a connection failed: {error:#}");
                        }
                        failed += 1;
                    }
                }
            }
        });
    }
    tokio::time::sleep_until(warm.into()).await;
    let cpu = CpuWindow::open(t.pids());
    tokio::time::sleep_until(end.into()).await;
    let (mut dial, mut first, mut failed) = (histogram(), histogram(), 0);
    while let Some(done) = tasks.join_next().await {
        let (a, b, c) = done?;
        dial.add(a)?;
        first.add(b)?;
        failed += c;
    }
    let mut out = Metrics::new();
    let wall = cpu.close("cpu_us_per_conn", first.len() as f64 / 1e6, &mut out);
    out.insert("conns_per_s".into(), first.len() as f64 / wall);
    out.insert("failed".into(), failed as f64);
    quantiles("dial", &dial, &mut out);
    quantiles("first_byte", &first, &mut out);
    Ok(out)
}

/// Opens, echoes one byte, closes; how long dialling and the first byte took.
pub async fn open_close(dialer: &Dialer) -> Result<(Duration, Duration)> {
    let start = Instant::now();
    let mut conn = dialer.dial().await?;
    let dialled = start.elapsed();
    conn.io.write_all(&op(b'E', 0)).await?;
    conn.ping(&mut [7]).await?;
    let first = start.elapsed();
    conn.close().await;
    Ok((dialled, first))
}

/// Memory per idle connection, after each of a series of totals.
pub async fn idle(t: &mut Tunnel, levels: &[usize]) -> Result<Metrics> {
    let mut out = Metrics::new();
    let base: Vec<f64> = t
        .tunnel_pids()
        .iter()
        .map(|(_, pid)| proc::rss_mib(*pid))
        .collect();
    let mut held = Vec::new();
    for &level in levels {
        let mut tasks = JoinSet::new();
        let start = Instant::now();
        while held.len() + tasks.len() < level {
            if tasks.len() == 64 {
                held.push(tasks.join_next().await.expect("64 tasks")??);
            }
            let dialer = t.dialer.clone();
            tasks.spawn(async move { dialer.hello().await });
        }
        while let Some(conn) = tasks.join_next().await {
            held.push(conn??);
        }
        out.insert(format!("{level:05}.open_s"), start.elapsed().as_secs_f64());
        sleep(Duration::from_secs(3)).await;
        for ((name, pid), base) in t.tunnel_pids().iter().zip(&base) {
            let rss = proc::rss_mib(*pid);
            out.insert(format!("{level:05}.{name}.rss_mib"), rss);
            out.insert(
                format!("{level:05}.{name}.kib_per_conn"),
                (rss - base) * 1024.0 / level as f64,
            );
        }
    }
    let cpu = CpuWindow::open(t.pids());
    sleep(Duration::from_secs(2)).await;
    cpu.close("idle_cores", 2.0, &mut out);
    for conn in held {
        conn.close().await;
    }
    sleep(Duration::from_secs(5)).await;
    for (name, pid) in t.tunnel_pids() {
        out.insert(format!("closed.{name}.rss_mib"), proc::rss_mib(pid));
    }
    Ok(out)
}
