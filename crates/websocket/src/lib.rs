//! A stream of bytes in a WebSocket (RFC 6455), for networks that let HTTP/1.1 through and nothing
//! else.
//!
//! [`dial`] asks a server for one over a connection that stands, [`answer`] and [`accept`] are the
//! server's side. Bytes travel in binary messages whose borders mean nothing. Who is at the other
//! end, and that nobody on the way reads along, is for TLS inside of the stream to say.
#![warn(missing_docs)]

mod handshake;
mod stream;

pub use handshake::{DialError, NotAWebSocket, accept, answer, dial};
pub use stream::WebSocket;
