//! What a session tells its driver.

use std::time::Duration;

use crate::{
    end::{EndReason, StreamEnd},
    frame::StreamId,
    hello::PeerInfo,
    open::Open,
};

/// Something that happened, in the order in which it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer greeted; streams can be opened from now on.
    Established(PeerInfo),
    /// The peer asks for a stream: answer with `accept` or `reject`.
    Opened {
        /// The stream.
        stream: StreamId,
        /// What it asks for.
        open: Open,
    },
    /// The peer granted a stream.
    Accepted {
        /// The stream.
        stream: StreamId,
        /// What the peer says about it.
        detail: String,
    },
    /// The peer refused a stream, which is over.
    Rejected {
        /// The stream.
        stream: StreamId,
        /// Why, for programs.
        code: u16,
        /// Why, for people.
        text: String,
    },
    /// A `write` that took nothing would take something now.
    Writable(StreamId),
    /// The peer sends no more bytes. Answer with `end_read` once the reader took them all.
    Finished(StreamId),
    /// The stream is over.
    Ended {
        /// The stream.
        stream: StreamId,
        /// How.
        end: StreamEnd,
    },
    /// A datagram arrived.
    Datagram {
        /// The stream.
        stream: StreamId,
        /// The datagram.
        payload: Vec<u8>,
    },
    /// The peer takes no more streams and closes the session after this time at the latest.
    Draining(Duration),
    /// The session is over, and every stream with it. Nothing follows.
    Closed(EndReason),
}

/// What came of some bytes that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// How many of the bytes are done with. 0 means that more are needed.
    pub consumed: usize,
    /// Bytes for a stream, which follow the events that are waiting.
    pub data: Option<(StreamId, &'a [u8])>,
}
