//! What the hub tells each agent about what of its cluster is exposed.

use serde::{Deserialize, Serialize};

/// Everything that is exposed of one cluster, as the hub sees it. Each table replaces the one
/// before. On the stream: a big-endian `u32` length, then this as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExposureTable {
    /// Counts up with every table of one session; an OPEN names the generation it relies on.
    pub generation: u64,
    /// What is exposed, sorted.
    pub services: Vec<ExposedService>,
}

/// One exposed Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExposedService {
    /// The Service's namespace.
    pub namespace: String,
    /// The Service's name.
    pub service: String,
    /// The ports, by number or name; none means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<String>,
}

// === impl ExposureTable ===

impl ExposureTable {
    /// The longest JSON that is sent or read, in bytes: 50,000 services fit.
    pub const MAX_BYTES: u32 = 8 << 20;

    /// What the table says of a Service, if it is exposed.
    #[must_use]
    pub fn find(&self, namespace: &str, service: &str) -> Option<&ExposedService> {
        self.services
            .iter()
            .find(|s| s.namespace == namespace && s.service == service)
    }
}
