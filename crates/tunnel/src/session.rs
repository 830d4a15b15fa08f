//! A handle to a session: opens streams, drains, closes.

use std::{future::poll_fn, sync::Arc, task::Poll, time::Duration};

use strait_tunnel_proto::{
    self as proto, CloseReason, Config, EndReason, Open, OpenRefused, PeerInfo, Side, Stats,
    StreamEnd, StreamId, reject_code, reset_code,
};

use crate::{
    carrier::Carrier,
    driver::Driver,
    end::{EstablishError, OpenError},
    incoming::Incoming,
    shared::{Answer, Entry, Shared, State, now},
    stream::Stream,
};

/// How long the streams of a session that is used up may go on: as long as a DRAIN can say, 49 days.
const USED_UP: Duration = Duration::from_millis(u32::MAX as u64);

/// A handle to a session; clones are handles to the same one. It does not keep the session up,
/// and dropping all of them does not end it: its [`Driver`] does both.
#[derive(Clone, Debug)]
pub struct Session {
    shared: Arc<Shared>,
    peer: PeerInfo,
}

// === impl Session ===

impl Session {
    /// Greets the peer over the carrier, and waits for its greeting, no longer than
    /// `config.hello_timeout`.
    ///
    /// # Errors
    ///
    /// The configuration is not valid, the carrier broke, or the peer does not speak this
    /// protocol or no common version of it.
    pub async fn establish<C: Carrier>(
        carrier: C,
        side: Side,
        config: Config,
    ) -> Result<(Self, Incoming, Driver), EstablishError> {
        let proto = proto::Session::new(now(), side, config)?;
        let shared = Arc::new(Shared::new(proto, Box::new(carrier)));
        let mut driver = Driver::new(Arc::clone(&shared));
        driver.greet().await.map_err(EstablishError::Ended)?;
        let (peer, end) = shared.with(|state| (state.proto.peer().cloned(), state.end.clone()));
        let Some(peer) = peer else {
            let reason = end.unwrap_or_else(|| EndReason::Carrier(String::new()));
            return Err(EstablishError::Ended(reason));
        };
        let session = Self {
            shared: Arc::clone(&shared),
            peer,
        };
        Ok((session, Incoming::new(shared), driver))
    }

    /// Asks the peer for a stream and waits for its answer. Returns the stream and what the peer
    /// says about it. After `config.most_opened` streams the session drains itself. Dropping the future cancels the request at the peer.
    ///
    /// # Errors
    ///
    /// The peer refuses, the session is lost or draining, or it has too many streams.
    pub async fn open(&self, open: Open) -> Result<(Stream, String), OpenError> {
        let mut asked = Asked::new(&self.shared, open)?;
        let detail = poll_fn(|cx| {
            self.shared
                .with(|state| asked.poll_answer(state, cx.waker()))
        });
        let detail = detail.await?;
        asked.answered = true;
        Ok((Stream::new(Arc::clone(&self.shared), asked.id), detail))
    }

    /// The shortest of the last round trips; `None` before the first.
    #[must_use]
    pub fn rtt(&self) -> Option<Duration> {
        self.shared.with(|state| state.proto.rtt())
    }

    /// How long nothing has arrived from the peer.
    #[must_use]
    pub fn silence(&self) -> Duration {
        self.shared
            .with(|state| now().saturating_duration_since(state.proto.heard()))
    }

    /// Streams open and bytes carried, in both directions.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.with(|state| state.proto.stats())
    }

    /// What the peer said about itself.
    #[must_use]
    pub fn peer(&self) -> &PeerInfo {
        &self.peer
    }

    /// The version of the protocol that both sides speak.
    #[must_use]
    pub fn peer_version(&self) -> u16 {
        self.peer.version
    }

    /// Whether one of the sides asked for an end, so that no stream can be opened any more.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.shared.with(|state| state.proto.is_draining())
    }

    /// Waits until one of the sides drains the session, or the session is over.
    pub async fn draining(&self) {
        let mut draining = self.shared.watch_draining();
        let mut end = self.shared.watch_end();
        tokio::select! {
            _ = draining.wait_for(|draining| *draining) => {}
            _ = end.wait_for(Option::is_some) => {}
        }
    }

    /// Takes no more streams, asks the peer to open none, and ends the session when the last
    /// stream is over, after this time in any case.
    pub fn drain(&self, deadline: Duration) {
        self.shared.with(|state| {
            state.proto.drain(now(), deadline);
            state.set_draining();
        });
    }

    /// Ends the session now, and every stream with it. The peer is told why.
    pub fn close(&self, reason: impl Into<CloseReason>) {
        self.shared.with(|state| {
            state.proto.close(reason.into());
            state.wake_driver();
        });
    }

    /// Waits until the session is over, and says why it is.
    pub async fn closed(&self) -> EndReason {
        let mut end = self.shared.watch_end();
        let ended = end
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|end| end.clone());
        ended.unwrap_or_else(|| EndReason::Carrier("its driver was stopped".to_owned()))
    }
}

/// A request that waits for its answer. Dropped before, it cuts the stream.
struct Asked<'a> {
    shared: &'a Shared,
    id: StreamId,
    answered: bool,
}

// === impl Asked ===

impl<'a> Asked<'a> {
    fn new(shared: &'a Shared, open: Open) -> Result<Self, OpenError> {
        let id = shared.with(|state| {
            let id = state
                .proto
                .open(open)
                .map_err(|refused| refusal(state, refused))?;
            state.entries.insert(id, Entry::default());
            if state.proto.is_used_up() && !state.proto.is_draining() {
                state.proto.drain(now(), USED_UP);
                state.set_draining();
            }
            Ok::<_, OpenError>(id)
        })?;
        Ok(Self {
            shared,
            id,
            answered: false,
        })
    }

    fn poll_answer(
        &mut self,
        state: &mut State,
        waker: &std::task::Waker,
    ) -> Poll<Result<String, OpenError>> {
        let lost = || {
            state
                .end
                .clone()
                .unwrap_or_else(|| EndReason::Carrier(String::new()))
        };
        let Some(entry) = state.entries.get_mut(&self.id) else {
            return Poll::Ready(Err(OpenError::Lost(lost())));
        };
        match (entry.answer.take(), entry.end) {
            (Some(Answer::Accepted(detail)), _) => Poll::Ready(Ok(detail)),
            (Some(Answer::Rejected { code, text }), _) => Poll::Ready(Err(rejection(code, text))),
            (None, Some(StreamEnd::Reset(code) | StreamEnd::ResetByPeer(code))) => {
                Poll::Ready(Err(OpenError::Reset(code)))
            }
            (None, Some(StreamEnd::Complete)) => Poll::Ready(Err(OpenError::Lost(lost()))),
            (None, None) if state.end.is_some() => Poll::Ready(Err(OpenError::Lost(lost()))),
            (None, None) => {
                entry.reader = Some(waker.clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.shared.with(|state| {
                state.proto.reset(self.id, reset_code::CANCELLED);
                state.entries.remove(&self.id);
            });
        }
    }
}

fn rejection(code: u16, text: String) -> OpenError {
    match code {
        reject_code::DRAINING => OpenError::Draining,
        reject_code::TOO_MANY_STREAMS => OpenError::TooManyStreams,
        code => OpenError::Rejected { code, text },
    }
}

fn refusal(state: &State, refused: OpenRefused) -> OpenError {
    match refused {
        OpenRefused::NotOpen => OpenError::Lost(
            state
                .end
                .clone()
                .unwrap_or_else(|| EndReason::Carrier("not there yet".to_owned())),
        ),
        OpenRefused::Draining => OpenError::Draining,
        OpenRefused::TooManyStreams => OpenError::TooManyStreams,
        OpenRefused::Invalid(invalid) => OpenError::Invalid(invalid),
    }
}
