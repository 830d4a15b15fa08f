//! Chores of this workspace that need a program: `cargo xtask --help`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod clusters;
mod layers;

/// Chores of this workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Real Kubernetes clusters on this machine, for the demo and for tests.
    #[command(subcommand)]
    Clusters(clusters::Command),
    /// Checks that every crate depends on lower layers only.
    Layers,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let done = match Cli::parse().chore {
        Chore::Clusters(command) => command.run().await,
        Chore::Layers => layers::check(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        #[expect(clippy::print_stderr, reason = "the end of a program that has no log")]
        Err(error) => {
            eprintln!("error: {error}");
            for cause in error.chain().skip(1) {
                eprintln!("  caused by: {cause}");
            }
            ExitCode::FAILURE
        }
    }
}
