//! From arguments to an exit code.

use std::{ffi::OsString, fmt, io::Write};

use clap::{CommandFactory, Parser, error::ErrorKind};

use crate::{
    args::{Cli, InstallTarget, TokenVerb, Verb},
    command,
    failure::{FAILED, Failure, WRONG_USAGE},
    printer::Printer,
};

/// Where a command writes.
pub struct Streams<'a> {
    /// What was asked for.
    pub out: &'a mut (dyn Write + Send),
    /// Talk and errors.
    pub err: &'a mut (dyn Write + Send),
    /// Whether `err` is a terminal.
    pub err_is_terminal: bool,
}

/// Runs one command line, the program's name first. Returns the exit code: 0 done, 1 failed,
/// 2 wrong usage. A reader of `out` that goes away early is no failure.
pub async fn run(args: impl IntoIterator<Item = OsString>, streams: Streams<'_>) -> u8 {
    let Streams {
        out,
        err,
        err_is_terminal,
    } = streams;
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(told) => return usage(&told, out, err),
    };
    let no_color = cli
        .global
        .no_color
        .as_deref()
        .is_some_and(|value| !value.is_empty());
    let mut printer = Printer::new(out, err)
        .lively(err_is_terminal && !no_color)
        .quiet(cli.global.quiet);
    match dispatch(cli, &mut printer).await {
        Ok(()) => 0,
        Err(failure) if failure.is_broken_pipe() => 0,
        Err(failure) => {
            // Where errors cannot be told, the code still tells.
            let _ = printer.failure(&failure);
            failure.code()
        }
    }
}

async fn dispatch(cli: Cli, printer: &mut Printer<'_>) -> Result<(), Failure> {
    let global = &cli.global;
    match cli.verb {
        Verb::Install {
            target: InstallTarget::Hub(args),
        } => Box::pin(command::install::run(global, &args, printer)).await,
        Verb::Token {
            verb: TokenVerb::Create(args),
        } => command::token::create(global, &args, printer).await,
        Verb::Join(args) => Box::pin(command::join::run(global, &args, printer)).await,
        Verb::Clusters(format) => command::clusters::run(global, format.output, printer).await,
        Verb::Status(format) => command::status::run(global, format.output, printer).await,
        Verb::Services { cluster, format } => {
            command::services::run(global, cluster.as_ref(), format.output, printer).await
        }
        Verb::Proxy(args) => Box::pin(command::proxy::run(global, &args, printer)).await,
        Verb::Forward(args) => Box::pin(command::forward::run(global, &args, printer)).await,
        Verb::Doctor(args) => Box::pin(command::doctor::run(global, &args, printer)).await,
        Verb::Uninstall(args) => Box::pin(command::uninstall::run(global, &args, printer)).await,
        Verb::Version(format) => command::version::run(format.output, printer),
        Verb::Completion { shell } => {
            let mut script = vec![];
            clap_complete::generate(shell, &mut Cli::command(), "strait", &mut script);
            printer.data(&String::from_utf8_lossy(&script))
        }
    }
}

/// Help and versions are data; a wrong command line is told like any other error.
fn usage(told: &clap::Error, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let text = told.render();
    let (code, written) = match told.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => (0, write!(out, "{text}")),
        _ => (WRONG_USAGE, write!(err, "{text}")),
    };
    match written {
        Ok(()) => code,
        Err(broken) if broken.kind() == std::io::ErrorKind::BrokenPipe => code,
        Err(_) => FAILED,
    }
}

impl fmt::Debug for Streams<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streams")
            .field("err_is_terminal", &self.err_is_terminal)
            .finish_non_exhaustive()
    }
}
