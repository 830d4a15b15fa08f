//! What an OPEN asks for, as a list of tagged fields.

use bytes::{BufMut, BytesMut};
use thiserror::Error;

const TAG_TARGET: u8 = 1;
const TAG_CALLER: u8 = 2;
const TAG_TRACE: u8 = 3;
const TAG_GENERATION: u8 = 4;

/// Bytes of the longest target.
const MAX_TARGET: usize = 1024;
/// Bytes of the longest caller.
const MAX_CALLER: usize = 4096;
/// Bytes of the longest trace context (W3C `traceparent` and `tracestate`, which has 512).
const MAX_TRACE: usize = 1024;

/// What an OPEN asks for. Fields that a newer version adds are skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Open {
    /// What to connect to; 1 to 1024 bytes. Its form is the agent's and the hub's business.
    pub target: String,
    /// On whose behalf, for the audit; at most 4096 bytes.
    pub caller: String,
    /// W3C trace context, or empty; at most 1024 bytes.
    pub trace_context: String,
    /// The generation of the policy that the opener relied on; 0 when it relied on none.
    pub policy_generation: u64,
}

/// Why something is not a valid OPEN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum InvalidOpen {
    /// A field ends before its length says.
    #[error("a field is cut off")]
    Truncated,
    /// A field came twice.
    #[error("field {0} came twice")]
    Duplicate(u8),
    /// A field is longer than it may be.
    #[error("field {tag} has {len} bytes")]
    TooLong {
        /// The field.
        tag: u8,
        /// Its length.
        len: usize,
    },
    /// A text is not UTF-8.
    #[error("field {0} is not UTF-8")]
    NotUtf8(u8),
    /// The policy generation is not a number of 8 bytes.
    #[error("the policy generation has {0} bytes")]
    BadGeneration(usize),
    /// There is no target, or an empty one.
    #[error("there is no target")]
    NoTarget,
}

// === impl Open ===

impl Open {
    /// Asks for a target, on nobody's behalf.
    #[must_use]
    pub fn target(target: impl Into<String>) -> Self {
        Self {
            target: target.into(),
            ..Self::default()
        }
    }

    /// Checks the lengths that a peer will check.
    ///
    /// # Errors
    ///
    /// Names the field that is empty or too long.
    pub fn check(&self) -> Result<(), InvalidOpen> {
        if self.target.is_empty() {
            return Err(InvalidOpen::NoTarget);
        }
        let texts = [
            (TAG_TARGET, &self.target, MAX_TARGET),
            (TAG_CALLER, &self.caller, MAX_CALLER),
            (TAG_TRACE, &self.trace_context, MAX_TRACE),
        ];
        for (tag, text, max) in texts {
            if text.len() > max {
                return Err(InvalidOpen::TooLong {
                    tag,
                    len: text.len(),
                });
            }
        }
        Ok(())
    }

    pub(crate) fn encode(&self, out: &mut BytesMut) {
        put_field(out, TAG_TARGET, self.target.as_bytes());
        if !self.caller.is_empty() {
            put_field(out, TAG_CALLER, self.caller.as_bytes());
        }
        if !self.trace_context.is_empty() {
            put_field(out, TAG_TRACE, self.trace_context.as_bytes());
        }
        if self.policy_generation != 0 {
            put_field(out, TAG_GENERATION, &self.policy_generation.to_be_bytes());
        }
    }

    pub(crate) fn decode(mut payload: &[u8]) -> Result<Self, InvalidOpen> {
        let (mut target, mut caller, mut trace, mut generation) = (None, None, None, None);
        while !payload.is_empty() {
            let (tag, value, rest) = take_field(payload)?;
            payload = rest;
            match tag {
                TAG_TARGET => once(tag, &mut target, text(tag, value, MAX_TARGET)?)?,
                TAG_CALLER => once(tag, &mut caller, text(tag, value, MAX_CALLER)?)?,
                TAG_TRACE => once(tag, &mut trace, text(tag, value, MAX_TRACE)?)?,
                TAG_GENERATION => once(tag, &mut generation, number(value)?)?,
                _ => {}
            }
        }
        let open = Self {
            target: target.unwrap_or_default(),
            caller: caller.unwrap_or_default(),
            trace_context: trace.unwrap_or_default(),
            policy_generation: generation.unwrap_or_default(),
        };
        open.check().map(|()| open)
    }
}

/// Writes one field. `check` has seen to it that a length fits; a longer one would be cut.
fn put_field(out: &mut BytesMut, tag: u8, value: &[u8]) {
    let len = u16::try_from(value.len()).unwrap_or(u16::MAX);
    out.put_u8(tag);
    out.put_u16(len);
    out.put_slice(value.get(..usize::from(len)).unwrap_or(value));
}

fn take_field(payload: &[u8]) -> Result<(u8, &[u8], &[u8]), InvalidOpen> {
    let ([tag, high, low], rest) = payload
        .split_first_chunk::<3>()
        .ok_or(InvalidOpen::Truncated)?;
    let len = usize::from(u16::from_be_bytes([*high, *low]));
    let (value, rest) = rest.split_at_checked(len).ok_or(InvalidOpen::Truncated)?;
    Ok((*tag, value, rest))
}

fn text(tag: u8, value: &[u8], max: usize) -> Result<String, InvalidOpen> {
    if value.len() > max {
        return Err(InvalidOpen::TooLong {
            tag,
            len: value.len(),
        });
    }
    match std::str::from_utf8(value) {
        Ok(text) => Ok(text.to_owned()),
        Err(std::str::Utf8Error { .. }) => Err(InvalidOpen::NotUtf8(tag)),
    }
}

fn number(value: &[u8]) -> Result<u64, InvalidOpen> {
    match value.split_first_chunk::<8>() {
        Some((bytes, [])) => Ok(u64::from_be_bytes(*bytes)),
        Some(_) | None => Err(InvalidOpen::BadGeneration(value.len())),
    }
}

fn once<T>(tag: u8, place: &mut Option<T>, value: T) -> Result<(), InvalidOpen> {
    match place.replace(value) {
        Some(_) => Err(InvalidOpen::Duplicate(tag)),
        None => Ok(()),
    }
}
