//! The roles by name. Everything else is the command line's.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::{
    agent::AgentRole, controller::ControllerRole, hub::HubRole, quickstart::QuickstartRole,
};

/// A role that runs in a cluster.
#[derive(Debug, Parser)]
#[command(name = "strait", version, disable_help_subcommand = true)]
struct Roles {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    Hub(Box<HubRole>),
    Controller(Box<ControllerRole>),
    Agent(Box<AgentRole>),
    Quickstart(Box<QuickstartRole>),
}

/// Names of the roles, as the first argument has them.
const NAMES: [&str; 4] = ["hub", "controller", "agent", "quickstart"];

/// Runs the role that the first argument names; `None` when it names none.
pub(crate) async fn run() -> Option<ExitCode> {
    let first = std::env::args_os().nth(1)?;
    if !NAMES.iter().any(|name| first == *name) {
        return None;
    }
    let ended = match Roles::parse().role {
        Role::Hub(role) => Box::pin(role.run()).await,
        Role::Controller(role) => Box::pin(role.run()).await,
        Role::Agent(role) => Box::pin(role.run()).await,
        Role::Quickstart(role) => Box::pin(role.run()).await,
    };
    Some(match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    })
}

#[expect(clippy::print_stderr, reason = "the log may not be set up yet")]
fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {error:#}");
    ExitCode::FAILURE
}
