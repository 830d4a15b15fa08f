//! Joins a stream with a connection: copies both ways and keeps half-closes.

use std::{
    cell::RefCell,
    collections::VecDeque,
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

/// How many bytes are moved at a time: several frames.
const STEP: usize = 64 << 10;

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
    /// Both directions were finished, and everything arrived: what was received has been written
    /// to the connection here, and the peer has read what was sent.
    Complete,
    /// The stream was cut.
    Reset(StreamReset),
    /// The session ended.
    Lost(EndReason),
    /// The connection broke, and the stream was cut because of it.
    Io(io::Error),
}

/// Copies between a stream and a connection until both directions are finished or one breaks.
/// While nothing moves, it holds no buffer. Dropped before, it cuts the stream and closes the
/// connection, whatever they wait for.
#[derive(Debug)]
#[must_use = "nothing is copied by itself"]
pub struct Splice<IO> {
    stream: Stream,
    io: IO,
    up: Up,
    down: Down,
}

// === impl Splice ===

impl<IO> Splice<IO> {
    /// Joins the two.
    pub fn new(stream: Stream, io: IO) -> Self {
        Self {
            stream,
            io,
            up: Up::default(),
            down: Down::default(),
        }
    }

    /// Bytes from the connection into the stream until now.
    pub fn sent(&self) -> u64 {
        self.up.total
    }

    /// Bytes from the stream into the connection until now.
    pub fn received(&self) -> u64 {
        self.down.total
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Future for Splice<IO> {
    type Output = SpliceEnd;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<SpliceEnd> {
        let Self {
            stream,
            io,
            up,
            down,
        } = self.get_mut();
        // Also while the connection takes nothing and gives nothing.
        if let Poll::Ready(error) = stream.poll_broken(cx, down.shut) {
            return Poll::Ready(SpliceEnd::from(error));
        }
        let mut sent = up.poll(cx, io, stream);
        if matches!(sent, Poll::Ready(Err(_))) && !down.shut && stream.has_arrived() {
            // The peer takes no more, and has answered: the answer is delivered first.
            up.shut = true;
            sent = Poll::Ready(Ok(()));
        }
        let received = down.poll(cx, stream, io);
        let end = match (sent, received) {
            // The peer may still fail to deliver; both sides tell the same end.
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => match ready!(stream.poll_agreed(cx)) {
                Ok(()) => SpliceEnd::Complete,
                Err(error) => SpliceEnd::from(error),
            },
            (Poll::Ready(Err(error)), _) | (_, Poll::Ready(Err(error))) => SpliceEnd::from(error),
            (Poll::Pending, _) | (_, Poll::Pending) => return Poll::Pending,
        };
        if matches!(end, SpliceEnd::Io(_)) {
            stream.reset(reset_code::IO);
        }
        Poll::Ready(end)
    }
}

/// [`Splice`], with what came of it.
pub async fn splice<IO>(stream: Stream, io: IO) -> Spliced
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let mut splice = Splice::new(stream, io);
    let end = (&mut splice).await;
    Spliced {
        sent: splice.sent(),
        received: splice.received(),
        end,
    }
}

/// [`splice`] for a TCP connection.
pub async fn splice_tcp(stream: Stream, io: TcpStream) -> Spliced {
    splice(stream, io).await
}

thread_local! {
    /// Where bytes of connections arrive. One for each thread: a connection that waits holds none.
    static ARRIVALS: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// From the connection into the stream.
#[derive(Debug, Default)]
struct Up {
    /// What arrived and the stream did not take yet.
    left: Vec<u8>,
    written: usize,
    eof: bool,
    shut: bool,
    total: u64,
}

// === impl Up ===

impl Up {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut (impl AsyncRead + Unpin),
        stream: &mut Stream,
    ) -> Poll<io::Result<()>> {
        while !self.shut {
            if self.written < self.left.len() {
                let rest = self.left.get(self.written..).unwrap_or_default();
                let taken = ready!(Pin::new(&mut *stream).poll_write(cx, rest))?;
                self.written += taken;
                self.total += count(taken);
            } else if self.eof {
                ready!(Pin::new(&mut *stream).poll_shutdown(cx))?;
                self.shut = true;
            } else {
                self.left = Vec::new();
                self.written = 0;
                // Taken and not borrowed: what is read may be a splice's own other end.
                let mut arrivals = ARRIVALS.take();
                let moved = self.move_some(cx, &mut arrivals, io, stream);
                ARRIVALS.set(arrivals);
                ready!(moved)?;
            }
        }
        Poll::Ready(Ok(()))
    }

    fn move_some(
        &mut self,
        cx: &mut Context<'_>,
        arrivals: &mut Vec<u8>,
        io: &mut (impl AsyncRead + Unpin),
        stream: &mut Stream,
    ) -> Poll<io::Result<()>> {
        arrivals.resize(STEP, 0);
        let mut read = ReadBuf::new(arrivals);
        ready!(Pin::new(&mut *io).poll_read(cx, &mut read))?;
        Poll::Ready(self.pass_on(cx, read.filled(), stream))
    }

    /// Gives the stream what it takes at once and keeps the rest.
    fn pass_on(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        stream: &mut Stream,
    ) -> io::Result<()> {
        self.eof = bytes.is_empty();
        if self.eof {
            return Ok(());
        }
        let taken = match Pin::new(&mut *stream).poll_write(cx, bytes) {
            Poll::Ready(taken) => taken?,
            Poll::Pending => 0,
        };
        self.total += count(taken);
        self.left = bytes.get(taken..).unwrap_or_default().to_vec();
        Ok(())
    }
}

/// From the stream into the connection.
#[derive(Debug, Default)]
struct Down {
    /// What was taken from the stream and the connection did not take yet.
    left: VecDeque<u8>,
    eof: bool,
    shut: bool,
    total: u64,
}

// === impl Down ===

impl Down {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        stream: &Stream,
        io: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<io::Result<()>> {
        while !self.shut {
            let (first, _) = self.left.as_slices();
            if !first.is_empty() {
                let written = ready!(Pin::new(&mut *io).poll_write(cx, first))?;
                if written == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                self.left.drain(..written);
                self.total += count(written);
            } else if self.eof {
                ready!(Pin::new(&mut *io).poll_shutdown(cx))?;
                self.shut = true;
            } else {
                self.left = VecDeque::new();
                let Poll::Ready(taken) = stream.poll_take(cx, STEP) else {
                    // A flush that is done does not end the copy.
                    ready!(Pin::new(&mut *io).poll_flush(cx))?;
                    return Poll::Pending;
                };
                self.left = taken?;
                self.eof = self.left.is_empty();
            }
        }
        Poll::Ready(Ok(()))
    }
}

fn count(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
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
