//! The first frame of each side: who speaks, which versions, how much may be in flight.

use std::fmt;

use bytes::{BufMut, BytesMut};

use crate::frame::{DecodeError, Kind, MAX_FRAME};

/// The oldest version of the protocol that this code speaks.
pub const VERSION_MIN: u16 = 1;
/// The newest version of the protocol that this code speaks.
pub const VERSION_MAX: u16 = 1;

/// The longest name of a peer's software, in bytes.
pub const MAX_SOFTWARE: usize = 64;

const MAGIC: [u8; 6] = *b"STRAIT";
const LEN: usize = 49;

/// Which end of the carrier a session is. It decides who opens odd streams and who even ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// The end that made the connection; its streams are odd.
    Dialer,
    /// The end that took the connection; its streams are even.
    Acceptor,
}

/// Names one run of one process, so that a peer knows whether two sessions lead to the same one.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstanceId(pub [u8; 16]);

/// The payload of a HELLO. What a newer version appends to it is skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The oldest version that the sender speaks.
    pub version_min: u16,
    /// The newest version that the sender speaks.
    pub version_max: u16,
    /// Which end the sender is.
    pub side: Side,
    /// Optional abilities of the sender, one per bit. None is defined yet.
    pub features: u64,
    /// Which process the sender is.
    pub instance: InstanceId,
    /// Bytes that the peer may send on a stream before the first CREDIT.
    pub stream_window: u32,
    /// Bytes that the peer may send on all streams together before the first CREDIT for the session.
    pub session_window: u32,
    /// Bytes of the longest frame that the sender takes, never more than [`MAX_FRAME`].
    pub max_frame: u16,
    /// How many streams the peer may have open at a time.
    pub max_streams: u32,
    /// Which version of which software the sender is, for people; at most [`MAX_SOFTWARE`] bytes.
    /// May be empty, and is then not sent.
    pub software: Box<str>,
}

/// What a peer said about itself, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerInfo {
    /// The version that both sides speak from now on.
    pub version: u16,
    /// The abilities that both sides have.
    pub features: u64,
    /// Which process the peer is.
    pub instance: InstanceId,
    /// What the peer calls its software; may be empty.
    pub software: Box<str>,
}

// === impl Side ===

impl Side {
    /// The other end.
    #[must_use]
    pub fn peer(self) -> Self {
        match self {
            Self::Dialer => Self::Acceptor,
            Self::Acceptor => Self::Dialer,
        }
    }

    /// The number of the first stream that this side opens.
    pub(crate) fn first_stream(self) -> u32 {
        match self {
            Self::Dialer => 1,
            Self::Acceptor => 2,
        }
    }
}

// === impl InstanceId ===

impl fmt::Debug for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

// === impl Hello ===

impl Hello {
    pub(crate) fn encode(&self, out: &mut BytesMut) {
        out.put_slice(&MAGIC);
        out.put_u16(self.version_min);
        out.put_u16(self.version_max);
        out.put_u8(match self.side {
            Side::Dialer => 0,
            Side::Acceptor => 1,
        });
        out.put_u64(self.features);
        out.put_slice(&self.instance.0);
        out.put_u32(self.stream_window);
        out.put_u32(self.session_window);
        out.put_u16(self.max_frame);
        out.put_u32(self.max_streams);
        let software = self.software.as_bytes();
        if let Ok(len @ 1..) = u8::try_from(software.len()) {
            out.put_u8(len);
            out.put_slice(software);
        }
    }

    pub(crate) fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        if !payload.starts_with(&MAGIC) {
            return Err(DecodeError::BadMagic);
        }
        if payload.len() < LEN {
            return Err(DecodeError::WrongLength {
                kind: Kind::Hello,
                len: payload.len(),
            });
        }
        let mut at = Fields(payload.get(MAGIC.len()..).unwrap_or_default());
        let hello = Self {
            version_min: u16::from_be_bytes(at.take()),
            version_max: u16::from_be_bytes(at.take()),
            side: match at.take::<1>() {
                [0] => Side::Dialer,
                [1] => Side::Acceptor,
                [_] => return Err(DecodeError::BadHello("side")),
            },
            features: u64::from_be_bytes(at.take()),
            instance: InstanceId(at.take()),
            stream_window: u32::from_be_bytes(at.take()),
            session_window: u32::from_be_bytes(at.take()),
            max_frame: u16::from_be_bytes(at.take()),
            max_streams: u32::from_be_bytes(at.take()),
            software: software(at.0)?,
        };
        hello.check().map(|()| hello)
    }

    fn check(&self) -> Result<(), DecodeError> {
        let max_frame = usize::from(self.max_frame);
        if self.version_min > self.version_max {
            Err(DecodeError::BadHello("version range"))
        } else if !(MIN_MAX_FRAME..=MAX_FRAME).contains(&max_frame) {
            Err(DecodeError::BadHello("frame size"))
        } else if self.session_window < self.stream_window {
            Err(DecodeError::BadHello("session window"))
        } else if self.software.len() > MAX_SOFTWARE {
            Err(DecodeError::BadHello("software"))
        } else {
            Ok(())
        }
    }
}

/// One byte of length and a text, or nothing at all.
fn software(rest: &[u8]) -> Result<Box<str>, DecodeError> {
    let Some((len, rest)) = rest.split_first() else {
        return Ok(Box::default());
    };
    let len = usize::from(*len);
    rest.get(..len)
        .filter(|_| len <= MAX_SOFTWARE)
        .and_then(|bytes| std::str::from_utf8(bytes).ok())
        .map(Into::into)
        .ok_or(DecodeError::BadHello("software"))
}

/// The smallest limit on frames that a peer may set: the longest OPEN and every text still fit.
const MIN_MAX_FRAME: usize = 8192;

/// Takes fixed fields off the front; zeros once there are no more bytes, which the length check
/// before has excluded.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        match self.0.split_first_chunk::<N>() {
            Some((chunk, rest)) => {
                self.0 = rest;
                *chunk
            }
            None => [0; N],
        }
    }
}
