//! What a command fails with: what we were doing, the causes, and what to try next.

use std::fmt::Write;

/// Why a command did not do what it was asked to.
#[derive(Debug)]
pub(crate) struct Failure {
    error: anyhow::Error,
    hint: Option<String>,
    code: u8,
}

/// Exit code of a command that failed.
pub(crate) const FAILED: u8 = 1;
/// Exit code of a command line that makes no sense.
pub(crate) const WRONG_USAGE: u8 = 2;

/// Adds a hint to an error.
pub(crate) trait WithHint<T> {
    /// Says what to try next, should it fail.
    fn hint(self, hint: impl Into<String>) -> Result<T, Failure>;
}

// === impl Failure ===

impl Failure {
    /// The arguments contradict each other or the situation.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self {
            error: anyhow::Error::msg(message.into()),
            hint: None,
            code: WRONG_USAGE,
        }
    }

    /// Failed with this message and no cause.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        anyhow::Error::msg(message.into()).into()
    }

    /// The same with a hint, in place of one that was guessed from the cause.
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    /// Whether the reader of our output has gone, which is none of our business.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        self.error.chain().any(|cause| {
            cause
                .downcast_ref::<std::io::Error>()
                .is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
        })
    }

    /// Whether an API server said that this context may not do it.
    pub(crate) fn is_forbidden(&self) -> bool {
        self.error.chain().any(|cause| {
            matches!(cause.downcast_ref(), Some(kube::Error::Api(status)) if status.is_forbidden())
        })
    }

    /// The error and its causes in one line, for a command that goes on without.
    pub(crate) fn line(&self) -> String {
        format!("{:#}", self.error)
    }

    /// `error: …`, then `  caused by: …` for each cause, then the hint behind an empty line.
    pub(crate) fn render(&self) -> String {
        let mut text = format!("error: {}\n", self.error);
        let mut above = self.error.to_string();
        for cause in self.error.chain().skip(1) {
            let (told, is_last) = told(cause);
            // Some libraries repeat their cause in their own message.
            if !above.contains(&told) {
                for line in told.lines() {
                    let _ = writeln!(text, "  caused by: {line}");
                }
                above = told;
            }
            if is_last {
                break;
            }
        }
        if let Some(hint) = &self.hint {
            let _ = write!(text, "\nhint: {hint}\n");
        }
        text
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        let hint = crate::hint::for_error(&error);
        Self {
            error,
            hint,
            code: FAILED,
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        anyhow::Error::from(error).into()
    }
}

impl<T, E: Into<anyhow::Error>> WithHint<T> for Result<T, E> {
    fn hint(self, hint: impl Into<String>) -> Result<T, Failure> {
        self.map_err(|error| Failure::from(error.into()).with_hint(hint))
    }
}

/// The message of a cause, and whether what follows only repeats it: of an API server's answer
/// only what it says itself is told.
fn told(cause: &(dyn std::error::Error + 'static)) -> (String, bool) {
    match cause.downcast_ref() {
        Some(kube::Error::Api(status)) if status.message.starts_with("404 page not found") => {
            ("the API server knows nothing of this kind".to_owned(), true)
        }
        Some(kube::Error::Api(status)) => (status.message.clone(), true),
        _ => (cause.to_string(), false),
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn an_api_server_is_quoted_once() {
        let status = kube::core::Status {
            code: 403,
            message: "managedclusters is forbidden".to_owned(),
            ..Default::default()
        };
        let error: Result<(), _> = Err(kube::Error::Api(status.boxed()));
        let failure = Failure::from(error.context("failed to list managedclusters").unwrap_err());
        let told = failure.render();
        assert_eq!(told.matches("forbidden").count(), 1, "{told}");
    }

    #[test]
    fn a_failure_reads_as_what_why_and_what_next() {
        let cause: Result<(), _> = Err(anyhow::anyhow!("no agent is connected"));
        let failure = cause
            .context("failed to reach `lab`")
            .hint("`strait clusters` lists them");
        assert_eq!(
            failure.unwrap_err().render(),
            "error: failed to reach `lab`\n  caused by: no agent is connected\n\n\
             hint: `strait clusters` lists them\n"
        );
    }
}
