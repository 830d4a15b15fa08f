//! One stream: reads and writes like a TCP connection.

use std::{
    collections::VecDeque,
    future::poll_fn,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use strait_tunnel_proto::{StreamEnd, StreamId, WriteError, reset_code};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::{
    end::{Lost, StreamReset},
    shared::{Entry, Shared, State, now},
};

/// One stream of a session.
///
/// `shutdown` finishes this side's direction and leaves the other one open. A stream that is
/// dropped before both directions are finished and everything was read is cut at the peer.
/// Errors of kind `ConnectionReset` hold a [`StreamReset`], those of kind `ConnectionAborted` a
/// [`Lost`].
#[derive(Debug)]
pub struct Stream {
    shared: Arc<Shared>,
    id: StreamId,
}

/// Cuts a stream from elsewhere. It does not keep the stream open.
#[derive(Clone, Debug)]
pub struct Resetter {
    shared: Arc<Shared>,
    id: StreamId,
}

// === impl Stream ===

impl Stream {
    pub(crate) fn new(shared: Arc<Shared>, id: StreamId) -> Self {
        Self { shared, id }
    }

    /// Cuts the stream in both directions. The codes in [`reset_code`] have a meaning already.
    pub fn reset(&self, code: u16) {
        self.shared.with(|state| state.proto.reset(self.id, code));
    }

    /// A handle that cuts the stream from elsewhere.
    #[must_use]
    pub fn resetter(&self) -> Resetter {
        Resetter {
            shared: Arc::clone(&self.shared),
            id: self.id,
        }
    }

    /// Takes what arrived, at most so many bytes; none once the peer has finished. What is taken
    /// moves without being copied when it is everything.
    pub(crate) fn poll_take(
        &self,
        cx: &mut Context<'_>,
        most: usize,
    ) -> Poll<io::Result<VecDeque<u8>>> {
        let mut taken = VecDeque::new();
        let polled = self.poll(|state, id| {
            poll_arrived(state, id, cx, |entry| {
                taken = entry.take_all(most);
                taken.len()
            })
        });
        polled.map_ok(|()| taken)
    }

    /// Ready when the stream was cut or the session is over, and nothing that came as a whole is
    /// left to be read: that is so until it was `delivered`.
    pub(crate) fn poll_broken(&self, cx: &mut Context<'_>, delivered: bool) -> Poll<io::Error> {
        self.poll(|state, id| poll_broken(state, id, cx, delivered))
    }

    /// Ready once both sides have said everything and read everything; an error when the stream
    /// ends otherwise. For who has done both on this side.
    pub(crate) fn poll_agreed(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(|state, id| {
            let over = state.end.is_some();
            let Some(entry) = state.entries.get_mut(&id) else {
                return Poll::Ready(Err(gone(state)));
            };
            match entry.end {
                Some(StreamEnd::Complete) => Poll::Ready(Ok(())),
                None if !over => {
                    entry.watcher = Some(cx.waker().clone());
                    Poll::Pending
                }
                _ => Poll::Ready(Err(gone_with(state, id))),
            }
        })
    }

    /// Whether everything that the peer has to say has arrived.
    pub(crate) fn has_arrived(&self) -> bool {
        self.shared
            .with(|state| state.entries.get(&self.id).is_some_and(|entry| entry.fin))
    }

    fn poll<R>(&self, step: impl FnOnce(&mut State, StreamId) -> Poll<R>) -> Poll<R> {
        self.shared.with(|state| step(state, self.id))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll(|state, id| poll_arrived(state, id, cx, |entry| entry.take(buf)))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll(|state, id| match state.proto.write(id, bytes) {
            Ok(0) if !bytes.is_empty() => {
                if let Some(entry) = state.entries.get_mut(&id) {
                    entry.writer = Some(cx.waker().clone());
                }
                Poll::Pending
            }
            Ok(taken) => Poll::Ready(Ok(taken)),
            Err(WriteError::Finished) => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            Err(WriteError::Gone) => Poll::Ready(Err(gone_with(state, id))),
        })
    }

    /// Ready at once: a frame is sent as soon as the carrier takes it, without being asked to.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(|state, id| {
            state.proto.finish(id);
            if let Some(entry) = state.entries.get_mut(&id) {
                entry.finished = true;
            }
            Poll::Ready(Ok(()))
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shared.with(|state| {
            let Some(entry) = state.entries.remove(&self.id) else {
                return;
            };
            if entry.fin && entry.queue.is_empty() {
                state.proto.end_read(self.id);
            }
            if !(entry.finished && entry.fin && entry.queue.is_empty()) {
                state.proto.reset(self.id, reset_code::DROPPED);
            }
        });
    }
}

/// Lets `take` take of what arrived, and gives the peer credit for it. Ready without having asked
/// `take` once everything was taken and the peer has finished.
fn poll_arrived(
    state: &mut State,
    id: StreamId,
    cx: &mut Context<'_>,
    take: impl FnOnce(&mut Entry) -> usize,
) -> Poll<io::Result<()>> {
    let Some(entry) = state.entries.get_mut(&id) else {
        return Poll::Ready(Err(gone(state)));
    };
    if !entry.queue.is_empty() {
        let taken = take(entry);
        state.proto.read(now(), id, taken);
        return Poll::Ready(Ok(()));
    }
    if entry.fin {
        entry.read_to_end = true;
        state.proto.end_read(id);
        return Poll::Ready(Ok(()));
    }
    if entry.end.is_some() || state.end.is_some() {
        return Poll::Ready(Err(gone_with(state, id)));
    }
    entry.reader = Some(cx.waker().clone());
    Poll::Pending
}

/// See [`Stream::poll_broken`].
fn poll_broken(
    state: &mut State,
    id: StreamId,
    cx: &mut Context<'_>,
    delivered: bool,
) -> Poll<io::Error> {
    let over = state.end.is_some();
    let Some(entry) = state.entries.get_mut(&id) else {
        return Poll::Ready(gone(state));
    };
    let cut = match entry.end {
        Some(StreamEnd::Reset(_)) => true,
        Some(StreamEnd::ResetByPeer(_)) => delivered || !entry.fin,
        Some(StreamEnd::Complete) => false,
        None => over && (delivered || !entry.fin),
    };
    if cut {
        return Poll::Ready(gone_with(state, id));
    }
    entry.watcher = Some(cx.waker().clone());
    Poll::Pending
}

// === impl Resetter ===

impl Resetter {
    /// Waits until the stream was cut, or the session is over, and nothing that came as a whole is
    /// left to be read. One may wait at a time, and none beside a splice.
    pub async fn broken(&self) {
        let _why = poll_fn(|cx| {
            self.shared
                .with(|state| poll_broken(state, self.id, cx, false))
        })
        .await;
    }

    /// Cuts the stream in both directions, unless it is over. Both its own side and the peer see
    /// the code.
    pub fn reset(&self, code: u16) {
        self.shared.with(|state| state.proto.reset(self.id, code));
    }
}

// === impl Entry ===

impl Entry {
    /// Gives the whole queue away, or the first bytes of one that is longer than that.
    fn take_all(&mut self, most: usize) -> VecDeque<u8> {
        if self.queue.len() <= most {
            return std::mem::take(&mut self.queue);
        }
        let mut first = vec![0; most];
        let mut read = ReadBuf::new(&mut first);
        let taken = self.take(&mut read);
        first.truncate(taken);
        first.into()
    }

    /// Moves what was queued to the reader; a queue that is empty has no memory.
    fn take(&mut self, buf: &mut ReadBuf<'_>) -> usize {
        let (first, second) = self.queue.as_slices();
        let mut taken = 0;
        for part in [first, second] {
            let len = part.len().min(buf.remaining());
            buf.put_slice(part.get(..len).unwrap_or_default());
            taken += len;
        }
        self.queue.drain(..taken);
        if self.queue.is_empty() {
            self.queue = VecDeque::new();
        }
        taken
    }
}

fn gone(state: &State) -> io::Error {
    state
        .end
        .as_ref()
        .map_or(Lost::Cancelled, |reason| Lost::Session(reason.clone()))
        .into()
}

/// Why a stream takes and gives nothing any more.
fn gone_with(state: &State, id: StreamId) -> io::Error {
    match state.entries.get(&id).and_then(|entry| entry.end) {
        Some(StreamEnd::Reset(code)) => StreamReset {
            code,
            by_peer: false,
        }
        .into(),
        Some(StreamEnd::ResetByPeer(code)) => StreamReset {
            code,
            by_peer: true,
        }
        .into(),
        Some(StreamEnd::Complete) => io::ErrorKind::BrokenPipe.into(),
        None => gone(state),
    }
}
