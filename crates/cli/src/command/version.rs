//! `strait version`.

use serde::Serialize;

use crate::{
    args::Format,
    failure::Failure,
    printer::{Printer, Report},
};

/// The version of this program; the images of the same version go with it.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The image that goes with this program.
pub(crate) const IMAGE: &str = concat!("strait.dev/strait:", env!("CARGO_PKG_VERSION"));

#[derive(Serialize)]
struct Version {
    version: &'static str,
    image: &'static str,
}

pub(crate) fn run(format: Format, printer: &mut Printer<'_>) -> Result<(), Failure> {
    printer.report(
        format,
        &Version {
            version: VERSION,
            image: IMAGE,
        },
    )
}

impl Report for Version {
    fn table(&self) -> String {
        format!("strait {}\n", self.version)
    }
}
