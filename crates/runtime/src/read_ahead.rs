//! Reads in large steps for a reader that takes small ones.

use std::{
    cell::RefCell,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How much is read at a time. TLS takes about 4 KiB at a time from its transport, so this saves
/// fifteen of sixteen system calls when much comes.
const STEP: usize = 64 << 10;

thread_local! {
    /// Where bytes arrive first. One for each thread: a connection that waits holds no memory.
    static ARRIVALS: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A transport that is read in large steps; writing passes through.
#[derive(Debug)]
pub struct ReadAhead<IO> {
    io: IO,
    ahead: Vec<u8>,
    taken: usize,
}

// === impl ReadAhead ===

impl<IO> ReadAhead<IO> {
    /// Reads `io` in large steps from here on.
    pub fn new(io: IO) -> Self {
        Self {
            io,
            ahead: Vec::new(),
            taken: 0,
        }
    }

    /// The transport. What was read ahead is not in it any more.
    pub fn get_ref(&self) -> &IO {
        &self.io
    }

    /// Gives what was read ahead; whether there was any.
    fn give(&mut self, buf: &mut ReadBuf<'_>) -> bool {
        let rest = self.ahead.get(self.taken..).unwrap_or_default();
        if rest.is_empty() {
            return false;
        }
        let len = rest.len().min(buf.remaining());
        buf.put_slice(rest.get(..len).unwrap_or_default());
        self.taken += len;
        if self.taken == self.ahead.len() {
            self.ahead = Vec::new();
            self.taken = 0;
        }
        true
    }
}

impl<IO: AsyncRead + Unpin> ReadAhead<IO> {
    /// Reads a step, by way of `arrivals`.
    fn read_on(
        &mut self,
        cx: &mut Context<'_>,
        arrivals: &mut Vec<u8>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        arrivals.resize(STEP, 0);
        let mut read = ReadBuf::new(arrivals);
        ready!(Pin::new(&mut self.io).poll_read(cx, &mut read))?;
        let (now, later) = read
            .filled()
            .split_at(read.filled().len().min(buf.remaining()));
        buf.put_slice(now);
        if !later.is_empty() {
            self.ahead = later.to_vec();
        }
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for ReadAhead<IO> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.give(buf) {
            return Poll::Ready(Ok(()));
        }
        if buf.remaining() >= STEP {
            return Pin::new(&mut this.io).poll_read(cx, buf);
        }
        // Taken and not borrowed: the transport may be read in large steps itself.
        let mut arrivals = ARRIVALS.take();
        let polled = this.read_on(cx, &mut arrivals, buf);
        ARRIVALS.set(arrivals);
        polled
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for ReadAhead<IO> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn one_may_read_ahead_of_another() {
        let (mut near, far) = tokio::io::duplex(1 << 10);
        let mut far = ReadAhead::new(ReadAhead::new(far));
        near.write_all(b"ahead of itself").await.unwrap();
        let mut heard = [0; 15];
        far.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"ahead of itself");
    }

    #[tokio::test]
    async fn nothing_is_lost_or_turned_around_whatever_the_steps_are() {
        let (mut near, far) = tokio::io::duplex(200_000);
        let mut far = ReadAhead::new(far);
        let sent: Vec<u8> = (0..150_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        near.write_all(&sent).await.unwrap();
        near.shutdown().await.unwrap();
        let mut heard = vec![];
        for step in [1, 4096, 5, 70_000, 3, 4096].into_iter().cycle() {
            let mut some = vec![0; step];
            let len = far.read(&mut some).await.unwrap();
            heard.extend_from_slice(&some[..len]);
            if len == 0 {
                break;
            }
        }
        assert!(heard == sent);
        assert_eq!(far.ahead.capacity(), 0, "who waits holds no memory");
    }

    #[tokio::test]
    async fn what_is_written_goes_straight_through() {
        let (near, mut far) = tokio::io::duplex(64);
        let mut near = ReadAhead::new(near);
        near.write_all(b"hello").await.unwrap();
        let mut heard = [0; 5];
        far.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"hello");
    }
}
