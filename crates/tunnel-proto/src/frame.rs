//! Messages and their bytes.
//!
//! Every frame is an 8-byte header and a payload, numbers in network order:
//!
//! ```text
//!  0      1       2                4                                8
//! +------+-------+----------------+--------------------------------+---------
//! | kind | flags | payload length | stream id, 0 for the session   | payload
//! +------+-------+----------------+--------------------------------+---------
//! ```
//!
//! Kinds from 0x80 on are optional: a peer that does not know one skips the frame. The same holds
//! for the upper four flags. An unknown kind below 0x80 or an unknown lower flag ends the session.

mod decode;

use std::{fmt, num::NonZeroU32};

use bytes::{BufMut, BytesMut};
use thiserror::Error;

use crate::{end::CloseCode, hello::Hello, open::Open};

pub use decode::{DecodeError, Decoded};

/// Bytes of a frame's header.
pub const HEADER_LEN: usize = 8;
/// Bytes of the longest frame: what one TLS record carries (RFC 8446, 5.1).
pub const MAX_FRAME: usize = 16_384;
/// Bytes of the longest payload.
pub const MAX_PAYLOAD: usize = MAX_FRAME - HEADER_LEN;
/// Bytes of the longest text of an ACCEPT, REJECT or CLOSE.
pub(crate) const MAX_TEXT: usize = 4096;

/// On a DRAIN: it answers the peer's DRAIN, and no OPEN follows it.
const FLAG_ANSWER: u8 = 0x01;

/// The number of a stream: odd when the dialer opened it, even when the acceptor did, and rising.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(NonZeroU32);

/// What a frame is, as its first byte says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// First frame of each side.
    Hello,
    /// Asks for a stream.
    Open,
    /// Grants a stream.
    Accept,
    /// Refuses a stream.
    Reject,
    /// Bytes of a stream.
    Data,
    /// No more bytes from this side.
    Fin,
    /// This side sent FIN, and its reader took everything up to the peer's FIN.
    Done,
    /// The stream is cut.
    Reset,
    /// The peer may send more.
    Credit,
    /// Asks for a sign of life.
    Ping,
    /// Answers a PING.
    Pong,
    /// No new streams; finish by a deadline.
    Drain,
    /// One datagram of a stream.
    Datagram,
    /// The session is over.
    Close,
}

/// One message of the protocol. Payloads are borrowed from the bytes they were decoded from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// First frame of each side.
    Hello(Hello),
    /// Asks for a stream.
    Open {
        /// The new stream.
        stream: StreamId,
        /// What is asked for.
        open: Open,
    },
    /// Grants a stream.
    Accept {
        /// The granted stream.
        stream: StreamId,
        /// What the opener should know about the target.
        detail: &'a str,
    },
    /// Refuses a stream, which is over with it.
    Reject {
        /// The refused stream.
        stream: StreamId,
        /// Why, for programs.
        code: u16,
        /// Why, for people.
        text: &'a str,
    },
    /// Bytes of a stream.
    Data {
        /// The stream.
        stream: StreamId,
        /// At least one byte, at most [`MAX_PAYLOAD`].
        payload: &'a [u8],
    },
    /// No more bytes from this side.
    Fin {
        /// The stream.
        stream: StreamId,
    },
    /// This side sent FIN, and its reader took everything up to the peer's FIN.
    Done {
        /// The stream.
        stream: StreamId,
    },
    /// The stream is cut, in both directions.
    Reset {
        /// The stream.
        stream: StreamId,
        /// Why, see [`reset_code`](crate::reset_code).
        code: u16,
    },
    /// The receiver may send more.
    Credit {
        /// The stream, or `None` for the session as a whole.
        stream: Option<StreamId>,
        /// How many bytes more, never 0.
        bytes: u32,
    },
    /// Asks for a PONG with the same 8 bytes.
    Ping([u8; 8]),
    /// Answers a PING.
    Pong([u8; 8]),
    /// No new streams; those that are open finish by the deadline.
    Drain {
        /// This is the answer to the peer's DRAIN, and no OPEN follows it.
        answer: bool,
        /// Milliseconds until the session is closed.
        deadline_ms: u32,
    },
    /// One datagram of a stream, not under flow control and lost when there is no room.
    Datagram {
        /// The stream.
        stream: StreamId,
        /// The datagram.
        payload: &'a [u8],
    },
    /// The session is over; nothing follows.
    Close {
        /// Why, for programs.
        code: CloseCode,
        /// Why, for people.
        text: &'a str,
    },
}

/// A frame that cannot be sent because its payload does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a payload of {len} bytes does not fit a frame")]
pub struct EncodeError {
    /// The payload's length.
    pub len: usize,
}

// === impl StreamId ===

impl StreamId {
    /// The stream of a number; `None` for 0, which stands for the session.
    #[must_use]
    pub fn new(number: u32) -> Option<Self> {
        NonZeroU32::new(number).map(Self)
    }

    /// The number on the wire.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0.get()
    }

    /// Whether the dialer opened it.
    #[must_use]
    pub fn is_odd(self) -> bool {
        self.get() % 2 == 1
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

// === impl Kind ===

impl Kind {
    /// The byte on the wire.
    #[must_use]
    pub fn wire(self) -> u8 {
        match self {
            Self::Hello => 0x01,
            Self::Open => 0x02,
            Self::Accept => 0x03,
            Self::Reject => 0x04,
            Self::Data => 0x05,
            Self::Fin => 0x06,
            Self::Done => 0x07,
            Self::Reset => 0x08,
            Self::Credit => 0x09,
            Self::Ping => 0x0a,
            Self::Pong => 0x0b,
            Self::Drain => 0x0c,
            Self::Datagram => 0x0d,
            Self::Close => 0x0e,
        }
    }
}

// === impl Frame ===

impl<'a> Frame<'a> {
    /// Appends the frame's bytes to `out`. Texts longer than they may be are cut at a character.
    ///
    /// # Errors
    ///
    /// Nothing is appended when the payload does not fit a frame.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        let start = out.len();
        out.put_bytes(0, HEADER_LEN);
        self.encode_payload(out);
        let len = out.len() - start - HEADER_LEN;
        let header = match u16::try_from(len) {
            Ok(short) if len <= MAX_PAYLOAD => self.header(short),
            Ok(_) | Err(_) => {
                out.truncate(start);
                return Err(EncodeError { len });
            }
        };
        if let Some(place) = out.get_mut(start..start + HEADER_LEN) {
            place.copy_from_slice(&header);
        }
        Ok(())
    }

    fn header(&self, len: u16) -> [u8; HEADER_LEN] {
        let flags = if matches!(self, Self::Drain { answer: true, .. }) {
            FLAG_ANSWER
        } else {
            0
        };
        let [len_high, len_low] = len.to_be_bytes();
        let [a, b, c, d] = self.stream().map_or(0, StreamId::get).to_be_bytes();
        [self.kind().wire(), flags, len_high, len_low, a, b, c, d]
    }

    fn encode_payload(&self, out: &mut BytesMut) {
        match self {
            Self::Hello(hello) => hello.encode(out),
            Self::Open { open, .. } => open.encode(out),
            Self::Accept { detail, .. } => out.put_slice(clip(detail).as_bytes()),
            Self::Reject { code, text, .. } => {
                out.put_u16(*code);
                out.put_slice(clip(text).as_bytes());
            }
            Self::Data { payload, .. } | Self::Datagram { payload, .. } => out.put_slice(payload),
            Self::Fin { .. } | Self::Done { .. } => {}
            Self::Reset { code, .. } => out.put_u16(*code),
            Self::Credit { bytes, .. } => out.put_u32(*bytes),
            Self::Ping(opaque) | Self::Pong(opaque) => out.put_slice(opaque),
            Self::Drain { deadline_ms, .. } => out.put_u32(*deadline_ms),
            Self::Close { code, text } => {
                out.put_u16(code.wire());
                out.put_slice(clip(text).as_bytes());
            }
        }
    }

    /// What the frame is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Hello(_) => Kind::Hello,
            Self::Open { .. } => Kind::Open,
            Self::Accept { .. } => Kind::Accept,
            Self::Reject { .. } => Kind::Reject,
            Self::Data { .. } => Kind::Data,
            Self::Fin { .. } => Kind::Fin,
            Self::Done { .. } => Kind::Done,
            Self::Reset { .. } => Kind::Reset,
            Self::Credit { .. } => Kind::Credit,
            Self::Ping(_) => Kind::Ping,
            Self::Pong(_) => Kind::Pong,
            Self::Drain { .. } => Kind::Drain,
            Self::Datagram { .. } => Kind::Datagram,
            Self::Close { .. } => Kind::Close,
        }
    }

    /// The stream that the frame concerns; `None` for the session as a whole.
    #[must_use]
    pub fn stream(&self) -> Option<StreamId> {
        match self {
            Self::Open { stream, .. }
            | Self::Accept { stream, .. }
            | Self::Reject { stream, .. }
            | Self::Data { stream, .. }
            | Self::Fin { stream }
            | Self::Done { stream }
            | Self::Reset { stream, .. }
            | Self::Datagram { stream, .. } => Some(*stream),
            Self::Credit { stream, .. } => *stream,
            Self::Hello(_)
            | Self::Ping(_)
            | Self::Pong(_)
            | Self::Drain { .. }
            | Self::Close { .. } => None,
        }
    }
}

fn clip(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_TEXT))
        .unwrap_or(text)
}
