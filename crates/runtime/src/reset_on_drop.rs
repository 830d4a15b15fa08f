//! A TCP connection whose early end is seen as such.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// A TCP connection that is reset when it is dropped before its writing side was shut down. A FIN
/// would tell the peer that it has got everything.
#[derive(Debug)]
pub struct ResetOnDrop {
    tcp: TcpStream,
    finished: bool,
}

// === impl ResetOnDrop ===

impl ResetOnDrop {
    /// Resets `tcp` unless everything was written.
    #[must_use]
    pub fn new(tcp: TcpStream) -> Self {
        Self {
            tcp,
            finished: false,
        }
    }
}

impl AsyncRead for ResetOnDrop {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().tcp).poll_read(cx, buf)
    }
}

impl AsyncWrite for ResetOnDrop {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().tcp).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().tcp).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().tcp).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let shut = Pin::new(&mut this.tcp).poll_shutdown(cx);
        this.finished |= matches!(shut, Poll::Ready(Ok(())));
        shut
    }
}

impl Drop for ResetOnDrop {
    fn drop(&mut self) {
        if !self.finished {
            // A connection that is gone already needs no reset.
            let _ = self.tcp.set_zero_linger();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    #[tokio::test]
    async fn the_peer_sees_whether_it_got_everything() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        for finished in [true, false] {
            let (tcp, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
            let (mut near, mut far) = (ResetOnDrop::new(tcp.unwrap()), accepted.unwrap().0);
            near.write_all(b"all?").await.unwrap();
            if finished {
                near.shutdown().await.unwrap();
            }
            drop(near);
            let mut heard = vec![];
            let end = far.read_to_end(&mut heard).await;
            assert_eq!(end.is_ok(), finished, "{end:?}");
        }
    }
}
