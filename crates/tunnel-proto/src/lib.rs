//! The session protocol `strait/1` as a state machine: bytes and time in, bytes and events out.
//!
//! A [`Session`] is one authenticated, multiplexed connection between two peers, either of which
//! opens [streams](StreamId). The crate has no runtime, no socket and no clock: whoever drives it
//! passes the bytes that arrived and the present [`Instant`](std::time::Instant), sends what
//! [`Session::poll_transmit`] offers and reacts to what [`Session::poll_event`] tells.
#![warn(missing_docs)]
#![deny(
    clippy::indexing_slicing,
    clippy::as_conversions,
    clippy::wildcard_enum_match_arm
)]

mod config;
mod credit;
mod end;
mod event;
mod frame;
mod hello;
mod liveness;
mod open;
mod session;
mod stream;

pub use config::{Config, InvalidConfig};
pub use end::{
    CloseCode, CloseReason, EndReason, ProtocolError, StreamEnd, reject_code, reset_code,
};
pub use event::{Event, Received};
pub use frame::{
    DecodeError, Decoded, EncodeError, Frame, HEADER_LEN, Kind, MAX_FRAME, MAX_PAYLOAD, StreamId,
};
pub use hello::{Hello, InstanceId, MAX_SOFTWARE, PeerInfo, Side, VERSION_MAX, VERSION_MIN};
pub use open::{InvalidOpen, Open};
pub use session::{OpenRefused, Session, Stats, WriteError};
