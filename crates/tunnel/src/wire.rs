//! The carrier, and who waits for it.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, Waker, ready},
};

use strait_tunnel_proto as proto;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};

use crate::carrier::Carrier;

/// The carrier of a session. Whoever has something to send writes to it; only the driver waits
/// for it, whatever task it was that found it full.
pub(crate) struct Wire {
    /// `None` once it broke or was given up; nobody reads or writes any more.
    carrier: Option<Box<dyn Carrier>>,
    /// The carrier took nothing more. The driver is woken when it does.
    blocked: bool,
    /// Something was written since the last flush.
    unflushed: bool,
    driver: Waker,
}

// === impl Wire ===

impl Wire {
    pub(crate) fn new(carrier: Box<dyn Carrier>) -> Self {
        Self {
            carrier: Some(carrier),
            blocked: false,
            unflushed: false,
            driver: Waker::noop().clone(),
        }
    }

    /// Says which task waits for the carrier, and lets it try again.
    pub(crate) fn attend(&mut self, driver: &Waker) {
        self.blocked = false;
        self.driver.clone_from(driver);
    }

    /// The task that waits for the carrier.
    pub(crate) fn driver(&self) -> &Waker {
        &self.driver
    }

    /// Sends what the session has, as far as the carrier takes it.
    pub(crate) fn send(&mut self, session: &mut proto::Session) {
        while let Some(carrier) = self.carrier.as_mut().filter(|_| !self.blocked) {
            let mut cx = Context::from_waker(&self.driver);
            let poll = match (session.poll_transmit(), self.unflushed) {
                ([], false) => return,
                ([], true) => Pin::new(carrier).poll_flush(&mut cx).map_ok(|()| None),
                (bytes, _) => Pin::new(carrier).poll_write(&mut cx, bytes).map_ok(Some),
            };
            match poll {
                Poll::Pending => self.blocked = true,
                Poll::Ready(Ok(None)) => self.unflushed = false,
                Poll::Ready(Ok(Some(0))) => self.fail(session, &io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(Some(written))) => {
                    session.transmitted(written);
                    self.unflushed = true;
                }
                Poll::Ready(Err(error)) => self.fail(session, &error),
            }
        }
    }

    /// Reads what the carrier has. The driver is woken when it has nothing now.
    pub(crate) fn receive(
        &mut self,
        session: &mut proto::Session,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<()> {
        let Some(carrier) = self.carrier.as_mut() else {
            return Poll::Pending;
        };
        let before = buffer.filled().len();
        let mut cx = Context::from_waker(&self.driver);
        match ready!(Pin::new(carrier).poll_read(&mut cx, buffer)) {
            Ok(()) if buffer.filled().len() == before => {
                self.fail(session, &io::ErrorKind::UnexpectedEof.into());
            }
            Ok(()) => {}
            Err(error) => self.fail(session, &error),
        }
        Poll::Ready(())
    }

    /// Ends the carrier in good order once everything was sent.
    pub(crate) fn shut_down(&mut self, session: &mut proto::Session) -> Poll<()> {
        self.send(session);
        let Some(carrier) = self.carrier.as_mut() else {
            return Poll::Ready(());
        };
        if self.blocked {
            return Poll::Pending;
        }
        let mut cx = Context::from_waker(&self.driver);
        Pin::new(carrier).poll_shutdown(&mut cx).map(|_result| ())
    }

    /// Takes the carrier away, to be dropped: the peer notices, whoever else holds the session.
    pub(crate) fn give_up(&mut self) -> Option<Box<dyn Carrier>> {
        self.carrier.take()
    }

    fn fail(&mut self, session: &mut proto::Session, error: &io::Error) {
        self.carrier = None;
        session.handle_disconnect(error.to_string());
    }
}
