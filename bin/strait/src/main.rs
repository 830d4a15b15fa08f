//! One binary: the roles that run in clusters, and the command line.

mod agent;
mod controller;
mod hub;
mod quickstart;
mod role;
mod roles;

use std::{
    io::{IsTerminal, stderr, stdout},
    process::ExitCode,
};

use strait_cli::Streams;

#[tokio::main]
async fn main() -> ExitCode {
    // Libraries that make a TLS configuration of their own take the process's provider.
    let _ = (*strait_pki::provider()).clone().install_default();
    if let Some(code) = roles::run().await {
        return code;
    }
    let streams = Streams {
        out: &mut stdout(),
        err: &mut stderr(),
        err_is_terminal: stderr().is_terminal(),
    };
    ExitCode::from(strait_cli::run(std::env::args_os(), streams).await)
}
