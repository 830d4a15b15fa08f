//! One file per verb. Each makes a value and hands it to the printer.

pub(crate) mod clusters;
pub(crate) mod doctor;
pub(crate) mod forward;
pub(crate) mod install;
pub(crate) mod join;
pub(crate) mod proxy;
pub(crate) mod services;
pub(crate) mod status;
pub(crate) mod token;
pub(crate) mod uninstall;
pub(crate) mod version;
