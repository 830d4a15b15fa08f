//! Why something did not come about, or ended early.

use std::io;

use strait_tunnel_proto::{EndReason, InvalidConfig, InvalidOpen};
use thiserror::Error;

/// Why there is no session.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EstablishError {
    /// The configuration contradicts itself.
    #[error("the configuration of the session is not valid")]
    Config(#[from] InvalidConfig),
    /// The peer did not greet, or not as it should.
    #[error("the session ended before it began")]
    Ended(#[source] EndReason),
}

/// Why a stream was not opened.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// The peer refused.
    #[error("the peer refused the stream with code {code}: {text}")]
    Rejected {
        /// Why, for programs.
        code: u16,
        /// Why, for people.
        text: String,
    },
    /// The session ended. The peer may have seen the request.
    #[error("the session is lost")]
    Lost(#[source] EndReason),
    /// The peer cut the stream instead of answering.
    #[error("the peer cut the stream with code {0}")]
    Reset(u16),
    /// One of the sides drains the session; nothing was opened, and another session may do.
    #[error("the session is draining")]
    Draining,
    /// A limit on the number of streams is reached; nothing was opened.
    #[error("the session has too many streams")]
    TooManyStreams,
    /// What is asked for is not valid.
    #[error("the request to open a stream is not valid")]
    Invalid(#[from] InvalidOpen),
}

/// Why a request can no longer be accepted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Lost {
    /// The opener gave up.
    #[error("the opener gave up")]
    Cancelled,
    /// The session ended.
    #[error("the session is lost")]
    Session(#[source] EndReason),
}

/// A stream was cut. This is what an [`io::Error`] of kind `ConnectionReset` from a stream holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the stream was cut {} with code {code}", if *.by_peer { "by the peer" } else { "by this side" })]
pub struct StreamReset {
    /// Why, see [`reset_code`](crate::reset_code).
    pub code: u16,
    /// Whether the peer cut it.
    pub by_peer: bool,
}

// === impl StreamReset ===

impl From<StreamReset> for io::Error {
    fn from(reset: StreamReset) -> Self {
        Self::new(io::ErrorKind::ConnectionReset, reset)
    }
}

// === impl Lost ===

impl From<Lost> for io::Error {
    fn from(lost: Lost) -> Self {
        Self::new(io::ErrorKind::ConnectionAborted, lost)
    }
}
