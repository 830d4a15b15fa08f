//! What a session sends: bytes of streams, frame by frame and by turns.

use bytes::Buf;

use super::{Session, State, WriteError};
use crate::{
    credit::count,
    event::Event,
    frame::{Frame, HEADER_LEN, MAX_FRAME, StreamId},
    stream::{Phase, Sending},
};

impl Session {
    /// Takes bytes of a stream, at most one frame's worth; returns how many. When it takes none,
    /// [`Event::Writable`] tells when it takes some.
    ///
    /// As long as nothing waits for the carrier the bytes become a frame at once. Otherwise they
    /// wait in the stream's slot for its turn.
    ///
    /// # Errors
    ///
    /// The stream is over, or this side finished it.
    pub fn write(&mut self, id: StreamId, bytes: &[u8]) -> Result<usize, WriteError> {
        let max = self.max_payload();
        let clear = self.is_clear();
        let Some(stream) = self.streams.get_mut(&id) else {
            return Err(WriteError::Gone);
        };
        if stream.sending != Sending::Open {
            return Err(WriteError::Finished);
        }
        let wanted = bytes.len().min(max);
        let mut len = wanted.min(stream.room());
        if clear && self.credit.available() > 0 {
            len = len.min(self.credit.available());
        }
        stream.wants_write = len == 0 && wanted > 0;
        let payload = bytes.get(..len).unwrap_or_default();
        if payload.is_empty() {
            return Ok(0);
        }
        stream.credit.spend(len);
        self.bytes_out += count(len);
        if clear && self.credit.available() > 0 {
            self.credit.spend(len);
            self.put(&Frame::Data {
                stream: id,
                payload,
            });
        } else {
            stream.slot.extend_from_slice(payload);
            self.turns.push_back(id);
        }
        Ok(len)
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
        while self.out.len() < MAX_FRAME && self.take_turn() {}
        &self.out
    }

    /// The carrier took that many bytes of what `poll_transmit` offered.
    pub fn transmitted(&mut self, bytes: usize) {
        self.out.advance(bytes.min(self.out.len()));
    }

    /// Whether nothing waits for the carrier, save less than a frame.
    pub(super) fn is_clear(&self) -> bool {
        self.turns.is_empty() && self.out.len() < MAX_FRAME && self.state != State::Over
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
        let Some(stream) = self.streams.get_mut(&id) else {
            return true;
        };
        let mut payload = std::mem::take(&mut stream.slot);
        if payload.len() > credit {
            stream.slot = payload.split_off(credit);
            self.turns.push_front(id);
        }
        self.credit.spend(payload.len());
        self.out.reserve(HEADER_LEN + payload.len());
        self.put(&Frame::Data {
            stream: id,
            payload: &payload,
        });
        self.after_turn(id);
        true
    }

    fn after_turn(&mut self, id: StreamId) {
        let Some(stream) = self
            .streams
            .get_mut(&id)
            .filter(|stream| stream.slot.is_empty())
        else {
            return;
        };
        match stream.sending {
            Sending::Open => self.tell_writable(id),
            Sending::Finishing => self.send_fin(id),
            Sending::Finished => {}
        }
    }

    /// Tells a writer that waits, when there is room.
    pub(super) fn tell_writable(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id)
            && stream.wants_write
            && stream.room() > 0
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
