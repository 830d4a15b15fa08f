//! The main job, shown on three real clusters, which stay up to play with.

mod scenes;
mod story;

use std::process::ExitCode;

use anyhow::{Context, Result};
use strait_e2e::Stage;
use strait_testbed::{KUBERNETES_VERSION, Progress, Set};
use tokio::time::Instant;

use story::Story;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        #[expect(clippy::print_stderr, reason = "this is a command line")]
        Err(error) => {
            eprintln!("error: {error:#}");
            eprintln!("\nhint: `make clusters-down` removes what was started");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<()> {
    let (story, started) = (Story, Instant::now());
    let stage = Stage::up(Set::Demo, &Progress::stderr())
        .await
        .context("failed to start")?;
    let names: Vec<_> = stage
        .fleet
        .clusters()
        .iter()
        .map(|cluster| format!("{} ✓", cluster.name()))
        .collect();
    story.line("Kubernetes", KUBERNETES_VERSION, "ready");
    let count = format!("{} clusters", names.len());
    story.line(
        &count,
        &names.join("  "),
        &story::seconds(started.elapsed()),
    );
    story.more(
        "cluster1 and cluster2 accept no connection from outside; all use the same addresses",
    );
    scenes::join(&stage, &story)
        .await
        .context("scene 1, join")?;
    scenes::expose(&stage, &story)
        .await
        .context("scene 2, expose")?;
    scenes::reach(&stage, &story)
        .await
        .context("scene 3, reach")?;
    scenes::refuse(&stage, &story)
        .await
        .context("scene 4, refuse")?;
    Box::pin(scenes::break_and_mend(&stage, &story))
        .await
        .context("scene 5, break")?;
    scenes::farewell(&stage, &story).await
}
