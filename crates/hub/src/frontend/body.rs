//! Bodies of answers: those of the hub, and those of services, which are watched to their end.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::future::BoxFuture;
use http_body_util::Full;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use strait_types::RefusalCode;
use thiserror::Error;

use super::service_connection::Exchange;
use crate::audit::End;

/// The body of an answer.
#[derive(Debug)]
pub(crate) struct Body(Kind);

#[derive(Debug)]
enum Kind {
    Whole(Full<Bytes>),
    Service(Box<Service>),
}

/// The body of a request to a service.
#[derive(Debug)]
pub(super) enum RequestBody {
    /// What the caller sends, and where it is noted that all of it was.
    Caller(Incoming, Sent),
    /// Nothing.
    Nothing,
}

/// Whether all of a request's body was sent.
#[derive(Clone, Debug)]
pub(super) struct Sent(Arc<AtomicBool>);

/// A service's answer under way.
struct Service {
    body: Incoming,
    cut: BoxFuture<'static, RefusalCode>,
    exchange: Option<Exchange>,
}

/// Why a service's answer is not complete.
#[derive(Debug, Error)]
pub(crate) enum BodyError {
    /// The service went away.
    #[error("the service's answer broke off")]
    Service(#[source] hyper::Error),
    /// The hub cut it.
    #[error("the stream was cut: {0}")]
    Cut(RefusalCode),
}

// === impl Body ===

impl Body {
    /// One of the hub's own answers.
    pub(super) fn whole(bytes: Full<Bytes>) -> Self {
        Self(Kind::Whole(bytes))
    }

    /// Nothing.
    pub(super) fn empty() -> Self {
        Self(Kind::Whole(Full::default()))
    }

    /// A service's answer, whose end ends the exchange.
    pub(super) fn service(body: Incoming, exchange: Exchange) -> Self {
        let cut = exchange.cut();
        let cut = Box::pin(async move { cut.wait().await });
        Self(Kind::Service(Box::new(Service {
            body,
            cut,
            exchange: Some(exchange),
        })))
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.0 {
            Kind::Whole(bytes) => Pin::new(bytes)
                .poll_frame(cx)
                .map_err(|never| match never {}),
            Kind::Service(service) => service.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Whole(bytes) => bytes.is_end_stream(),
            Kind::Service(service) => service.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(bytes) => bytes.size_hint(),
            Kind::Service(service) => service.body.size_hint(),
        }
    }
}

// === impl RequestBody ===

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut *self {
            Self::Caller(body, sent) => {
                let frame = Pin::new(&mut *body).poll_frame(cx);
                if matches!(frame, Poll::Ready(None)) || body.is_end_stream() {
                    sent.note();
                }
                frame
            }
            Self::Nothing => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Caller(body, _) => body.is_end_stream(),
            Self::Nothing => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Caller(body, _) => body.size_hint(),
            Self::Nothing => SizeHint::with_exact(0),
        }
    }
}

// === impl Sent ===

impl Sent {
    /// Of this body, nothing having been sent yet.
    pub(super) fn of(body: &Incoming) -> Self {
        Self(Arc::new(AtomicBool::new(body.is_end_stream())))
    }

    fn note(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether all of it was sent.
    pub(super) fn is_all(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

// === impl Service ===

impl Service {
    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.exchange.is_some()
            && let Poll::Ready(code) = self.cut.as_mut().poll(cx)
        {
            self.finish(End::Cut(code));
            return Poll::Ready(Some(Err(BodyError::Cut(code))));
        }
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(cx));
        Poll::Ready(match frame {
            None => {
                self.finish(End::Complete);
                None
            }
            Some(Ok(frame)) => Some(Ok(frame)),
            Some(Err(error)) => {
                self.finish(End::TargetGone);
                Some(Err(BodyError::Service(error)))
            }
        })
    }

    fn finish(&mut self, end: End) {
        if let Some(exchange) = self.exchange.take() {
            exchange.finish(&end);
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let cut = self.exchange.as_ref().and_then(|e| e.cut().reason());
        self.finish(match cut {
            Some(code) => End::Cut(code),
            None if self.body.is_end_stream() => End::Complete,
            None => End::CallerGone,
        });
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service")
            .field("exchange", &self.exchange)
            .finish_non_exhaustive()
    }
}
