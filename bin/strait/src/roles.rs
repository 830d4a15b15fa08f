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

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_role_has_help_with_examples_that_parse() {
        let roles = Roles::command();
        let names: Vec<&str> = roles
            .get_subcommands()
            .map(clap::Command::get_name)
            .collect();
        assert_eq!(names, NAMES);
        for role in roles.get_subcommands() {
            let help = role.get_after_help().map(ToString::to_string);
            let help = help.unwrap_or_default();
            let lines = help
                .lines()
                .filter_map(|line| line.strip_prefix("  strait "));
            let examples: Vec<&str> = lines.filter_map(|line| line.split("   ").next()).collect();
            assert!(!examples.is_empty(), "{}", role.get_name());
            for example in examples {
                let words = ["strait"].into_iter().chain(example.split_whitespace());
                let parsed = Roles::try_parse_from(words);
                assert!(parsed.is_ok(), "{example}: {:?}", parsed.err());
            }
        }
    }
}
