//! The figures that are compared from one version to the next, as `summary.json`.

use std::{collections::BTreeMap, fs, path::PathBuf};

use anyhow::Result;
use serde_json::{Map, Value, json};

use crate::report::Line;

/// A measure: its name and unit, whether more is better, and where it comes from: scenario, case
/// and metric.
struct Measure {
    name: &'static str,
    unit: &'static str,
    better: &'static str,
    from: (&'static str, &'static str, &'static str),
}

const fn measure(
    name: &'static str,
    unit: &'static str,
    better: &'static str,
    from: (&'static str, &'static str, &'static str),
) -> Measure {
    Measure {
        name,
        unit,
        better,
        from,
    }
}

const GB: &str = "gb_per_s";
const CPU: &str = "cpu_s_per_gb.total";
const MEASURES: [Measure; 14] = [
    measure("bulk_down_x1", "GB/s", "higher", ("bulk", "down x1", GB)),
    measure("bulk_down_x8", "GB/s", "higher", ("bulk", "down x8", GB)),
    measure("bulk_down_x64", "GB/s", "higher", ("bulk", "down x64", GB)),
    measure("bulk_up_x1", "GB/s", "higher", ("bulk", "up x1", GB)),
    measure("bulk_up_x8", "GB/s", "higher", ("bulk", "up x8", GB)),
    measure("bulk_up_x64", "GB/s", "higher", ("bulk", "up x64", GB)),
    measure(
        "cpu_s_per_gb_down_x8",
        "s/GB",
        "lower",
        ("bulk", "down x8", CPU),
    ),
    measure(
        "cpu_s_per_gb_up_x8",
        "s/GB",
        "lower",
        ("bulk", "up x8", CPU),
    ),
    measure(
        "rtt_p50_x1",
        "us",
        "lower",
        ("latency", "1B x1", "rtt.p50_us"),
    ),
    measure(
        "rtt_p99_x1",
        "us",
        "lower",
        ("latency", "1B x1", "rtt.p99_us"),
    ),
    measure(
        "connects_per_s_x1",
        "1/s",
        "higher",
        ("setup", "x1", "conns_per_s"),
    ),
    measure(
        "connects_per_s_x64",
        "1/s",
        "higher",
        ("setup", "x64", "conns_per_s"),
    ),
    measure(
        "recover_agent_ms",
        "ms",
        "lower",
        (
            "fault",
            "agent killed and restarted after 0 s",
            "works_again_ms",
        ),
    ),
    measure(
        "recover_hub_ms",
        "ms",
        "lower",
        (
            "fault",
            "server killed and restarted after 0 s",
            "works_again_ms",
        ),
    ),
];

/// Writes the medians of result files; a measure without results is left out.
pub fn write(files: &[PathBuf], out: &PathBuf) -> Result<()> {
    let mut values: BTreeMap<(usize, String), Vec<f64>> = BTreeMap::new();
    for file in files {
        for line in fs::read_to_string(file)?.lines() {
            let line: Line = serde_json::from_str(line)?;
            for (index, measure) in MEASURES.iter().enumerate() {
                let (scenario, case, metric) = measure.from;
                if line.scenario == scenario
                    && line.case == case
                    && let Some(value) = line.metrics.get(metric)
                {
                    let column = values.entry((index, line.tunnel.clone())).or_default();
                    column.push(*value);
                }
            }
        }
    }
    let mut measures = Map::new();
    for ((index, tunnel), mut values) in values {
        let measure = &MEASURES[index];
        values.sort_by(f64::total_cmp);
        let entry = measures
            .entry(measure.name)
            .or_insert_with(|| json!({ "unit": measure.unit, "better": measure.better }));
        entry[tunnel] = json!(values[values.len() / 2]);
    }
    let summary = json!({ "machine": machine(), "measures": measures });
    fs::write(out, serde_json::to_string_pretty(&summary)? + "\n")?;
    Ok(())
}

fn machine() -> Value {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find(|line| line.starts_with("model name"));
    json!({
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "cpu": model.and_then(|line| line.split_once(':')).map(|(_, model)| model.trim()),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
    })
}
