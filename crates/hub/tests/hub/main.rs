//! The hub in one process: real TLS and real sessions over loopback, an inventory in memory.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of a test may fail the test"
)]

mod agent;
mod answer;
mod caller;
mod service;
mod status;
mod websocket;
mod world;

mod audit_log;
mod connect;
mod drain;
mod files;
mod handshakes;
mod https_by_host;
mod joins;
mod local_socket;
mod members;
mod refusals;
mod revocation;
