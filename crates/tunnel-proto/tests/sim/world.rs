//! Two sessions, the link between them, and a reference model of what they promise.
//!
//! Time is virtual. Every operation checks the promises that hold at all times; [`World::settle`]
//! lets everything arrive and checks those that hold in the end:
//!
//! - bytes arrive in order and none is made up or lost;
//! - nobody sends more than it was granted (a session that sees that ends with an error, and no
//!   session may), and nobody holds more than its windows allow;
//! - both ends agree how each stream ended;
//! - a timer that is due does something, and a session that is over has none.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::{Duration, Instant},
};

use strait_tunnel_proto::{
    CloseCode, CloseReason, Config, EndReason, Event, Open, Session, Side, StreamEnd, StreamId,
    reject_code,
};

/// The two ends, by number.
pub(crate) const DIALER: usize = 0;
/// See [`DIALER`].
pub(crate) const ACCEPTOR: usize = 1;

/// Two sessions and the link between them.
pub(crate) struct World {
    /// The present.
    pub(crate) now: Instant,
    ends: [End; 2],
    links: [Link; 2],
    config: Config,
}

/// One end.
pub(crate) struct End {
    session: Session,
    /// What the carrier gave and the session left: the start of a frame.
    unparsed: Vec<u8>,
    streams: BTreeMap<StreamId, Held>,
    offers: BTreeSet<StreamId>,
    over: Option<EndReason>,
    established: bool,
}

/// What one end knows about one stream.
#[derive(Default)]
struct Held {
    accepted: bool,
    wrote: u64,
    finished: bool,
    arrived: u64,
    read: u64,
    fin: bool,
    outcome: Option<Outcome>,
}

/// How a stream ended, as one end saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Complete,
    Cut(u16),
    CutByPeer(u16),
    Rejected(u16),
    RejectedByPeer(u16),
}

/// Carries bytes one way, after a delay.
struct Link {
    delay: Duration,
    under_way: VecDeque<(Instant, Vec<u8>)>,
}

// === impl World ===

impl World {
    /// Two sessions that have not greeted yet.
    pub(crate) fn new(start: Instant, config: &Config, delay: Duration) -> Self {
        let end = |side| End {
            session: Session::new(start, side, config.clone()).expect("the configuration is valid"),
            unparsed: Vec::new(),
            streams: BTreeMap::new(),
            offers: BTreeSet::new(),
            over: None,
            established: false,
        };
        let link = || Link {
            delay,
            under_way: VecDeque::new(),
        };
        Self {
            now: start,
            ends: [end(Side::Dialer), end(Side::Acceptor)],
            links: [link(), link()],
            config: config.clone(),
        }
    }

    /// The session of one end.
    pub(crate) fn session(&mut self, at: usize) -> &mut Session {
        &mut self.ends[at].session
    }

    /// Why the session of one end is over.
    pub(crate) fn over(&self, at: usize) -> Option<&EndReason> {
        self.ends[at].over.as_ref()
    }

    /// Whether the peer of this end greeted.
    pub(crate) fn established(&self, at: usize) -> bool {
        self.ends[at].established
    }

    /// The streams that one end knows and that are not over, to pick from.
    pub(crate) fn live(&self, at: usize) -> Vec<StreamId> {
        let live = self.ends[at]
            .streams
            .iter()
            .filter(|(_, held)| held.outcome.is_none());
        live.map(|(id, _)| *id).collect()
    }

    /// Bytes of a stream that arrived at one end and were not read.
    pub(crate) fn unread(&self, at: usize, id: StreamId) -> u64 {
        self.ends[at]
            .streams
            .get(&id)
            .map_or(0, |held| held.arrived - held.read)
    }

    /// Bytes of a stream that one end read.
    pub(crate) fn read_so_far(&self, at: usize, id: StreamId) -> u64 {
        self.ends[at].streams.get(&id).map_or(0, |held| held.read)
    }

    /// Opens a stream, if the session lets it.
    pub(crate) fn open(&mut self, at: usize) -> Option<StreamId> {
        let id = self.ends[at].session.open(Open::target("tcp:a.b:1")).ok()?;
        self.ends[at].streams.insert(id, Held::default());
        self.hear(at);
        Some(id)
    }

    /// Accepts the oldest offer.
    pub(crate) fn accept(&mut self, at: usize) {
        let end = &mut self.ends[at];
        if let Some(id) = end.offers.pop_first() {
            end.session
                .accept(id, "")
                .expect("an offer that is not withdrawn can be accepted");
            end.held(id).accepted = true;
        }
        self.hear(at);
    }

    /// Rejects the oldest offer.
    pub(crate) fn reject(&mut self, at: usize, code: u16) {
        let end = &mut self.ends[at];
        if let Some(id) = end.offers.pop_first() {
            end.held(id).outcome = Some(Outcome::Rejected(code));
            end.session.reject(id, code, "no");
        }
        self.hear(at);
    }

    /// Writes up to `len` bytes; returns how many were taken.
    pub(crate) fn write(&mut self, at: usize, id: StreamId, len: usize) -> usize {
        let end = &mut self.ends[at];
        let Some(held) = end
            .streams
            .get_mut(&id)
            .filter(|held| held.outcome.is_none())
        else {
            return 0;
        };
        let bytes: Vec<u8> = (held.wrote..)
            .take(len)
            .map(|at_byte| byte(at, id, at_byte))
            .collect();
        let taken = match end.session.write(id, &bytes) {
            Ok(taken) => taken,
            Err(error) => {
                assert!(
                    held.finished || end.over.is_some(),
                    "stream {id} refused bytes: {error}"
                );
                0
            }
        };
        held.wrote += u64::try_from(taken).expect("fits");
        self.hear(at);
        taken
    }

    /// Finishes one direction.
    pub(crate) fn finish(&mut self, at: usize, id: StreamId) {
        let end = &mut self.ends[at];
        if end.offers.contains(&id) {
            return;
        }
        if let Some(held) = end.streams.get_mut(&id) {
            held.finished = true;
            end.session.finish(id);
        }
        self.hear(at);
    }

    /// Cuts a stream.
    pub(crate) fn reset(&mut self, at: usize, id: StreamId, code: u16) {
        self.ends[at].offers.remove(&id);
        self.ends[at].session.reset(id, code);
        self.hear(at);
    }

    /// Reads up to `len` bytes that arrived.
    pub(crate) fn read(&mut self, at: usize, id: StreamId, len: u64) {
        let now = self.now;
        let end = &mut self.ends[at];
        let Some(held) = end
            .streams
            .get_mut(&id)
            .filter(|held| held.outcome.is_none())
        else {
            return;
        };
        let bytes = len.min(held.arrived - held.read);
        held.read += bytes;
        let read_all = held.fin && held.read == held.arrived;
        end.session
            .read(now, id, usize::try_from(bytes).expect("fits"));
        if read_all {
            end.session.end_read(id);
        }
        self.hear(at);
    }

    /// Asks for an end in good order.
    pub(crate) fn drain(&mut self, at: usize, deadline: Duration) {
        let now = self.now;
        self.ends[at].session.drain(now, deadline);
        self.hear(at);
    }

    /// Ends a session at once.
    pub(crate) fn close(&mut self, at: usize) {
        self.ends[at]
            .session
            .close(CloseReason::new(CloseCode::Normal, "enough"));
        self.hear(at);
    }

    /// Breaks the connection: what is under way is lost, and both ends notice.
    pub(crate) fn cut(&mut self) {
        for at in [DIALER, ACCEPTOR] {
            self.links[at].under_way.clear();
            self.ends[at].session.handle_disconnect("cut");
            self.hear(at);
        }
    }

    /// Breaks the connection so that nobody notices: nothing arrives any more.
    pub(crate) fn black_hole(&mut self) {
        for link in &mut self.links {
            link.under_way.clear();
            link.delay = Duration::from_secs(1 << 32);
        }
    }

    /// Moves up to `max` bytes from a session to the link.
    pub(crate) fn transmit(&mut self, at: usize, max: usize) -> usize {
        let session = &mut self.ends[at].session;
        let bytes = session.poll_transmit();
        let taken = bytes.len().min(max);
        if taken > 0 {
            let link = &mut self.links[at];
            link.under_way
                .push_back((self.now + link.delay, bytes[..taken].to_vec()));
            session.transmitted(taken);
        }
        self.hear(at);
        taken
    }

    /// Gives a session up to `max` of the bytes that have arrived for it.
    pub(crate) fn deliver(&mut self, at: usize, max: usize) -> usize {
        let now = self.now;
        let arrived = self.links[1 - at].take(now, max);
        let mut input = std::mem::take(&mut self.ends[at].unparsed);
        input.extend_from_slice(&arrived);
        let mut done = 0;
        loop {
            let (consumed, data) = {
                let received = self.ends[at].session.receive(now, &input[done..]);
                (
                    received.consumed,
                    received.data.map(|(id, bytes)| (id, bytes.to_vec())),
                )
            };
            self.hear(at);
            if let Some((id, bytes)) = data {
                self.arrive(at, id, &bytes);
            }
            if consumed == 0 {
                break;
            }
            done += consumed;
        }
        self.ends[at].unparsed = input.split_off(done);
        arrived.len()
    }

    /// Lets time pass. Every timer that becomes due is served.
    pub(crate) fn advance(&mut self, by: Duration) {
        let until = self.now + by;
        loop {
            let due = [DIALER, ACCEPTOR].map(|at| self.ends[at].session.poll_timeout());
            let Some(next) = due
                .into_iter()
                .flatten()
                .min()
                .filter(|next| *next <= until)
            else {
                break;
            };
            self.now = self.now.max(next);
            for at in [DIALER, ACCEPTOR] {
                self.ends[at].session.handle_timeout(self.now);
                self.hear(at);
                let again = self.ends[at].session.poll_timeout();
                assert!(
                    again.is_none_or(|again| again > self.now),
                    "a timer is stuck"
                );
            }
        }
        self.now = until;
    }

    /// Lets everything that is under way arrive, without reading anything.
    pub(crate) fn flow(&mut self) {
        loop {
            let mut moved = 0;
            for at in [DIALER, ACCEPTOR] {
                moved += self.transmit(at, usize::MAX);
            }
            let delay = self.links[DIALER].delay.max(self.links[ACCEPTOR].delay);
            self.advance(delay);
            for at in [DIALER, ACCEPTOR] {
                moved += self.deliver(at, usize::MAX);
            }
            if moved == 0 {
                return;
            }
        }
    }

    /// Answers all offers, reads everything, finishes every stream, and checks that both ends
    /// agree about all of them.
    pub(crate) fn settle(&mut self) {
        for _ in 0..10_000 {
            self.flow();
            let before = self.progress();
            for at in [DIALER, ACCEPTOR] {
                while !self.ends[at].offers.is_empty() {
                    self.accept(at);
                }
                for id in self.live(at) {
                    self.read(at, id, u64::MAX);
                    self.finish(at, id);
                }
            }
            self.flow();
            if self.progress() == before {
                break;
            }
        }
        self.check_agreement();
    }

    fn progress(&self) -> (u64, usize, usize) {
        let held = || self.ends.iter().flat_map(|end| end.streams.values());
        (
            held().map(|held| held.arrived + held.read).sum(),
            held().filter(|held| held.outcome.is_none()).count(),
            held().filter(|held| held.finished && held.fin).count(),
        )
    }

    fn check_agreement(&mut self) {
        if self.ends.iter().any(|end| end.over.is_some()) {
            return;
        }
        let ids: BTreeSet<StreamId> = self
            .ends
            .iter()
            .flat_map(|end| end.streams.keys().copied())
            .collect();
        for id in ids {
            let [dialer, acceptor] = [DIALER, ACCEPTOR].map(|at| self.ends[at].streams.get(&id));
            match (dialer, acceptor) {
                (Some(dialer), Some(acceptor)) => agree(id, dialer, acceptor),
                // The peer's session refused it, or the opener took it back, without asking.
                (Some(alone), None) | (None, Some(alone)) => {
                    let outcome = alone.outcome;
                    let refused =
                        matches!(outcome, Some(Outcome::RejectedByPeer(_) | Outcome::Cut(_)));
                    assert!(
                        refused,
                        "stream {id} is {outcome:?} and unknown to the other end"
                    );
                }
                (None, None) => {}
            }
        }
        for end in &self.ends {
            assert_eq!(
                end.session.stats().streams,
                0,
                "a stream that is over is kept"
            );
        }
    }

    fn arrive(&mut self, at: usize, id: StreamId, bytes: &[u8]) {
        let held = self.ends[at].held(id);
        assert!(
            !held.fin && held.outcome.is_none(),
            "bytes after the end of stream {id}"
        );
        for got in bytes {
            assert_eq!(
                *got,
                byte(1 - at, id, held.arrived),
                "stream {id} at {}",
                held.arrived
            );
            held.arrived += 1;
        }
        let unread = held.arrived - held.read;
        assert!(
            unread <= u64::from(self.config.stream_window_max),
            "stream {id} holds {unread}"
        );
        let end = &self.ends[at];
        let unread: u64 = end
            .streams
            .values()
            .map(|held| held.arrived - held.read)
            .sum();
        let streams = u64::try_from(end.streams.len()).expect("fits");
        let limit = streams * u64::from(self.config.stream_window) + self.config.growth_budget;
        assert!(unread <= limit, "the session holds {unread}");
    }

    fn hear(&mut self, at: usize) {
        let end = &mut self.ends[at];
        while let Some(event) = end.session.poll_event() {
            assert_eq!(end.over, None, "an event after the end");
            end.on_event(event);
        }
        if end.over.is_some() {
            assert_eq!(
                end.session.poll_timeout(),
                None,
                "a session that is over has a timer"
            );
        }
    }
}

// === impl End ===

impl End {
    fn held(&mut self, id: StreamId) -> &mut Held {
        self.streams
            .get_mut(&id)
            .expect("a stream that is spoken of is known")
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Established(_) => self.established = true,
            Event::Opened { stream, open } => {
                assert_eq!(open, Open::target("tcp:a.b:1"));
                assert!(self.streams.insert(stream, Held::default()).is_none());
                self.offers.insert(stream);
            }
            Event::Accepted { stream, .. } => {
                let held = self.held(stream);
                assert!(!std::mem::replace(&mut held.accepted, true));
            }
            Event::Rejected { stream, code, .. } => {
                self.conclude(stream, Outcome::RejectedByPeer(code));
            }
            Event::Writable(stream) => {
                assert!(self.held(stream).outcome.is_none());
            }
            Event::Finished(stream) => {
                assert!(!std::mem::replace(&mut self.held(stream).fin, true));
            }
            Event::Ended { stream, end } => {
                let outcome = match end {
                    StreamEnd::Complete => Outcome::Complete,
                    StreamEnd::Reset(code) => Outcome::Cut(code),
                    StreamEnd::ResetByPeer(code) => Outcome::CutByPeer(code),
                };
                self.conclude(stream, outcome);
            }
            Event::Datagram { .. } | Event::Draining(_) => {}
            Event::Closed(reason) => {
                assert!(!matches!(reason, EndReason::Protocol(_)), "{reason:?}");
                self.offers.clear();
                self.over = Some(reason);
            }
        }
    }

    fn conclude(&mut self, id: StreamId, outcome: Outcome) {
        self.offers.remove(&id);
        let held = self.held(id);
        assert_eq!(
            held.outcome.replace(outcome),
            None,
            "stream {id} ended twice"
        );
    }
}

// === impl Link ===

impl Link {
    fn take(&mut self, now: Instant, max: usize) -> Vec<u8> {
        let mut taken = Vec::new();
        while let Some((_, bytes)) = self.under_way.front_mut().filter(|(at, _)| *at <= now) {
            let room = max - taken.len();
            if bytes.len() > room {
                taken.extend(bytes.drain(..room));
                break;
            }
            taken.append(bytes);
            self.under_way.pop_front();
        }
        taken
    }
}

fn agree(id: StreamId, dialer: &Held, acceptor: &Held) {
    let (Some(one), Some(other)) = (dialer.outcome, acceptor.outcome) else {
        assert_eq!(
            dialer.outcome, acceptor.outcome,
            "stream {id} ended at one end only"
        );
        assert!(dialer.outcome.is_some(), "stream {id} never ended");
        return;
    };
    let pair = [(one, other), (other, one)];
    if pair
        .iter()
        .any(|(outcome, _)| *outcome == Outcome::Complete)
    {
        assert_eq!(one, other, "stream {id}");
        assert_eq!(
            dialer.wrote, acceptor.read,
            "stream {id} lost bytes of the dialer"
        );
        assert_eq!(
            acceptor.wrote, dialer.read,
            "stream {id} lost bytes of the acceptor"
        );
    }
    for (outcome, at_peer) in pair {
        match outcome {
            Outcome::CutByPeer(code) => assert_eq!(at_peer, Outcome::Cut(code), "stream {id}"),
            Outcome::RejectedByPeer(code) if code != reject_code::DRAINING => {
                assert_eq!(at_peer, Outcome::Rejected(code), "stream {id}");
            }
            Outcome::Complete
            | Outcome::Cut(_)
            | Outcome::Rejected(_)
            | Outcome::RejectedByPeer(_) => {}
        }
    }
}

/// The byte that an end writes at a position of a stream.
fn byte(from: usize, id: StreamId, position: u64) -> u8 {
    let from = u64::try_from(from).expect("fits");
    let mixed =
        (position ^ (u64::from(id.get()) << 32) ^ (from << 56)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed.to_be_bytes()[0]
}
