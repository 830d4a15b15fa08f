//! One stream: open, half-closed, closed.

use bytes::BytesMut;

use crate::{
    config::Config,
    credit::{SendCredit, StreamWindow},
    end::ProtocolError,
    frame::{Kind, StreamId},
};

/// What a session knows about one stream. A stream that is over is not kept: ids only rise, so
/// a lower id without a `Stream` is one that is over.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) phase: Phase,
    pub(crate) sending: Sending,
    /// What may still be sent. Bytes in `slot` are paid already.
    pub(crate) credit: SendCredit,
    /// Bytes that wait for their turn. Empty, it has no memory.
    pub(crate) slot: BytesMut,
    /// A write took nothing; tell when it would take something.
    pub(crate) wants_write: bool,
    pub(crate) window: StreamWindow,
    /// The peer sent FIN.
    pub(crate) fin_received: bool,
    /// The reader took everything up to the peer's FIN.
    pub(crate) read_to_end: bool,
    pub(crate) done_sent: bool,
    pub(crate) done_received: bool,
}

/// How far the agreement about a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// This side sent OPEN and waits for the answer. Data may be sent, none comes.
    Asked,
    /// The peer sent OPEN and waits for the answer. Data may come, none is sent.
    Offered,
    /// Accepted.
    Open,
}

/// How far this side's direction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sending {
    Open,
    /// FIN follows when `slot` was sent.
    Finishing,
    Finished,
}

// === impl Stream ===

impl Stream {
    pub(crate) fn new(phase: Phase, config: &Config, peer_window: u32) -> Self {
        Self {
            phase,
            sending: Sending::Open,
            credit: SendCredit::new(peer_window),
            slot: BytesMut::new(),
            wants_write: false,
            window: StreamWindow::new(config.stream_window, config.stream_window_max),
            fin_received: false,
            read_to_end: false,
            done_sent: false,
            done_received: false,
        }
    }

    /// How many bytes a write would take now, when a slot may have so many.
    pub(crate) fn room(&self, slot_limit: usize) -> usize {
        let open = self.sending == Sending::Open && self.phase != Phase::Offered;
        if open {
            let room = slot_limit.saturating_sub(self.slot.len());
            self.credit.available().min(room)
        } else {
            0
        }
    }

    /// Whether the frame may come in this state. ACCEPT and REJECT answer an OPEN; before the
    /// answer the acceptor sends nothing else, save RESET and CREDIT.
    pub(crate) fn check(&self, kind: Kind, id: StreamId) -> Result<(), ProtocolError> {
        let fits = match kind {
            Kind::Accept | Kind::Reject => self.phase == Phase::Asked,
            Kind::Data | Kind::Fin => self.phase != Phase::Asked && !self.fin_received,
            Kind::Done => {
                self.fin_received && self.sending == Sending::Finished && !self.done_received
            }
            Kind::Datagram | Kind::Reset | Kind::Credit => true,
            Kind::Hello | Kind::Open | Kind::Ping | Kind::Pong | Kind::Drain | Kind::Close => false,
        };
        if fits {
            Ok(())
        } else {
            Err(ProtocolError::Unexpected { kind, stream: id })
        }
    }

    /// Whether this side has nothing more to say, and should tell the peer so.
    pub(crate) fn owes_done(&self) -> bool {
        self.sending == Sending::Finished
            && self.fin_received
            && self.read_to_end
            && !self.done_sent
    }

    /// Whether both sides have nothing more to say.
    pub(crate) fn is_complete(&self) -> bool {
        self.done_sent && self.done_received
    }
}
