//! Carries tunnel sessions over real connections.
//!
//! [`Session::establish`] greets the peer over a [`Carrier`] and gives three things: the
//! [`Session`], a handle that opens streams; [`Incoming`], the streams that the peer opens; and
//! the [`Driver`], a future that the caller runs in a task it owns. A [`Stream`] reads and writes
//! like a TCP connection; [`splice`] joins it with one.
//!
//! A stream's own task writes its frames into the carrier, and the driver hands what arrives
//! straight to the stream. The driver waits for the carrier on behalf of everybody, watches the
//! clock, and is woken for nothing else.
#![warn(missing_docs)]

mod carrier;
mod driver;
mod end;
mod incoming;
mod session;
mod shared;
mod splice;
mod stream;
mod values;
mod wire;

pub use carrier::Carrier;
pub use driver::Driver;
pub use end::{EstablishError, Lost, OpenError, StreamReset};
pub use incoming::{Incoming, Request};
pub use session::Session;
pub use splice::{Splice, SpliceEnd, Spliced, splice, splice_tcp};
pub use strait_tunnel_proto::{
    CloseCode, CloseReason, Config, EndReason, InstanceId, Open, PeerInfo, ProtocolError, Side,
    Stats, reject_code, reset_code,
};
pub use stream::{Resetter, Stream};
pub use values::{read_value, write_value};
