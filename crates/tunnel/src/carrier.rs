//! What a session is carried by.

use tokio::io::{AsyncRead, AsyncWrite};

/// A reliable, ordered, encrypted connection: TLS over TCP, or what stands for it in a test.
///
/// A session writes whole frames of at most 16 KiB where it can, so that a frame is a TLS record.
pub trait Carrier: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<C: AsyncRead + AsyncWrite + Send + Unpin + 'static> Carrier for C {}
