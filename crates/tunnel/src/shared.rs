//! What the tasks of one session share, behind one lock.
//!
//! The lock is held for one step: some bytes copied, some frames made, a write to the carrier.
//! Nobody is woken under it; whoever took it wakes the others afterwards.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    task::Waker,
    time::Instant,
};

use parking_lot::Mutex;
use strait_tunnel_proto::{
    self as proto, EndReason, Event, Open, StreamEnd, StreamId, reject_code,
};
use tokio::sync::watch;

use crate::{carrier::Carrier, wire::Wire};

/// A session, as its handle, its streams and its driver see it.
pub(crate) struct Shared {
    state: Mutex<State>,
    draining: watch::Sender<bool>,
    end: watch::Sender<Option<EndReason>>,
}

/// What is behind the lock.
pub(crate) struct State {
    pub(crate) proto: proto::Session,
    pub(crate) wire: Wire,
    /// The streams that somebody holds. Those that are over are among them until let go.
    pub(crate) entries: BTreeMap<StreamId, Entry>,
    pub(crate) inbox: Inbox,
    pub(crate) established: bool,
    pub(crate) end: Option<EndReason>,
    draining: bool,
    wakes: Vec<Waker>,
}

/// One stream that somebody holds.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    /// What the peer said to our OPEN.
    pub(crate) answer: Option<Answer>,
    /// What arrived and was not read, never more than the stream's window.
    pub(crate) queue: VecDeque<u8>,
    /// The peer sends no more.
    pub(crate) fin: bool,
    /// The reader was told so.
    pub(crate) read_to_end: bool,
    /// This side sends no more.
    pub(crate) finished: bool,
    /// The stream is over.
    pub(crate) end: Option<StreamEnd>,
    pub(crate) reader: Option<Waker>,
    pub(crate) writer: Option<Waker>,
    /// Who wants to know when the stream is over, whatever else it waits for.
    pub(crate) watcher: Option<Waker>,
}

/// What the peer said to an OPEN.
#[derive(Debug)]
pub(crate) enum Answer {
    Accepted(String),
    Rejected { code: u16, text: String },
}

/// The peer's requests that nobody has taken yet. `Config::max_pending` bounds them: the session
/// refuses what is beyond, and one that the peer gives up is not kept. Their numbers rise, so the
/// first came first.
#[derive(Debug)]
pub(crate) struct Inbox {
    pub(crate) open: bool,
    pub(crate) requests: BTreeMap<StreamId, Open>,
    pub(crate) waker: Option<Waker>,
}

/// The time of tokio's clock, which a test can pause.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

// === impl Shared ===

impl Shared {
    pub(crate) fn new(proto: proto::Session, carrier: Box<dyn Carrier>) -> Self {
        let state = State {
            proto,
            wire: Wire::new(carrier),
            entries: BTreeMap::new(),
            inbox: Inbox {
                open: true,
                requests: BTreeMap::new(),
                waker: None,
            },
            established: false,
            end: None,
            draining: false,
            wakes: Vec::new(),
        };
        Self {
            state: Mutex::new(state),
            draining: watch::Sender::new(false),
            end: watch::Sender::new(None),
        }
    }

    /// Does one step under the lock, sends what it made, and wakes whom it concerns.
    pub(crate) fn with<R>(&self, step: impl FnOnce(&mut State) -> R) -> R {
        let (result, wakes, end, draining) = {
            let mut state = self.state.lock();
            let result = step(&mut state);
            state.send();
            let end = state
                .end
                .as_ref()
                .filter(|_| self.end.borrow().is_none())
                .cloned();
            (
                result,
                std::mem::take(&mut state.wakes),
                end,
                state.draining,
            )
        };
        wakes.into_iter().for_each(Waker::wake);
        if draining && !*self.draining.borrow() {
            self.draining.send_replace(true);
        }
        if end.is_some() {
            self.end.send_replace(end);
        }
        result
    }

    pub(crate) fn watch_draining(&self) -> watch::Receiver<bool> {
        self.draining.subscribe()
    }

    pub(crate) fn watch_end(&self) -> watch::Receiver<Option<EndReason>> {
        self.end.subscribe()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("end", &*self.end.borrow())
            .finish_non_exhaustive()
    }
}

// === impl State ===

impl State {
    /// Sends what there is and hears what came of it, until nothing changes.
    fn send(&mut self) {
        self.hear();
        self.wire.send(&mut self.proto);
        self.hear();
    }

    /// Handles bytes that arrived; returns how many are done with.
    pub(crate) fn handle(&mut self, now: Instant, input: &[u8]) -> usize {
        let mut done = 0;
        loop {
            let received = self
                .proto
                .receive(now, input.get(done..).unwrap_or_default());
            self.hear();
            if let Some((id, payload)) = received.data {
                self.deliver(now, id, payload);
            }
            if received.consumed == 0 {
                return done;
            }
            done += received.consumed;
        }
    }

    fn deliver(&mut self, now: Instant, id: StreamId, payload: &[u8]) {
        match self.entries.get_mut(&id) {
            Some(entry) => {
                entry.queue.extend(payload);
                self.wakes.extend(entry.reader.take());
            }
            None => self.proto.read(now, id, payload.len()),
        }
    }

    /// Reacts to what the session tells.
    fn hear(&mut self) {
        while let Some(event) = self.proto.poll_event() {
            match event {
                Event::Established(_) => {
                    self.established = true;
                    self.wakes.push(self.wire.driver().clone());
                }
                Event::Opened { stream, open } => self.on_opened(stream, open),
                Event::Accepted { stream, detail } => {
                    self.on_answer(stream, Answer::Accepted(detail));
                }
                Event::Rejected { stream, code, text } => {
                    self.on_answer(stream, Answer::Rejected { code, text });
                }
                Event::Writable(id) => {
                    let entry = self.entries.get_mut(&id);
                    self.wakes
                        .extend(entry.and_then(|entry| entry.writer.take()));
                }
                Event::Finished(id) => {
                    if let Some(entry) = self.entries.get_mut(&id) {
                        entry.fin = true;
                        self.wakes.extend(entry.reader.take());
                    }
                }
                Event::Ended { stream, end } => self.on_ended(stream, end),
                Event::Datagram { .. } => {}
                Event::Draining(_) => self.draining = true,
                Event::Closed(reason) => self.on_closed(reason),
            }
        }
    }

    fn on_opened(&mut self, id: StreamId, open: Open) {
        if self.inbox.open {
            self.entries.insert(id, Entry::default());
            self.inbox.requests.insert(id, open);
            self.wakes.extend(self.inbox.waker.take());
        } else {
            self.proto
                .reject(id, reject_code::DRAINING, "this side takes no streams");
        }
    }

    fn on_answer(&mut self, id: StreamId, answer: Answer) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.answer = Some(answer);
            self.wakes.extend(entry.reader.take());
        }
    }

    fn on_ended(&mut self, id: StreamId, end: StreamEnd) {
        if self.inbox.requests.remove(&id).is_some() {
            self.entries.remove(&id);
            return;
        }
        if let Some(entry) = self.entries.get_mut(&id) {
            // What came as a whole, up to FIN, is still there to be read: the peer cut the
            // stream because of the other direction. Half a message is worth nothing.
            if !(entry.fin && matches!(end, StreamEnd::ResetByPeer(_))) {
                entry.queue = VecDeque::new();
            }
            entry.end = Some(end);
            self.wakes.extend(entry.watcher.take());
            self.wakes.extend(entry.reader.take());
            self.wakes.extend(entry.writer.take());
        }
    }

    fn on_closed(&mut self, reason: EndReason) {
        self.end = Some(reason);
        self.inbox.requests.clear();
        self.wakes.extend(self.inbox.waker.take());
        for entry in self.entries.values_mut() {
            self.wakes.extend(entry.watcher.take());
            self.wakes.extend(entry.reader.take());
            self.wakes.extend(entry.writer.take());
        }
        self.wakes.push(self.wire.driver().clone());
    }

    pub(crate) fn set_draining(&mut self) {
        self.draining = true;
        self.wake_driver();
    }

    /// Lets the driver look at its timer again.
    pub(crate) fn wake_driver(&mut self) {
        self.wakes.push(self.wire.driver().clone());
    }
}
