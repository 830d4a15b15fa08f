//! What a session sends: bytes of streams, frame by frame and by turns.

use bytes::{Buf, BytesMut};

use super::{Session, State, WriteError};
use crate::{
    credit::count,
    event::Event,
    frame::{Frame, HEADER_LEN, MAX_FRAME, StreamId},
    stream::{Phase, Sending},
};

/// How many bytes are made ready for the carrier at a time, so that it is asked once for several
/// frames. More would make what is urgent wait.
const BATCH: usize = 4 * MAX_FRAME;
/// How many bytes of one stream may wait for their turn.
const SLOT: usize = 4 * MAX_FRAME;
/// How many bytes of all streams may wait for their turn, before each may have one frame only.
const WAITING: usize = 16 << 20;

impl Session {
    /// Takes bytes of a stream, as many as have room; returns how many. When it takes none,
    /// [`Event::Writable`] tells when it takes some.
    ///
    /// As long as little waits for the carrier the bytes become frames at once. Otherwise they
    /// wait in the stream's slot for their turn.
    ///
    /// # Errors
    ///
    /// The stream is over, or this side finished it.
    pub fn write(&mut self, id: StreamId, bytes: &[u8]) -> Result<usize, WriteError> {
        let mut taken = 0;
        loop {
            let rest = bytes.get(taken..).unwrap_or_default();
            let (len, framed) = self.write_some(id, rest)?;
            taken += len;
            if !framed || taken == bytes.len() {
                return Ok(taken);
            }
        }
    }

    /// Takes a frame's worth of bytes, or what goes into the slot. Returns how many, and whether
    /// they became a frame.
    fn write_some(&mut self, id: StreamId, bytes: &[u8]) -> Result<(usize, bool), WriteError> {
        let max = self.max_payload();
        let credit = self.credit.available();
        let at_once = self.is_clear() && credit > 0;
        let slot_limit = if self.waiting < WAITING { SLOT } else { max };
        let Some(stream) = self.streams.get_mut(&id) else {
            return Err(WriteError::Gone);
        };
        if stream.sending != Sending::Open {
            return Err(WriteError::Finished);
        }
        let most = if at_once {
            max.min(credit)
        } else {
            bytes.len()
        };
        let len = bytes.len().min(most).min(stream.room(slot_limit));
        stream.wants_write = len == 0 && !bytes.is_empty();
        let payload = bytes.get(..len).unwrap_or_default();
        if payload.is_empty() {
            return Ok((0, false));
        }
        stream.credit.spend(len);
        self.bytes_out += count(len);
        if at_once {
            self.credit.spend(len);
            self.put(&Frame::Data {
                stream: id,
                payload,
            });
        } else {
            if stream.slot.is_empty() {
                self.turns.push_back(id);
            }
            stream.slot.extend_from_slice(payload);
            self.waiting += len;
        }
        Ok((len, at_once))
    }

    /// Finishes this side's direction: the peer gets everything written before, then the end.
    /// Does nothing when it is finished, and when the stream is over.
    pub fn finish(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        if stream.sending != Sending::Open || stream.phase == Phase::Offered {
            return;
        }
        stream.wants_write = false;
        if stream.slot.is_empty() {
            self.send_fin(id);
        } else {
            stream.sending = Sending::Finishing;
        }
    }

    /// The bytes to send next; empty when there are none. Frames of the session come before those
    /// of streams, which take turns.
    pub fn poll_transmit(&mut self) -> &[u8] {
        while self.out.len() < BATCH && self.take_turn() {}
        &self.out
    }

    /// The carrier took that many bytes of what `poll_transmit` offered.
    pub fn transmitted(&mut self, bytes: usize) {
        self.out.advance(bytes.min(self.out.len()));
    }

    /// Whether nothing waits for the carrier, save less than a batch.
    pub(super) fn is_clear(&self) -> bool {
        self.turns.is_empty() && self.out.len() < BATCH && self.state != State::Over
    }

    /// Makes a frame of the slot whose turn it is. `false` when there is none, or no credit.
    fn take_turn(&mut self) -> bool {
        let Some(id) = self.turns.front().copied() else {
            return false;
        };
        let credit = self.credit.available();
        if credit == 0 {
            return false;
        }
        self.turns.pop_front();
        let max = self.max_payload();
        let Some(stream) = self.streams.get_mut(&id) else {
            return true;
        };
        let len = stream.slot.len().min(max).min(credit);
        let payload = stream.slot.split_to(len);
        if stream.slot.is_empty() {
            // Without bytes it has no memory.
            stream.slot = BytesMut::new();
        } else {
            self.turns.push_back(id);
        }
        self.waiting -= len;
        self.credit.spend(len);
        self.out.reserve(HEADER_LEN + len);
        self.put(&Frame::Data {
            stream: id,
            payload: &payload,
        });
        self.after_turn(id);
        true
    }

    fn after_turn(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        match stream.sending {
            // A writer is woken for half a slot, not for every frame.
            Sending::Open if stream.slot.len() <= SLOT / 2 => self.tell_writable(id),
            Sending::Finishing if stream.slot.is_empty() => self.send_fin(id),
            Sending::Open | Sending::Finishing | Sending::Finished => {}
        }
    }

    /// Tells a writer that waits, when there is room.
    pub(super) fn tell_writable(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id)
            && stream.wants_write
            && stream.room(SLOT) > 0
        {
            stream.wants_write = false;
            self.events.push_back(Event::Writable(id));
        }
    }

    fn send_fin(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.sending = Sending::Finished;
            self.put(&Frame::Fin { stream: id });
            self.settle(id);
        }
    }
}
