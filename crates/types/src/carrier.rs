//! How sessions between agents and hubs are carried.

use std::fmt;

/// The path at the hub under which a WebSocket leads to the hub's own port once more: what is in it
/// is TLS again, so that nobody on the way can read it or be taken for the hub.
pub const SESSION_PATH: &str = "/.strait/v1/session";
/// The subprotocol of that WebSocket.
pub const SESSION_PROTOCOL: &str = "strait.v1";

/// What carries the TLS of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CarrierKind {
    /// A TCP connection.
    #[default]
    Tls,
    /// A WebSocket over HTTPS.
    WebSocket,
}

// === impl CarrierKind ===

impl CarrierKind {
    /// A word for logs and tables.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tls => "tls",
            Self::WebSocket => "websocket",
        }
    }
}

impl fmt::Display for CarrierKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
