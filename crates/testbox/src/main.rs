//! A server and a client of many manners, put into images for tests on real clusters.
//!
//! `testbox serve` listens on all of [`ports`] at once; `testbox connect` goes through an HTTP
//! CONNECT proxy. What it prints is for the tests to read.

mod connect;
mod digest;
mod pages;
mod ports;
mod raw;
mod serve;

use std::process::ExitCode;

use clap::Parser;

/// A server and a client of many manners
#[derive(Debug, Parser)]
enum Cli {
    /// Listen on every port
    Serve(serve::ServeArgs),
    /// Go through an HTTP CONNECT proxy
    Connect(connect::ConnectArgs),
}

#[tokio::main]
async fn main() -> ExitCode {
    // The first call of a process cannot fail; a later one would find the same provider.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let outcome = match Cli::parse() {
        Cli::Serve(args) => serve::run(args).await,
        Cli::Connect(args) => connect::run(args).await,
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        #[expect(clippy::print_stderr, reason = "this is a command line")]
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
