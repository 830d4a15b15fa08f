//! The command line as a library: [`run`] takes arguments and two writers, and returns a code.
//!
//! What was asked for goes to `out`, talk goes to `err`. Commands return values; one printer
//! writes them, so a table and JSON cannot differ.
#![warn(missing_docs)]

mod age;
mod args;
mod cluster;
mod command;
mod failure;
mod hint;
mod printer;
mod proxy;
mod rollout;
mod run;
mod sessions;
mod table;
mod token_file;
mod wait;

pub use run::{Streams, run};
