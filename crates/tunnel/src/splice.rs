//! Joins a stream with a connection: copies both ways and keeps half-closes.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use strait_tunnel_proto::{EndReason, reset_code};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use crate::{
    end::{Lost, StreamReset},
    stream::Stream,
};

/// How a splice went.
#[derive(Debug)]
pub struct Spliced {
    /// Bytes from the connection into the stream.
    pub sent: u64,
    /// Bytes from the stream into the connection.
    pub received: u64,
    /// Why it ended.
    pub end: SpliceEnd,
}

/// Why a splice ended.
#[derive(Debug)]
pub enum SpliceEnd {
    /// Both directions were finished, and everything arrived.
    Complete,
    /// The stream was cut.
    Reset(StreamReset),
    /// The session ended.
    Lost(EndReason),
    /// The connection broke, and the stream was cut because of it.
    Io(io::Error),
}

/// Copies between a stream and a connection until both directions are finished or one breaks.
pub async fn splice<IO>(stream: Stream, io: IO) -> Spliced
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let (mut stream, mut io) = (stream, io);
    let (mut up, mut down) = (Copy::default(), Copy::default());
    let end = poll_fn(|cx| {
        let sent = up.poll(cx, &mut io, &mut stream);
        let received = down.poll(cx, &mut stream, &mut io);
        match (sent, received) {
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => Poll::Ready(SpliceEnd::Complete),
            (Poll::Ready(Err(error)), _) | (_, Poll::Ready(Err(error))) => {
                Poll::Ready(SpliceEnd::from(error))
            }
            (Poll::Pending, _) | (_, Poll::Pending) => Poll::Pending,
        }
    })
    .await;
    if matches!(end, SpliceEnd::Io(_)) {
        stream.reset(reset_code::IO);
    }
    Spliced {
        sent: up.total,
        received: down.total,
        end,
    }
}

/// [`splice`] for a TCP connection.
pub async fn splice_tcp(stream: Stream, io: TcpStream) -> Spliced {
    splice(stream, io).await
}

#[derive(Default)]
struct Copy {
    buffer: Vec<u8>,
    done: usize,
    eof: bool,
    shut: bool,
    total: u64,
}

// === impl Copy ===

impl Copy {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<io::Result<()>> {
        while !self.shut {
            if self.done < self.buffer.len() {
                let rest = self.buffer.get(self.done..).unwrap_or_default();
                let written = ready!(Pin::new(&mut *to).poll_write(cx, rest))?;
                if written == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                self.done += written;
                self.total += u64::try_from(written).unwrap_or(u64::MAX);
            } else if self.eof {
                ready!(Pin::new(&mut *to).poll_shutdown(cx))?;
                self.shut = true;
            } else {
                self.buffer.resize(16 << 10, 0);
                let mut read = ReadBuf::new(&mut self.buffer);
                let poll = Pin::new(&mut *from).poll_read(cx, &mut read);
                let len = read.filled().len();
                self.buffer.truncate(len);
                self.done = 0;
                if poll.is_pending() {
                    self.buffer.clear();
                    return Pin::new(&mut *to)
                        .poll_flush(cx)
                        .map_ok(|()| ())
                        .and_pending();
                }
                ready!(poll)?;
                self.eof = len == 0;
            }
        }
        Poll::Ready(Ok(()))
    }
}

trait AndPending {
    fn and_pending(self) -> Self;
}

impl AndPending for Poll<io::Result<()>> {
    /// A flush that is done does not end the copy.
    fn and_pending(self) -> Self {
        match self {
            Self::Ready(Ok(())) => Self::Pending,
            other => other,
        }
    }
}

// === impl SpliceEnd ===

impl From<io::Error> for SpliceEnd {
    fn from(error: io::Error) -> Self {
        let inner = error.get_ref();
        if let Some(reset) = inner.and_then(|inner| inner.downcast_ref::<StreamReset>()) {
            return Self::Reset(*reset);
        }
        match inner.and_then(|inner| inner.downcast_ref::<Lost>()) {
            Some(Lost::Session(reason)) => Self::Lost(reason.clone()),
            Some(Lost::Cancelled) | None => Self::Io(error),
        }
    }
}
