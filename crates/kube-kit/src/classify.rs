//! Whether trying again can help.

/// What to do after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Try again after a while.
    Retry,
    /// Only a person can change something.
    AwaitUser,
}

/// An error that knows whether trying again can help.
pub trait Classify: std::error::Error {
    /// What to do after it.
    fn verdict(&self) -> Verdict;
}

impl Classify for kube::Error {
    fn verdict(&self) -> Verdict {
        match self {
            Self::Api(status) if matches!(status.code, 400 | 403 | 422) => Verdict::AwaitUser,
            _ => Verdict::Retry,
        }
    }
}
