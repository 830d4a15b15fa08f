//! Which names lead to which service.
//!
//! Two pure functions of what the hub knows: [`expand`] turns a configuration and the list of
//! members into entrypoints, aliases and problems; [`NameTable`] turns entrypoints, aliases and
//! members into the answers to host names. The controller and the hub use the same two, so they
//! cannot disagree.
#![warn(missing_docs)]

mod exposure;
mod host;
mod nearest;
mod table;

pub use self::nearest::nearest;
pub use exposure::{Alias, Exposure, Problem, ProblemReason, WantedEntrypoint, expand};
pub use table::{Declared, Entry, InvalidEntry, Miss, NameTable, NameTableBuilder};
