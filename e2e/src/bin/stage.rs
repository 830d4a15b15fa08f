//! Sets the stage for the end-to-end tests, or takes it down.

use std::process::ExitCode;

use clap::Parser;
use strait_e2e::Stage;
use strait_testbed::{Fleet, Progress, Set};

/// The stage of the end-to-end tests
#[derive(Debug, Parser)]
enum Cli {
    /// Start the clusters, install a hub, let two members join, run services
    Up,
    /// Take everything down
    Down,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Cli::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        #[expect(clippy::print_stderr, reason = "this is a command line")]
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(cli: Cli) -> anyhow::Result<()> {
    let progress = Progress::stderr();
    match cli {
        Cli::Up => {
            let stage = Stage::up(Set::Test, &progress).await?;
            let step = progress.step("hub, members, services");
            stage.set().await?;
            step.finish("ready");
        }
        Cli::Down => Fleet::down_set(Set::Test, &progress).await?,
    }
    Ok(())
}
