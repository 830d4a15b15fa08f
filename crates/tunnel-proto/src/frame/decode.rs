//! From bytes to frames. Total: any bytes give a frame, a wish for more, or an error; nothing is
//! allocated on the word of the peer.

use thiserror::Error;

use super::{FLAG_ANSWER, Frame, HEADER_LEN, Kind, MAX_PAYLOAD, MAX_TEXT, StreamId};
use crate::{
    end::CloseCode,
    hello::Hello,
    open::{InvalidOpen, Open},
};

/// The first kind that a peer may skip when it does not know it.
const OPTIONAL_KINDS: u8 = 0x80;
/// The flags that a peer must know.
const MANDATORY_FLAGS: u8 = 0x0f;

/// What stood at the start of some bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// A frame.
    Frame(Frame<'a>),
    /// A frame of an optional kind that this version does not know.
    Skipped(u8),
}

/// Why some bytes are not a frame of this protocol.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// A mandatory frame of a kind that this version does not know.
    #[error("unknown frame kind {0:#04x}")]
    UnknownKind(u8),
    /// A mandatory flag that this version does not know.
    #[error("unknown flags {flags:#04x} on a {kind:?} frame")]
    UnknownFlags {
        /// The frame's kind.
        kind: Kind,
        /// All its flags.
        flags: u8,
    },
    /// The payload is longer than a frame may carry.
    #[error("a payload of {0} bytes is longer than a frame may carry")]
    TooLarge(u16),
    /// The payload has not the length that the kind asks for.
    #[error("a {kind:?} frame with a payload of {len} bytes")]
    WrongLength {
        /// The frame's kind.
        kind: Kind,
        /// The payload's length.
        len: usize,
    },
    /// The frame needs a stream and has none.
    #[error("a {0:?} frame without a stream")]
    StreamMissing(Kind),
    /// The frame concerns the session and names a stream.
    #[error("a {0:?} frame on a stream")]
    StreamForbidden(Kind),
    /// A text is longer than it may be.
    #[error("the text of a {kind:?} frame has {len} bytes")]
    TextTooLong {
        /// The frame's kind.
        kind: Kind,
        /// The text's length.
        len: usize,
    },
    /// A text is not UTF-8.
    #[error("the text of a {0:?} frame is not UTF-8")]
    NotUtf8(Kind),
    /// A CREDIT that grants nothing.
    #[error("a CREDIT of zero bytes")]
    ZeroCredit,
    /// A HELLO that does not start with the magic bytes: the peer speaks something else.
    #[error("the peer does not speak this protocol")]
    BadMagic,
    /// A HELLO whose numbers contradict each other.
    #[error("a HELLO with an impossible {0}")]
    BadHello(&'static str),
    /// An OPEN that does not say what to open.
    #[error("an OPEN that cannot be read")]
    BadOpen {
        /// What is wrong with it.
        #[from]
        source: InvalidOpen,
    },
}

// === impl Kind ===

impl Kind {
    fn from_wire(byte: u8) -> Option<Self> {
        Some(match byte {
            0x01 => Self::Hello,
            0x02 => Self::Open,
            0x03 => Self::Accept,
            0x04 => Self::Reject,
            0x05 => Self::Data,
            0x06 => Self::Fin,
            0x07 => Self::Done,
            0x08 => Self::Reset,
            0x09 => Self::Credit,
            0x0a => Self::Ping,
            0x0b => Self::Pong,
            0x0c => Self::Drain,
            0x0d => Self::Datagram,
            0x0e => Self::Close,
            _ => return None,
        })
    }

    fn known_flags(self) -> u8 {
        if self == Self::Drain { FLAG_ANSWER } else { 0 }
    }
}

// === impl Frame ===

impl<'a> Frame<'a> {
    /// Reads the frame at the start of `input`, and how many bytes it takes. `None` means that it
    /// is not there as a whole yet; its length is checked as soon as the header is.
    ///
    /// # Errors
    ///
    /// Says why the bytes are not a frame. Nothing after them can be read either.
    pub fn decode(input: &'a [u8]) -> Result<Option<(Decoded<'a>, usize)>, DecodeError> {
        let Some((header, rest)) = input.split_first_chunk::<HEADER_LEN>() else {
            return Ok(None);
        };
        let [kind, flags, len_high, len_low, id @ ..] = *header;
        let len = u16::from_be_bytes([len_high, len_low]);
        let size = usize::from(len);
        if size > MAX_PAYLOAD {
            return Err(DecodeError::TooLarge(len));
        }
        let known = Kind::from_wire(kind);
        if known.is_none() && kind < OPTIONAL_KINDS {
            return Err(DecodeError::UnknownKind(kind));
        }
        let Some(payload) = rest.get(..size) else {
            return Ok(None);
        };
        let Some(kind) = known else {
            return Ok(Some((Decoded::Skipped(kind), HEADER_LEN + size)));
        };
        if flags & MANDATORY_FLAGS & !kind.known_flags() != 0 {
            return Err(DecodeError::UnknownFlags { kind, flags });
        }
        let frame = match StreamId::new(u32::from_be_bytes(id)) {
            None => Self::for_session(kind, flags, payload)?,
            Some(stream) => Self::for_stream(kind, stream, payload)?,
        };
        Ok(Some((Decoded::Frame(frame), HEADER_LEN + size)))
    }

    fn for_session(kind: Kind, flags: u8, payload: &'a [u8]) -> Result<Self, DecodeError> {
        match kind {
            Kind::Hello => Hello::decode(payload).map(Self::Hello),
            Kind::Ping => exactly(kind, payload).map(Self::Ping),
            Kind::Pong => exactly(kind, payload).map(Self::Pong),
            Kind::Credit => Ok(Self::Credit {
                stream: None,
                bytes: credit(payload)?,
            }),
            Kind::Drain => {
                let deadline_ms = u32::from_be_bytes(exactly(kind, payload)?);
                Ok(Self::Drain {
                    answer: flags & FLAG_ANSWER != 0,
                    deadline_ms,
                })
            }
            Kind::Close => {
                let (code, text) = code_and_text(kind, payload)?;
                Ok(Self::Close {
                    code: CloseCode::from_wire(code),
                    text,
                })
            }
            Kind::Open
            | Kind::Accept
            | Kind::Reject
            | Kind::Data
            | Kind::Fin
            | Kind::Done
            | Kind::Reset
            | Kind::Datagram => Err(DecodeError::StreamMissing(kind)),
        }
    }

    fn for_stream(kind: Kind, stream: StreamId, payload: &'a [u8]) -> Result<Self, DecodeError> {
        match kind {
            Kind::Open => Ok(Self::Open {
                stream,
                open: Open::decode(payload)?,
            }),
            Kind::Accept => Ok(Self::Accept {
                stream,
                detail: text(kind, payload)?,
            }),
            Kind::Reject => {
                let (code, text) = code_and_text(kind, payload)?;
                Ok(Self::Reject { stream, code, text })
            }
            Kind::Data if payload.is_empty() => Err(DecodeError::WrongLength { kind, len: 0 }),
            Kind::Data => Ok(Self::Data { stream, payload }),
            Kind::Fin => exactly(kind, payload).map(|[]| Self::Fin { stream }),
            Kind::Done => exactly(kind, payload).map(|[]| Self::Done { stream }),
            Kind::Reset => {
                let code = u16::from_be_bytes(exactly(kind, payload)?);
                Ok(Self::Reset { stream, code })
            }
            Kind::Credit => Ok(Self::Credit {
                stream: Some(stream),
                bytes: credit(payload)?,
            }),
            Kind::Datagram => Ok(Self::Datagram { stream, payload }),
            Kind::Hello | Kind::Ping | Kind::Pong | Kind::Drain | Kind::Close => {
                Err(DecodeError::StreamForbidden(kind))
            }
        }
    }
}

fn exactly<const N: usize>(kind: Kind, payload: &[u8]) -> Result<[u8; N], DecodeError> {
    match payload.split_first_chunk::<N>() {
        Some((chunk, [])) => Ok(*chunk),
        Some(_) | None => Err(DecodeError::WrongLength {
            kind,
            len: payload.len(),
        }),
    }
}

fn credit(payload: &[u8]) -> Result<u32, DecodeError> {
    match u32::from_be_bytes(exactly(Kind::Credit, payload)?) {
        0 => Err(DecodeError::ZeroCredit),
        bytes => Ok(bytes),
    }
}

fn code_and_text(kind: Kind, payload: &[u8]) -> Result<(u16, &str), DecodeError> {
    let wrong = DecodeError::WrongLength {
        kind,
        len: payload.len(),
    };
    let (code, rest) = payload.split_first_chunk::<2>().ok_or(wrong)?;
    Ok((u16::from_be_bytes(*code), text(kind, rest)?))
}

fn text(kind: Kind, bytes: &[u8]) -> Result<&str, DecodeError> {
    if bytes.len() > MAX_TEXT {
        return Err(DecodeError::TextTooLong {
            kind,
            len: bytes.len(),
        });
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(std::str::Utf8Error { .. }) => Err(DecodeError::NotUtf8(kind)),
    }
}
