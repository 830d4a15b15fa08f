//! The streams that the peer asks for.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Poll, Waker},
};

use strait_tunnel_proto::{EndReason, Open, StreamId, reject_code};
use strait_types::RefusalCode;

use crate::{end::Lost, shared::Shared, stream::Stream};

/// The peer's requests for streams, in the order in which they came. When it is dropped, requests
/// are refused as if the session were draining.
#[derive(Debug)]
pub struct Incoming {
    shared: Arc<Shared>,
}

/// The peer asks for a stream. Dropped without an answer it is refused as an internal error.
#[derive(Debug)]
#[must_use = "a request that is dropped is refused"]
pub struct Request {
    shared: Arc<Shared>,
    id: StreamId,
    open: Open,
    answered: bool,
}

// === impl Incoming ===

impl Incoming {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Waits for the next request; `None` once the session is over. Cancel-safe.
    pub async fn next(&mut self) -> Option<Request> {
        let shared = &self.shared;
        let next = poll_fn(|cx| {
            shared.with(|state| match state.inbox.requests.pop_first() {
                Some(request) => Poll::Ready(Some(request)),
                None if state.end.is_some() => Poll::Ready(None),
                None => {
                    state.inbox.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            })
        });
        let (id, open) = next.await?;
        Some(Request {
            shared: Arc::clone(shared),
            id,
            open,
            answered: false,
        })
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.shared.with(|state| {
            state.inbox.open = false;
            for (id, _) in std::mem::take(&mut state.inbox.requests) {
                state
                    .proto
                    .reject(id, reject_code::DRAINING, "this side takes no streams");
                state.entries.remove(&id);
            }
        });
    }
}

// === impl Request ===

impl Request {
    /// What the peer asks for.
    #[must_use]
    pub fn open(&self) -> &Open {
        &self.open
    }

    /// Grants the stream. `detail` tells the opener about the target; it is cut at 4096 bytes.
    ///
    /// # Errors
    ///
    /// The opener gave up, or the session is over.
    pub fn accept(mut self, detail: &str) -> Result<Stream, Lost> {
        self.shared
            .with(|state| match state.proto.accept(self.id, detail) {
                Ok(()) => Ok(()),
                Err(_gone) => Err(lost(state.end.as_ref())),
            })?;
        self.answered = true;
        Ok(Stream::new(Arc::clone(&self.shared), self.id))
    }

    /// Refuses the stream. `text` is cut at 4096 bytes.
    pub fn reject(mut self, code: u16, text: &str) {
        self.answer_no(code, text);
    }

    /// Waits until nobody wants an answer any more: the opener gave up, or the session is over.
    pub async fn cancelled(&self) {
        poll_fn(|cx| self.poll_cancelled(cx.waker())).await;
    }

    fn poll_cancelled(&self, waker: &Waker) -> Poll<()> {
        self.shared.with(|state| {
            let over = state.end.is_some();
            match state.entries.get_mut(&self.id) {
                Some(entry) if entry.end.is_none() && !over => {
                    entry.reader = Some(waker.clone());
                    Poll::Pending
                }
                Some(_) | None => Poll::Ready(()),
            }
        })
    }

    fn answer_no(&mut self, code: u16, text: &str) {
        self.answered = true;
        self.shared.with(|state| {
            state.proto.reject(self.id, code, text);
            state.entries.remove(&self.id);
        });
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if !self.answered {
            self.answer_no(RefusalCode::Internal.wire(), "the request was not answered");
        }
    }
}

fn lost(end: Option<&EndReason>) -> Lost {
    end.map_or(Lost::Cancelled, |reason| Lost::Session(reason.clone()))
}
