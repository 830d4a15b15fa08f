//! Which entrypoints must be made, which must go, and what is told about all of them.

mod configuration;
mod objects;
mod status;

use kube::ResourceExt;
use strait_api::{
    ClusterProxyEntrypointStatus, ManagedProxyConfigurationStatus, wire_names::CONFIGURATION_NAME,
};
use strait_names::{Exposure, expand};

pub(super) use objects::{Doomed, Made};

use super::observe::Seen;
use crate::inventory::lives;

/// What must be written.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Decision {
    /// Entrypoints to make, or to bring back to what the configuration says.
    pub(super) make: Vec<Made>,
    /// Entrypoints that nothing asks for any more.
    pub(super) delete: Vec<Doomed>,
    /// Namespace, name and status of entrypoints whose status is another one.
    pub(super) tell: Vec<(String, String, ClusterProxyEntrypointStatus)>,
    /// Name, version and status of configurations whose status is another one.
    pub(super) report: Vec<(String, String, ManagedProxyConfigurationStatus)>,
}

/// Decides about everything at once.
pub(super) fn decide(seen: &Seen) -> Decision {
    let configuration = seen
        .configurations
        .iter()
        .find(|c| c.name_any() == CONFIGURATION_NAME && lives(c.as_ref()));
    let exposure = configuration.map_or_else(Exposure::default, |configuration| {
        let spec = &configuration.spec;
        let resolvers = spec.service_resolvers.as_ref();
        expand(spec.services.as_ref(), resolvers, &seen.members)
    });
    let objects = objects::decide(seen, configuration.map(AsRef::as_ref), &exposure);
    let tell = status::decide(seen, &exposure, &objects.delete);
    let report = configuration::decide(seen, &exposure, &objects);
    Decision {
        make: objects.make,
        delete: objects.delete,
        tell,
        report,
    }
}

#[cfg(test)]
mod tests;
