//! What a session receives.

use std::time::{Duration, Instant};

use super::{Peer, Session, State};
use crate::{
    credit::{SendCredit, count},
    end::{CloseReason, EndReason, ProtocolError, StreamEnd, reject_code},
    event::{Event, Received},
    frame::{Decoded, Frame, HEADER_LEN, Kind, StreamId},
    hello::{Hello, PeerInfo, VERSION_MAX, VERSION_MIN},
    open::Open,
    stream::{Phase, Stream},
};

impl Session {
    /// Takes bytes that arrived, up to and with the first that belong to a stream. Call it again
    /// with the rest until it consumes nothing; what then remains is the start of a frame.
    ///
    /// The events that wait when it returns come before the stream's bytes.
    pub fn receive<'a>(&mut self, now: Instant, input: &'a [u8]) -> Received<'a> {
        let mut consumed = 0;
        while self.state != State::Over {
            let rest = input.get(consumed..).unwrap_or_default();
            let (frame, len) = match Frame::decode(rest) {
                Ok(None) => {
                    return Received {
                        consumed,
                        data: None,
                    };
                }
                Ok(Some((frame, len))) => (frame, len),
                Err(error) => {
                    self.fail(EndReason::Protocol(error.into()));
                    break;
                }
            };
            consumed += len;
            self.liveness.on_heard(now);
            match self.handle(now, frame) {
                Ok(None) => {}
                Ok(data) => return Received { consumed, data },
                Err(reason) => self.fail(reason),
            }
            if self.out.len() > self.config.max_backlog {
                self.fail(EndReason::Backlog);
            }
        }
        Received {
            consumed: input.len(),
            data: None,
        }
    }

    fn handle<'a>(
        &mut self,
        now: Instant,
        frame: Decoded<'a>,
    ) -> Result<Option<(StreamId, &'a [u8])>, EndReason> {
        let frame = match frame {
            Decoded::Frame(frame) => frame,
            Decoded::Skipped(_) => return Ok(None),
        };
        match (self.state, frame) {
            (State::Greeting(_), Frame::Hello(hello)) => self.on_hello(now, &hello)?,
            (State::Greeting(_), Frame::Close { code, text }) => {
                return Err(EndReason::ClosedByPeer(CloseReason::new(code, text)));
            }
            (State::Greeting(_), frame) => {
                return Err(ProtocolError::HelloExpected(frame.kind()).into());
            }
            (State::Open | State::Over, frame) => match frame.stream() {
                Some(id) => return self.handle_stream(now, id, frame),
                None => self.handle_session(now, frame)?,
            },
        }
        Ok(None)
    }

    fn on_hello(&mut self, now: Instant, hello: &Hello) -> Result<(), EndReason> {
        let version = hello.version_max.min(VERSION_MAX);
        if version < hello.version_min.max(VERSION_MIN) {
            let (min, max) = (hello.version_min, hello.version_max);
            return Err(EndReason::Version { min, max });
        }
        if hello.side == self.side {
            return Err(ProtocolError::SameSide(hello.side).into());
        }
        let info = PeerInfo {
            version,
            features: 0,
            instance: hello.instance,
            software: hello.software.clone(),
        };
        self.peer = Some(Peer {
            info: info.clone(),
            stream_window: hello.stream_window,
            max_streams: hello.max_streams,
            max_payload: usize::from(hello.max_frame).saturating_sub(HEADER_LEN),
        });
        self.credit = SendCredit::new(hello.session_window);
        self.state = State::Open;
        self.events.push_back(Event::Established(info));
        self.handle_timeout(now);
        Ok(())
    }

    fn handle_session(&mut self, now: Instant, frame: Frame<'_>) -> Result<(), EndReason> {
        match frame {
            Frame::Hello(_) => return Err(ProtocolError::SecondHello.into()),
            Frame::Credit { bytes, .. } => {
                self.credit
                    .add(bytes)
                    .map_err(|_overrun| ProtocolError::CreditOverflow)?;
            }
            Frame::Ping(opaque) => self.put(&Frame::Pong(opaque)),
            Frame::Pong(opaque) => self.liveness.on_pong(now, opaque),
            Frame::Drain { answer: true, .. } => {
                self.drain.promised = true;
                self.close_when_drained();
            }
            Frame::Drain {
                answer: false,
                deadline_ms,
            } => {
                let deadline = Duration::from_millis(u64::from(deadline_ms));
                if !std::mem::replace(&mut self.drain.theirs, true) {
                    self.events.push_back(Event::Draining(deadline));
                }
                self.put(&Frame::Drain {
                    answer: true,
                    deadline_ms,
                });
            }
            Frame::Close { code, text } => {
                return Err(EndReason::ClosedByPeer(CloseReason::new(code, text)));
            }
            Frame::Open { .. }
            | Frame::Accept { .. }
            | Frame::Reject { .. }
            | Frame::Data { .. }
            | Frame::Fin { .. }
            | Frame::Done { .. }
            | Frame::Reset { .. }
            | Frame::Datagram { .. } => {}
        }
        Ok(())
    }

    fn handle_stream<'a>(
        &mut self,
        now: Instant,
        id: StreamId,
        frame: Frame<'a>,
    ) -> Result<Option<(StreamId, &'a [u8])>, EndReason> {
        if let Frame::Data { payload, .. } = frame {
            return self.on_data(now, id, payload);
        }
        if let Frame::Open { open, .. } = frame {
            return self.on_open(id, open).map(|()| None);
        }
        match self.streams.get(&id) {
            Some(stream) => {
                stream.check(frame.kind(), id)?;
                self.handle_known_stream(id, frame)?;
            }
            None => self.check_late(id, frame.kind())?,
        }
        Ok(None)
    }

    /// Handles a frame that fits the state of its stream.
    fn handle_known_stream(&mut self, id: StreamId, frame: Frame<'_>) -> Result<(), EndReason> {
        let Some(stream) = self.streams.get_mut(&id) else {
            return Ok(());
        };
        match frame {
            Frame::Accept { detail, .. } => {
                stream.phase = Phase::Open;
                self.events.push_back(Event::Accepted {
                    stream: id,
                    detail: detail.to_owned(),
                });
            }
            Frame::Reject { code, text, .. } => {
                self.events.push_back(Event::Rejected {
                    stream: id,
                    code,
                    text: text.to_owned(),
                });
                self.remove(id);
                self.close_when_drained();
            }
            Frame::Fin { .. } => {
                stream.fin_received = true;
                self.events.push_back(Event::Finished(id));
            }
            Frame::Done { .. } => {
                stream.done_received = true;
                self.settle(id);
            }
            Frame::Reset { code, .. } => self.end_stream(id, StreamEnd::ResetByPeer(code)),
            Frame::Credit { bytes, .. } => {
                stream
                    .credit
                    .add(bytes)
                    .map_err(|_overrun| ProtocolError::CreditOverflow)?;
                self.tell_writable(id);
            }
            Frame::Datagram { payload, .. } => {
                self.events.push_back(Event::Datagram {
                    stream: id,
                    payload: payload.to_vec(),
                });
            }
            Frame::Hello(_)
            | Frame::Open { .. }
            | Frame::Data { .. }
            | Frame::Ping(_)
            | Frame::Pong(_)
            | Frame::Drain { .. }
            | Frame::Close { .. } => {}
        }
        Ok(())
    }

    fn on_data<'a>(
        &mut self,
        now: Instant,
        id: StreamId,
        payload: &'a [u8],
    ) -> Result<Option<(StreamId, &'a [u8])>, EndReason> {
        self.on_session_bytes(payload.len())?;
        let Some(stream) = self.streams.get_mut(&id) else {
            self.check_late(id, Kind::Data)?;
            return Ok(None);
        };
        stream.check(Kind::Data, id)?;
        let arrived = stream.window.on_arrived(now, payload.len());
        arrived.map_err(|_overrun| ProtocolError::StreamOverrun(id))?;
        Ok(Some((id, payload)))
    }

    /// Every byte of DATA counts for the session, also one for a stream that is over here.
    fn on_session_bytes(&mut self, len: usize) -> Result<(), EndReason> {
        let grant = self
            .window
            .on_arrived(len)
            .map_err(|_overrun| ProtocolError::SessionOverrun)?;
        self.bytes_in += count(len);
        if let Some(bytes) = grant {
            self.put(&Frame::Credit {
                stream: None,
                bytes,
            });
        }
        Ok(())
    }

    fn on_open(&mut self, id: StreamId, open: Open) -> Result<(), EndReason> {
        if self.is_own(id) || id.get() <= self.last_theirs {
            return Err(ProtocolError::BadStreamId(id).into());
        }
        if self.drain.promised {
            return Err(ProtocolError::OpenAfterDrain(id).into());
        }
        self.last_theirs = id.get();
        if self.drain.ours.is_some() {
            let (code, text) = (reject_code::DRAINING, "this side takes no more streams");
            self.put(&Frame::Reject {
                stream: id,
                code,
                text,
            });
            return Ok(());
        }
        let full = self.theirs_open >= self.config.max_streams;
        if full || self.theirs_pending >= self.config.max_pending {
            let (code, text) = (reject_code::TOO_MANY_STREAMS, "too many streams");
            self.put(&Frame::Reject {
                stream: id,
                code,
                text,
            });
            return Ok(());
        }
        self.theirs_open += 1;
        self.theirs_pending += 1;
        let window = self.peer.as_ref().map_or(0, |peer| peer.stream_window);
        self.streams
            .insert(id, Stream::new(Phase::Offered, &self.config, window));
        self.events.push_back(Event::Opened { stream: id, open });
        Ok(())
    }

    /// Frames may be under way to a stream that is over here; none can be for one that never was.
    fn check_late(&self, id: StreamId, kind: Kind) -> Result<(), ProtocolError> {
        let opened = if self.is_own(id) {
            self.next_own.is_none_or(|next| id < next)
        } else {
            id.get() <= self.last_theirs
        };
        if opened {
            Ok(())
        } else {
            Err(ProtocolError::NeverOpened { kind, stream: id })
        }
    }
}
