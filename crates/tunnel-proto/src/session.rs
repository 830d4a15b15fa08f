//! One connection between two peers: hello, streams, end.

mod inbound;
mod outbound;

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use bytes::BytesMut;
use thiserror::Error;

use crate::{
    config::{Config, InvalidConfig},
    credit::{GrowthPool, SendCredit, SessionWindow},
    end::{CloseCode, CloseReason, EndReason, StreamEnd},
    event::Event,
    frame::{Frame, MAX_PAYLOAD, StreamId},
    hello::{PeerInfo, Side},
    liveness::{Due, Liveness},
    open::{InvalidOpen, Open},
    stream::{Phase, Stream},
};

/// One session, as one of its two ends sees it.
///
/// The driver passes what arrived to [`receive`](Self::receive), sends what
/// [`poll_transmit`](Self::poll_transmit) offers, reacts to [`poll_event`](Self::poll_event), and
/// calls [`handle_timeout`](Self::handle_timeout) at [`poll_timeout`](Self::poll_timeout). After
/// any call the last three may have something new. Once the session is over `poll_timeout` is
/// `None`, `receive` swallows everything, and no call changes anything any more; a farewell that
/// is still to be sent stays in `poll_transmit`.
#[derive(Debug)]
pub struct Session {
    side: Side,
    config: Config,
    state: State,
    streams: BTreeMap<StreamId, Stream>,
    /// The next stream to open; `None` once the numbers are used up.
    next_own: Option<StreamId>,
    /// The last stream that the peer opened, 0 before the first.
    last_theirs: u32,
    own_open: u32,
    theirs_open: u32,
    theirs_pending: u32,
    window: SessionWindow,
    credit: SendCredit,
    pool: GrowthPool,
    liveness: Liveness,
    drain: Drain,
    peer: Option<Peer>,
    /// Bytes to be sent, always whole frames but for the start of the first.
    out: BytesMut,
    /// Streams whose slot has bytes, each once, in the order of their turns. May name streams that are over.
    turns: VecDeque<StreamId>,
    /// Bytes in the slots of all streams.
    waiting: usize,
    events: VecDeque<Event>,
    bytes_in: u64,
    bytes_out: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The peer has to say HELLO until then.
    Greeting(Instant),
    Open,
    Over,
}

/// What is known once the peer greeted.
#[derive(Debug)]
struct Peer {
    info: PeerInfo,
    stream_window: u32,
    max_streams: u32,
    max_payload: usize,
}

/// Who drains. The side that asked closes the session when the last stream is over.
#[derive(Debug, Default)]
struct Drain {
    /// This side asked for it, with this deadline.
    ours: Option<Instant>,
    /// The peer promised to open nothing any more.
    promised: bool,
    /// The peer asked for it.
    theirs: bool,
}

/// Numbers about a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Streams that are not over, of both sides, those waiting for an answer among them.
    pub streams: usize,
    /// Bytes of DATA that arrived, headers not counted.
    pub bytes_in: u64,
    /// Bytes of DATA that were handed to the carrier or wait for it, headers not counted.
    pub bytes_out: u64,
}

/// Why a stream cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OpenRefused {
    /// The session is not there yet, or over.
    #[error("the session is not open")]
    NotOpen,
    /// One of the sides drains the session, or its stream numbers are used up.
    #[error("the session takes no more streams")]
    Draining,
    /// The peer's limit is reached, or too much waits for the carrier.
    #[error("the session has too many streams")]
    TooManyStreams,
    /// What is asked for is not valid.
    #[error("the request to open a stream is not valid")]
    Invalid(#[from] InvalidOpen),
}

/// Why a stream takes no bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WriteError {
    /// The stream is over, or the session is.
    #[error("the stream is over")]
    Gone,
    /// This side sent FIN.
    #[error("the stream is finished in this direction")]
    Finished,
}

// === impl Session ===

impl Session {
    /// Starts a session; a HELLO and a PING wait to be sent.
    ///
    /// # Errors
    ///
    /// Says what in the configuration does not fit together.
    pub fn new(now: Instant, side: Side, config: Config) -> Result<Self, InvalidConfig> {
        config.check()?;
        let mut session = Self {
            side,
            state: State::Greeting(now + config.hello_timeout),
            streams: BTreeMap::new(),
            next_own: StreamId::new(side.first_stream()),
            last_theirs: 0,
            own_open: 0,
            theirs_open: 0,
            theirs_pending: 0,
            window: SessionWindow::new(config.session_window),
            credit: SendCredit::new(0),
            pool: GrowthPool::new(config.growth_budget),
            liveness: Liveness::new(now, config.ping_interval, config.ping_grace),
            drain: Drain::default(),
            peer: None,
            out: BytesMut::new(),
            turns: VecDeque::new(),
            waiting: 0,
            events: VecDeque::new(),
            bytes_in: 0,
            bytes_out: 0,
            config,
        };
        session.put(&Frame::Hello(session.config.hello(side)));
        Ok(session)
    }

    /// Asks the peer for a stream. Data may follow at once, up to the peer's initial window.
    ///
    /// # Errors
    ///
    /// Says why nothing was asked.
    pub fn open(&mut self, open: Open) -> Result<StreamId, OpenRefused> {
        open.check()?;
        let Some(peer) = self.peer.as_ref().filter(|_| self.state == State::Open) else {
            return Err(OpenRefused::NotOpen);
        };
        if self.is_draining() {
            return Err(OpenRefused::Draining);
        }
        if self.own_open >= peer.max_streams || self.out.len() > self.config.max_backlog / 2 {
            return Err(OpenRefused::TooManyStreams);
        }
        let id = self.next_own.ok_or(OpenRefused::Draining)?;
        self.next_own = id.get().checked_add(2).and_then(StreamId::new);
        self.own_open += 1;
        self.streams.insert(
            id,
            Stream::new(Phase::Asked, &self.config, peer.stream_window),
        );
        self.put(&Frame::Open { stream: id, open });
        Ok(id)
    }

    /// Whether this side has opened as many streams as one session is meant for: drain it, and
    /// let another one take its place.
    #[must_use]
    pub fn is_used_up(&self) -> bool {
        let next = self.next_own.map_or(u32::MAX, StreamId::get);
        next / 2 >= self.config.most_opened
    }

    /// Grants a stream that the peer asked for. `detail` is cut at 4096 bytes.
    ///
    /// # Errors
    ///
    /// The stream is over: the peer gave up, or it was answered before.
    pub fn accept(&mut self, id: StreamId, detail: &str) -> Result<(), WriteError> {
        let Some(stream) = self.offered(id) else {
            return Err(WriteError::Gone);
        };
        stream.phase = Phase::Open;
        self.theirs_pending = self.theirs_pending.saturating_sub(1);
        self.put(&Frame::Accept { stream: id, detail });
        Ok(())
    }

    /// Refuses a stream that the peer asked for. Does nothing when it is over or was answered.
    pub fn reject(&mut self, id: StreamId, code: u16, text: &str) {
        if self.offered(id).is_some() {
            self.put(&Frame::Reject {
                stream: id,
                code,
                text,
            });
            self.remove(id);
            self.close_when_drained();
        }
    }

    fn offered(&mut self, id: StreamId) -> Option<&mut Stream> {
        self.streams
            .get_mut(&id)
            .filter(|stream| stream.phase == Phase::Offered)
    }

    /// The reader of a stream took bytes, which gives the peer credit.
    pub fn read(&mut self, now: Instant, id: StreamId, bytes: usize) {
        let rtt = self.liveness.rtt();
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        let grant = stream.window.on_read(now, bytes, rtt, &mut self.pool);
        if let Some(bytes) = grant.filter(|_| !stream.fin_received) {
            self.put(&Frame::Credit {
                stream: Some(id),
                bytes,
            });
        }
    }

    /// The reader of a stream took everything, and saw that the peer finished.
    pub fn end_read(&mut self, id: StreamId) {
        if let Some(stream) = self
            .streams
            .get_mut(&id)
            .filter(|stream| stream.fin_received)
        {
            stream.read_to_end = true;
            self.settle(id);
        }
    }

    /// Cuts a stream in both directions. Does nothing once it is over, or once everything was
    /// sent and read on this side: such a stream is complete as far as the peer knows.
    pub fn reset(&mut self, id: StreamId, code: u16) {
        if self
            .streams
            .get(&id)
            .is_some_and(|stream| !stream.done_sent)
        {
            self.put(&Frame::Reset { stream: id, code });
            self.end_stream(id, StreamEnd::Reset(code));
        }
    }

    /// Sends one datagram on a stream. It is dropped when the stream is not open, when it is too
    /// long for a frame, and when other frames already wait for the carrier.
    pub fn send_datagram(&mut self, id: StreamId, payload: &[u8]) {
        let open = self
            .streams
            .get(&id)
            .is_some_and(|stream| stream.phase == Phase::Open);
        if open && payload.len() <= self.max_payload() && self.is_clear() {
            self.put(&Frame::Datagram {
                stream: id,
                payload,
            });
        }
    }

    /// Takes no more streams, asks the peer to open none, and closes the session when the last
    /// one is over, at the deadline in any case. Of several deadlines the nearest counts.
    pub fn drain(&mut self, now: Instant, deadline: Duration) {
        let at = now + deadline;
        if self.state == State::Over || self.drain.ours.is_some_and(|before| before <= at) {
            return;
        }
        self.drain.ours = Some(at);
        let deadline_ms = u32::try_from(deadline.as_millis()).unwrap_or(u32::MAX);
        self.put(&Frame::Drain {
            answer: false,
            deadline_ms,
        });
    }

    /// Ends the session now, and every stream with it.
    pub fn close(&mut self, reason: CloseReason) {
        self.fail(EndReason::Closed(reason));
    }

    /// The carrier ended or broke.
    pub fn handle_disconnect(&mut self, cause: impl Into<String>) {
        self.fail(EndReason::Carrier(cause.into()));
    }

    /// Reacts to time passing. Does nothing once the session is over.
    pub fn handle_timeout(&mut self, now: Instant) {
        match self.state {
            State::Over => return,
            State::Greeting(deadline) if now >= deadline => return self.fail(EndReason::NoHello),
            State::Greeting(_) => return,
            State::Open => {}
        }
        if self.drain.ours.is_some_and(|deadline| now >= deadline) {
            return self.fail(EndReason::Closed(CloseCode::DrainDeadline.into()));
        }
        match self.liveness.on_timeout(now) {
            Due::Nothing => {}
            Due::Ping(opaque) => self.put(&Frame::Ping(opaque)),
            Due::GiveUp => self.fail(EndReason::PeerSilent),
        }
    }

    /// When `handle_timeout` next has something to do; `None` once the session is over.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Over => None,
            State::Greeting(deadline) => Some(deadline),
            State::Open => {
                let alive = self.liveness.deadline();
                Some(
                    self.drain
                        .ours
                        .map_or(alive, |deadline| deadline.min(alive)),
                )
            }
        }
    }

    /// The next thing that happened. [`Event::Closed`] is the last one there is.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// What the peer said about itself; `None` before it did.
    #[must_use]
    pub fn peer(&self) -> Option<&PeerInfo> {
        self.peer.as_ref().map(|peer| &peer.info)
    }

    /// The shortest of the last round trips; `None` before the first.
    #[must_use]
    pub fn rtt(&self) -> Option<Duration> {
        self.liveness.rtt()
    }

    /// When bytes of the peer arrived last; the beginning of the session before the first.
    #[must_use]
    pub fn heard(&self) -> Instant {
        self.liveness.heard()
    }

    /// Numbers about the session.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            streams: self.streams.len(),
            bytes_in: self.bytes_in,
            bytes_out: self.bytes_out,
        }
    }

    /// Whether one of the sides asked for an end, so that no stream can be opened any more.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.drain.ours.is_some() || self.drain.theirs
    }

    /// Whether the session is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// What of a stream arrived and was not read.
    #[must_use]
    pub fn unread(&self, id: StreamId) -> u64 {
        self.streams
            .get(&id)
            .map_or(0, |stream| stream.window.held())
    }

    fn max_payload(&self) -> usize {
        self.peer
            .as_ref()
            .map_or(MAX_PAYLOAD, |peer| peer.max_payload)
    }

    /// Appends a frame to what is to be sent. Every frame that a session makes fits.
    fn put(&mut self, frame: &Frame<'_>) {
        if self.state != State::Over {
            let put = frame.encode(&mut self.out);
            debug_assert!(put.is_ok(), "a session makes no frame that does not fit");
        }
    }

    /// Says DONE when it is time, and ends the stream when both sides did.
    fn settle(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        let says_done = stream.owes_done();
        stream.done_sent |= says_done;
        let complete = stream.is_complete();
        if says_done {
            self.put(&Frame::Done { stream: id });
        }
        if complete {
            self.end_stream(id, StreamEnd::Complete);
        }
    }

    fn end_stream(&mut self, id: StreamId, end: StreamEnd) {
        self.events.push_back(Event::Ended { stream: id, end });
        self.remove(id);
        self.close_when_drained();
    }

    fn remove(&mut self, id: StreamId) {
        let Some(stream) = self.streams.remove(&id) else {
            return;
        };
        self.waiting -= stream.slot.len();
        stream.window.close(&mut self.pool);
        if self.is_own(id) {
            self.own_open = self.own_open.saturating_sub(1);
        } else {
            self.theirs_open = self.theirs_open.saturating_sub(1);
            if stream.phase == Phase::Offered {
                self.theirs_pending = self.theirs_pending.saturating_sub(1);
            }
        }
    }

    fn close_when_drained(&mut self) {
        if self.drain.ours.is_some() && self.drain.promised && self.streams.is_empty() {
            self.fail(EndReason::Closed(CloseCode::Drained.into()));
        }
    }

    fn is_own(&self, id: StreamId) -> bool {
        id.is_odd() == (self.side == Side::Dialer)
    }

    /// Ends the session. What waits to be sent goes out before the farewell; when there is none,
    /// the carrier is of no use any more.
    fn fail(&mut self, reason: EndReason) {
        if self.state == State::Over {
            return;
        }
        match reason.farewell() {
            Some(CloseReason { code, text }) => self.put(&Frame::Close { code, text: &text }),
            None => self.out.clear(),
        }
        self.state = State::Over;
        self.streams.clear();
        self.turns.clear();
        self.waiting = 0;
        self.events.push_back(Event::Closed(reason));
    }
}
