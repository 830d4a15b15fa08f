//! Bytes in, messages out, and back.

use std::{
    fmt, io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use futures::{Sink, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Error, Message},
};

/// How many bytes go into one message.
const MESSAGE: usize = 64 << 10;

/// A WebSocket as a stream of bytes. A close by the peer is the end of the stream; a message that
/// is no bytes is an error.
pub struct WebSocket<IO> {
    socket: WebSocketStream<IO>,
    /// What arrived and was not read.
    arrived: Bytes,
}

// === impl WebSocket ===

impl<IO> WebSocket<IO> {
    pub(crate) fn new(socket: WebSocketStream<IO>) -> Self {
        Self {
            socket,
            arrived: Bytes::new(),
        }
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncRead for WebSocket<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.arrived.is_empty() {
            match ready!(Pin::new(&mut self.socket).poll_next(cx)) {
                Some(Ok(Message::Binary(bytes))) => self.arrived = bytes,
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                None | Some(Ok(Message::Close(_)) | Err(Error::ConnectionClosed)) => {
                    return Poll::Ready(Ok(()));
                }
                Some(Ok(Message::Text(_) | Message::Frame(_))) => {
                    return Poll::Ready(Err(invalid("a message that is no bytes")));
                }
                Some(Err(error)) => return Poll::Ready(Err(broken(error))),
            }
        }
        let len = self.arrived.len().min(buf.remaining());
        buf.put_slice(self.arrived.get(..len).unwrap_or_default());
        self.arrived.advance(len);
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncWrite for WebSocket<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        ready!(Pin::new(&mut self.socket).poll_ready(cx)).map_err(broken)?;
        let message = bytes.get(..bytes.len().min(MESSAGE)).unwrap_or_default();
        let sending = Message::Binary(Bytes::copy_from_slice(message));
        Pin::new(&mut self.socket)
            .start_send(sending)
            .map_err(broken)?;
        Poll::Ready(Ok(message.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx).map_err(broken)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match ready!(Pin::new(&mut self.socket).poll_close(cx)) {
            Ok(()) | Err(Error::ConnectionClosed | Error::AlreadyClosed) => Poll::Ready(Ok(())),
            Err(error) => Poll::Ready(Err(broken(error))),
        }
    }
}

impl<IO> fmt::Debug for WebSocket<IO> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocket")
            .field("arrived", &self.arrived.len())
            .finish_non_exhaustive()
    }
}

fn broken(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        Error::ConnectionClosed | Error::AlreadyClosed => io::ErrorKind::BrokenPipe.into(),
        error => io::Error::new(io::ErrorKind::InvalidData, error),
    }
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio_tungstenite::tungstenite::protocol::Role;

    use super::*;

    async fn pair(
        buffer: usize,
    ) -> (
        WebSocket<tokio::io::DuplexStream>,
        WebSocketStream<tokio::io::DuplexStream>,
    ) {
        let (near, far) = duplex(buffer);
        let near = WebSocketStream::from_raw_socket(near, Role::Client, None).await;
        let far = WebSocketStream::from_raw_socket(far, Role::Server, None).await;
        (WebSocket::new(near), far)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn bytes_arrive_in_order_whatever_the_steps_are(
            sent in prop::collection::vec(any::<u8>(), 0..200_000),
            buffer in 16_usize..5000,
            step in 1_usize..70_000,
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let heard = runtime.block_on(async {
                let (mut near, far) = pair(buffer).await;
                let mut far = WebSocket::new(far);
                let sending = async {
                    for part in sent.chunks(step) {
                        near.write_all(part).await.unwrap();
                    }
                    near.flush().await.unwrap();
                    near.shutdown().await.unwrap();
                };
                let hearing = async {
                    let mut heard = vec![];
                    far.read_to_end(&mut heard).await.unwrap();
                    heard
                };
                tokio::join!(sending, hearing).1
            });
            prop_assert!(heard == sent);
        }
    }

    #[tokio::test]
    async fn pings_are_passed_over_and_text_is_an_error() {
        use futures::SinkExt;
        let (mut near, mut far) = pair(4096).await;
        far.send(Message::Ping(Bytes::new())).await.unwrap();
        far.send(Message::Binary(Bytes::from_static(b"ab")))
            .await
            .unwrap();
        far.send(Message::text("c")).await.unwrap();
        let mut heard = [0; 2];
        near.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"ab");
        let error = near.read(&mut heard).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[tokio::test]
    async fn a_connection_that_breaks_is_no_end_of_the_stream() {
        let (mut near, far) = pair(4096).await;
        drop(far);
        assert!(near.read(&mut [0; 2]).await.is_err());
    }
}
