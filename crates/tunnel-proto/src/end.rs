//! How streams and sessions end.

use std::fmt;

use thiserror::Error;

use crate::{
    frame::{DecodeError, Kind, StreamId},
    hello::Side,
};

/// Codes of a RESET that the session layer itself uses; others are free for its users.
pub mod reset_code {
    /// The opener no longer wants the stream.
    pub const CANCELLED: u16 = 1;
    /// A side dropped the stream before it was complete.
    pub const DROPPED: u16 = 2;
    /// The connection that the stream was carried from or to broke.
    pub const IO: u16 = 3;
    /// The permission behind the stream went away.
    pub const REVOKED: u16 = 4;
    /// A side is shutting down.
    pub const SHUTDOWN: u16 = 5;
}

/// Codes of a REJECT that the session layer itself uses; those below belong to its users.
pub mod reject_code {
    /// The peer drains the session; another session may do.
    pub const DRAINING: u16 = 0xff01;
    /// A limit of the peer on streams is reached.
    pub const TOO_MANY_STREAMS: u16 = 0xff02;
}

/// Why one side says that the session is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseCode {
    /// No special reason.
    Normal,
    /// The process stops.
    Shutdown,
    /// Another session of the same peer takes this one's place.
    Replaced,
    /// The peer may no longer be here.
    Revoked,
    /// The peer broke the protocol.
    Protocol,
    /// No version is common to both.
    Version,
    /// The peer does not read what it makes us send.
    Backlog,
    /// The session was drained and is empty.
    Drained,
    /// The session was drained and its deadline has come.
    DrainDeadline,
    /// A code that a newer peer knows.
    Other(u16),
}

/// Why a session is closed, as its user says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloseReason {
    /// For programs.
    pub code: CloseCode,
    /// For people; at most 4096 bytes.
    pub text: String,
}

/// Why a session is over.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EndReason {
    /// This side closed it.
    #[error("closed by this side: {0}")]
    Closed(CloseReason),
    /// The peer closed it.
    #[error("closed by the peer: {0}")]
    ClosedByPeer(CloseReason),
    /// The peer was silent for too long.
    #[error("the peer is silent")]
    PeerSilent,
    /// The peer took too long to say HELLO.
    #[error("the peer did not greet in time")]
    NoHello,
    /// The peer broke the protocol.
    #[error("the peer broke the protocol")]
    Protocol(#[from] ProtocolError),
    /// No version is common to both.
    #[error("the peer speaks versions {min} to {max} of the protocol")]
    Version {
        /// The peer's oldest.
        min: u16,
        /// The peer's newest.
        max: u16,
    },
    /// The peer does not read what it makes us send.
    #[error("the peer does not read")]
    Backlog,
    /// The connection ended or broke.
    #[error("the connection broke: {0}")]
    Carrier(String),
}

/// What a peer did against the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProtocolError {
    /// It sent bytes that are no frame.
    #[error("undecodable bytes")]
    Decode(#[from] DecodeError),
    /// Its first frame was not a HELLO.
    #[error("a {0:?} frame before HELLO")]
    HelloExpected(Kind),
    /// It sent a second HELLO.
    #[error("a second HELLO")]
    SecondHello,
    /// It claims to be the same end of the carrier.
    #[error("both ends are {0:?}")]
    SameSide(Side),
    /// It opened a stream that is not its to open, or not a new one.
    #[error("stream {0} cannot be opened by the peer")]
    BadStreamId(StreamId),
    /// It sent a frame for a stream that was never opened.
    #[error("a {kind:?} frame for stream {stream}, which was never opened")]
    NeverOpened {
        /// The frame's kind.
        kind: Kind,
        /// The stream.
        stream: StreamId,
    },
    /// It sent a frame that the state of the stream does not allow.
    #[error("an unexpected {kind:?} frame for stream {stream}")]
    Unexpected {
        /// The frame's kind.
        kind: Kind,
        /// The stream.
        stream: StreamId,
    },
    /// It opened a stream after it had promised not to.
    #[error("stream {0} opened after the answer to DRAIN")]
    OpenAfterDrain(StreamId),
    /// It sent more than it was allowed to.
    #[error("more bytes than granted on stream {0}")]
    StreamOverrun(StreamId),
    /// It sent more than it was allowed to on all streams together.
    #[error("more bytes than granted on the session")]
    SessionOverrun,
    /// It granted more than a window can be.
    #[error("more credit than a window can be")]
    CreditOverflow,
}

/// How a stream ended. Both ends agree on which; when both cut it at the same time each keeps its
/// own code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// Both sides sent FIN, and both readers took everything.
    Complete,
    /// This side cut it.
    Reset(u16),
    /// The peer cut it.
    ResetByPeer(u16),
}

// === impl CloseCode ===

impl CloseCode {
    /// The number on the wire.
    #[must_use]
    pub fn wire(self) -> u16 {
        match self {
            Self::Normal => 0,
            Self::Shutdown => 1,
            Self::Replaced => 2,
            Self::Revoked => 3,
            Self::Protocol => 4,
            Self::Version => 5,
            Self::Backlog => 6,
            Self::Drained => 7,
            Self::DrainDeadline => 8,
            Self::Other(number) => number,
        }
    }

    /// The code of a number.
    #[must_use]
    pub fn from_wire(number: u16) -> Self {
        match number {
            0 => Self::Normal,
            1 => Self::Shutdown,
            2 => Self::Replaced,
            3 => Self::Revoked,
            4 => Self::Protocol,
            5 => Self::Version,
            6 => Self::Backlog,
            7 => Self::Drained,
            8 => Self::DrainDeadline,
            other => Self::Other(other),
        }
    }
}

impl fmt::Display for CloseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Normal => f.write_str("done"),
            Self::Shutdown => f.write_str("shutting down"),
            Self::Replaced => f.write_str("replaced by a newer session"),
            Self::Revoked => f.write_str("no longer allowed"),
            Self::Protocol => f.write_str("protocol error"),
            Self::Version => f.write_str("no common version"),
            Self::Backlog => f.write_str("answers are not read"),
            Self::Drained => f.write_str("drained"),
            Self::DrainDeadline => f.write_str("drained until the deadline"),
            Self::Other(number) => write!(f, "code {number}"),
        }
    }
}

// === impl CloseReason ===

impl CloseReason {
    /// A reason that its code explains.
    #[must_use]
    pub fn new(code: CloseCode, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
        }
    }
}

impl From<CloseCode> for CloseReason {
    fn from(code: CloseCode) -> Self {
        Self::new(code, "")
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.text.is_empty() {
            self.code.fmt(f)
        } else {
            write!(f, "{} ({})", self.code, self.text)
        }
    }
}

// === impl EndReason ===

impl EndReason {
    /// Whether the session was drained to its end, so that nothing was lost.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        match self {
            Self::Closed(reason) | Self::ClosedByPeer(reason) => reason.code == CloseCode::Drained,
            Self::PeerSilent
            | Self::NoHello
            | Self::Protocol(_)
            | Self::Version { .. }
            | Self::Backlog
            | Self::Carrier(_) => false,
        }
    }

    /// What the peer is told; `None` when it cannot be told or told us.
    pub(crate) fn farewell(&self) -> Option<CloseReason> {
        match self {
            Self::Closed(reason) => Some(reason.clone()),
            Self::Protocol(error) => {
                let cause = std::error::Error::source(error)
                    .map_or_else(String::new, |cause| format!(": {cause}"));
                Some(CloseReason::new(
                    CloseCode::Protocol,
                    format!("{error}{cause}"),
                ))
            }
            Self::Version { .. } => Some(CloseCode::Version.into()),
            Self::Backlog => Some(CloseCode::Backlog.into()),
            Self::NoHello => Some(CloseReason::new(CloseCode::Protocol, "no HELLO")),
            Self::ClosedByPeer(_) | Self::PeerSilent | Self::Carrier(_) => None,
        }
    }
}
