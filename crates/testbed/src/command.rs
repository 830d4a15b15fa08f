//! Runs programs, and says what they were run for when they fail.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
    process::{Output, Stdio},
};

use tokio::{io::AsyncWriteExt, process::Command};

use crate::error::Error;

/// How many of a failed program's last lines go into the error.
const LINES_KEPT: usize = 12;

/// A program to be run, and what for.
#[derive(Debug)]
pub(crate) struct Job {
    what: String,
    argv: Vec<OsString>,
    input: Option<String>,
    command: Command,
}

impl Job {
    /// `what` follows "failed to" in the error.
    pub(crate) fn new(what: impl Into<String>, program: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(&program);
        command.stdin(Stdio::null()).kill_on_drop(true);
        Self {
            what: what.into(),
            argv: vec![program.as_ref().to_owned()],
            input: None,
            command,
        }
    }

    pub(crate) fn arg(self, arg: impl AsRef<OsStr>) -> Self {
        self.args([arg])
    }

    pub(crate) fn args<I>(mut self, args: I) -> Self
    where
        I: IntoIterator,
        I::Item: AsRef<OsStr>,
    {
        for arg in args {
            self.command.arg(&arg);
            self.argv.push(arg.as_ref().to_owned());
        }
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn current_dir(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// What the program reads from its standard input.
    pub(crate) fn input(mut self, text: impl Into<String>) -> Self {
        self.input = Some(text.into());
        self
    }

    /// The prepared command itself, for callers that read the output while it comes.
    pub(crate) fn into_command(self) -> Command {
        self.command
    }

    /// Runs it to its end, whatever that is.
    pub(crate) async fn output(mut self) -> Result<Output, Error> {
        let run = |source| Error::Run {
            program: shown(&self.argv),
            source,
        };
        if self.input.is_some() {
            self.command.stdin(Stdio::piped());
        }
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().map_err(run)?;
        if let (Some(text), Some(mut stdin)) = (&self.input, child.stdin.take()) {
            // A program that ends without reading has its own complaint, which is the better one.
            let _unread = stdin.write_all(text.as_bytes()).await;
        }
        child.wait_with_output().await.map_err(|source| Error::Run {
            program: shown(&self.argv),
            source,
        })
    }

    /// Runs it and returns what it wrote to its standard output.
    pub(crate) async fn run(self) -> Result<String, Error> {
        let what = self.what.clone();
        let argv = self.argv.clone();
        let output = self.output().await?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = if output.stderr.is_empty() {
            &output.stdout
        } else {
            &output.stderr
        };
        Err(failed(
            what,
            &argv,
            output.status,
            &String::from_utf8_lossy(said),
        ))
    }
}

/// The error of a program that ended with `status` and said `text`.
pub(crate) fn failed(
    what: String,
    argv: &[OsString],
    status: std::process::ExitStatus,
    text: &str,
) -> Error {
    Error::Command {
        what,
        program: shown(argv),
        ending: status.code().map_or_else(
            || "was killed".to_owned(),
            |code| format!("ended with code {code}"),
        ),
        output: last_lines(text),
    }
}

fn shown(argv: &[OsString]) -> String {
    let words: Vec<_> = argv
        .iter()
        .take(2)
        .map(|word| word.to_string_lossy())
        .collect();
    words.join(" ")
}

/// The last lines of `text`, each on a line of its own and indented.
pub(crate) fn last_lines(text: &str) -> String {
    let lines: Vec<_> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    lines[lines.len().saturating_sub(LINES_KEPT)..]
        .iter()
        .map(|line| format!("\n    {line}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_failure_says_what_it_was_for_and_what_the_program_said() {
        let error = Job::new("greet", "sh")
            .args(["-c", "echo no >&2; exit 3"])
            .run()
            .await;
        assert_eq!(
            error.unwrap_err().to_string(),
            "failed to greet: `sh -c` ended with code 3\n    no"
        );
    }

    #[tokio::test]
    async fn input_reaches_the_program() {
        let said = Job::new("copy", "cat").input("a\nb\n").run().await;
        assert_eq!(said.unwrap(), "a\nb\n");
    }
}
