//! HTTP/1.1 towards a service, through a stream of a session.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{Request, Response};
use hyper::{
    body::Incoming,
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use strait_runtime::Tasks;
use strait_tunnel::Resetter;
use strait_types::PortChoice;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::body::{RequestBody, Sent};
use crate::{
    audit::{AuditLine, End, Meter},
    live::{Cut, Place},
    snapshot::Destination,
    upstream::Transport,
};

/// What a connection leads to; another request may use it when all of this is the same.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Way {
    pub(super) destination: Arc<Destination>,
    pub(super) port: PortChoice,
}

/// A connection to a service, for one request after another of one caller's connection.
#[derive(Debug)]
pub(super) struct ServiceConnection {
    way: Way,
    sender: SendRequest<RequestBody>,
    kill: CancellationToken,
    stream: Resetter,
    meter: Meter,
}

/// The connection that the next request of a caller's connection may use.
#[derive(Debug, Default)]
pub(super) struct Idle(Mutex<Option<ServiceConnection>>);

/// One request and its answer: authorised, counted and audited by itself.
#[derive(Debug)]
pub(super) struct Exchange {
    place: Place,
    audit: AuditLine,
    kill: CancellationToken,
    sent: Sent,
    /// Cancelled when it is over.
    over: CancellationToken,
    _ends: DropGuard,
}

/// Why a request was not answered.
pub(super) enum Unsent {
    /// It never left: the connection was closed before. It may be sent on another one.
    Untouched(Box<Request<RequestBody>>),
    /// It left, or a part of it.
    Failed(hyper::Error),
}

/// A stream whose bytes and whose end are noted.
#[derive(Debug)]
pub(super) struct Metered<S> {
    inner: S,
    meter: Meter,
}

// === impl ServiceConnection ===

impl ServiceConnection {
    /// Starts HTTP on a stream. The connection's task belongs to `tasks`.
    pub(super) async fn start(
        way: Way,
        (transport, stream, meter): (Box<dyn Transport>, Resetter, Meter),
        head_bytes: usize,
        tasks: &Tasks,
    ) -> hyper::Result<Self> {
        let (sender, connection) = http1::Builder::new()
            .max_header_size(head_bytes)
            .max_buf_size(head_bytes.max(16 << 10))
            .handshake(TokioIo::new(transport))
            .await?;
        let kill = CancellationToken::new();
        let killed = kill.clone();
        tasks.spawn_one(async move {
            tokio::select! {
                biased;
                () = killed.cancelled() => {}
                ended = connection.with_upgrades() => if let Err(error) = ended {
                    tracing::debug!(%error, "a connection to a service ended");
                },
            }
        });
        Ok(Self {
            way,
            sender,
            kill,
            stream,
            meter,
        })
    }

    /// Sends a request and waits for the head of the answer.
    pub(super) async fn send(
        &mut self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, Unsent> {
        // Waits for the end of the exchange before. When that broke off this says so at once.
        if self.sender.ready().await.is_err() {
            return Err(Unsent::Untouched(Box::new(request)));
        }
        self.sender
            .try_send_request(request)
            .await
            .map_err(|mut error| match error.take_message() {
                Some(request) => Unsent::Untouched(Box::new(request)),
                None => Unsent::Failed(error.into_error()),
            })
    }

    /// Starts the account of one exchange on this connection.
    pub(super) fn exchange(&self, place: Place, audit: AuditLine, sent: Sent) -> Exchange {
        let over = CancellationToken::new();
        Exchange {
            sent,
            _ends: over.clone().drop_guard(),
            over,
            place,
            audit,
            kill: self.kill.clone(),
        }
    }

    /// Where its bytes are counted.
    pub(super) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// The stream that carries it.
    pub(super) fn stream(&self) -> &Resetter {
        &self.stream
    }

    /// Ends the connection whatever it is doing.
    pub(super) fn kill(&self) {
        self.kill.cancel();
    }
}

// === impl Idle ===

impl Idle {
    /// The connection, if it leads there. Another one is closed.
    pub(super) fn take(&self, way: &Way) -> Option<ServiceConnection> {
        let taken = self.0.lock().take();
        taken.filter(|connection| connection.way == *way && !connection.sender.is_closed())
    }

    /// Keeps a connection whose answer may still be under way.
    pub(super) fn put(&self, connection: ServiceConnection) {
        *self.0.lock() = Some(connection);
    }
}

// === impl Exchange ===

impl Exchange {
    /// Says when the exchange has to end.
    pub(super) fn cut(&self) -> Cut {
        self.place.cut().clone()
    }

    /// Ends the connection when the exchange has to end, and then calls `abort`. For who does not
    /// look at the answer any more.
    pub(super) fn watch(&self, abort: CancellationToken) -> impl Future<Output = ()> + use<> {
        let (cut, kill) = (self.cut(), self.kill.clone());
        let over = self.over.clone();
        async move {
            tokio::select! {
                () = over.cancelled() => {}
                _ = cut.wait() => {
                    kill.cancel();
                    abort.cancel();
                }
            }
        }
    }

    /// Ends the exchange, and the connection unless the exchange is complete: an answer that came
    /// before the request was sent ends the rest of it.
    pub(super) fn finish(self, end: &End) {
        if *end != End::Complete || !self.sent.is_all() {
            self.kill.cancel();
        }
        let bytes = self.audit.bytes();
        self.audit.ended(bytes, end);
    }
}

// === impl Metered ===

impl<S> Metered<S> {
    /// Counts the bytes of this stream from now on.
    pub(super) fn new(inner: S, meter: Meter) -> Self {
        Self { inner, meter }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buf);
        let count = buf.filled().len() - before;
        self.meter.received(count);
        let room = count + buf.remaining() > 0;
        if matches!(polled, Poll::Ready(Err(_))) || (polled.is_ready() && room && count == 0) {
            self.meter.service_ended();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(cx, bytes);
        match &polled {
            Poll::Ready(Ok(count)) => self.meter.sent(*count),
            Poll::Ready(Err(_)) => self.meter.service_ended(),
            Poll::Pending => {}
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
