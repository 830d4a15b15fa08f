//! What listens where.

/// HTTP/1.1 and h2c: [`pages`](crate::pages).
pub(crate) const HTTP: u16 = 8080;
/// The same over TLS, with a certificate made at start.
pub(crate) const HTTPS: u16 = 8443;
/// Sends back what it gets, each direction by itself.
pub(crate) const ECHO: u16 = 7001;
/// Says a line as soon as somebody connects, then echoes.
pub(crate) const GREET: u16 = 7002;
/// Reads to the end, then answers with count and digest: needs half-close.
pub(crate) const SUM: u16 = 7003;
/// Accepts and never reads.
pub(crate) const STUCK: u16 = 7004;
/// One byte each 100 ms, without end.
pub(crate) const DRIP: u16 = 7005;
/// Reads a line with a number, sends so many bytes, closes right after the last.
pub(crate) const SOURCE: u16 = 7006;
