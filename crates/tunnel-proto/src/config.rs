//! The limits and times of a session.

use std::time::Duration;

use thiserror::Error;

use crate::{
    frame::MAX_FRAME,
    hello::{Hello, InstanceId, MAX_SOFTWARE, Side, VERSION_MAX, VERSION_MIN},
};

/// The limits and times of a session. [`Default`] is right for a hub and an agent.
///
/// The bytes that the peer can make this side hold for slow readers are at most
/// `max_streams × stream_window + growth_budget`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Which process this is; told to the peer.
    pub instance: InstanceId,
    /// What the peer is told of our software, at most [`MAX_SOFTWARE`] bytes.
    pub software: Box<str>,
    /// How long the peer may take to say HELLO.
    pub hello_timeout: Duration,
    /// Time between two PINGs.
    pub ping_interval: Duration,
    /// How long after a PING the peer may be silent before it counts as gone.
    pub ping_grace: Duration,
    /// Bytes that the peer may always have in flight on each stream, also before ACCEPT.
    pub stream_window: u32,
    /// Bytes to which the window of one stream may grow.
    pub stream_window_max: u32,
    /// Bytes by which the windows of all streams together may grow beyond `stream_window` each.
    pub growth_budget: u64,
    /// Bytes that the peer may have in flight on all streams together. They are given back when
    /// they arrive, not when they are read, so no reader can hold them.
    pub session_window: u32,
    /// How many streams the peer may have open at a time.
    pub max_streams: u32,
    /// How many streams of the peer may wait for ACCEPT or REJECT at a time.
    pub max_pending: u32,
    /// Bytes that may wait for a peer that makes us answer but does not read the answers.
    pub max_backlog: usize,
    /// How many streams this side opens before it drains the session, so that another one takes
    /// its place long before the 2^31 numbers of streams are used up.
    pub most_opened: u32,
}

/// A configuration that contradicts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum InvalidConfig {
    /// A stream's window is larger than it may grow to, or than the session's.
    #[error("the initial window of a stream is larger than its limit or the session's")]
    StreamWindow,
    /// A window is smaller than one frame, so that no frame could be full.
    #[error("the initial window of a stream is smaller than one frame")]
    WindowTooSmall,
    /// The name of the software is too long.
    #[error("the name of the software is longer than {MAX_SOFTWARE} bytes")]
    Software,
    /// A time is zero.
    #[error("the ping interval, its grace and the hello timeout must not be zero")]
    ZeroTime,
}

// === impl Config ===

impl Default for Config {
    fn default() -> Self {
        Self {
            instance: InstanceId::default(),
            software: Box::default(),
            hello_timeout: Duration::from_secs(10),
            ping_interval: Duration::from_secs(10),
            ping_grace: Duration::from_secs(5),
            stream_window: 128 << 10,
            stream_window_max: 16 << 20,
            growth_budget: 64 << 20,
            session_window: 64 << 20,
            max_streams: 16_384,
            max_pending: 1024,
            max_backlog: 1 << 20,
            most_opened: 1 << 30,
        }
    }
}

impl Config {
    /// Checks that the numbers fit together.
    ///
    /// # Errors
    ///
    /// Names what does not fit.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        let times = [self.hello_timeout, self.ping_interval, self.ping_grace];
        if times.iter().any(Duration::is_zero) {
            Err(InvalidConfig::ZeroTime)
        } else if self.stream_window > self.stream_window_max.min(self.session_window) {
            Err(InvalidConfig::StreamWindow)
        } else if usize::try_from(self.stream_window).is_ok_and(|window| window < MAX_FRAME) {
            Err(InvalidConfig::WindowTooSmall)
        } else if self.software.len() > MAX_SOFTWARE {
            Err(InvalidConfig::Software)
        } else {
            Ok(())
        }
    }

    pub(crate) fn hello(&self, side: Side) -> Hello {
        Hello {
            version_min: VERSION_MIN,
            version_max: VERSION_MAX,
            side,
            features: 0,
            instance: self.instance,
            stream_window: self.stream_window,
            session_window: self.session_window,
            max_frame: u16::try_from(MAX_FRAME).unwrap_or(u16::MAX),
            max_streams: self.max_streams,
            software: self.software.clone(),
        }
    }
}
