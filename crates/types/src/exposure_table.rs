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

    /// The first of these services, as many as one table can tell. The others cannot be reached;
    /// those who could are not taken away for it.
    #[must_use]
    pub fn fitting(mut services: Vec<ExposedService>) -> Vec<ExposedService> {
        /// The JSON around the texts of one service, and around those of one port.
        const AROUND: (usize, usize) = (48, 3);
        let most = usize::try_from(Self::MAX_BYTES).unwrap_or(usize::MAX) - 64;
        let mut bytes = 0_usize;
        let too_many = services.iter().position(|service| {
            let ports: usize = service.ports.iter().map(|port| port.len() + AROUND.1).sum();
            bytes += service.namespace.len() + service.service.len() + ports + AROUND.0;
            bytes > most
        });
        let fitting = too_many.unwrap_or(services.len());
        services.truncate(fitting);
        services
    }

    /// What the table says of a Service, if it is exposed.
    #[must_use]
    pub fn find(&self, namespace: &str, service: &str) -> Option<&ExposedService> {
        self.services
            .iter()
            .find(|s| s.namespace == namespace && s.service == service)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_services_are_told_as_fit() {
        let service = |number: usize| ExposedService {
            namespace: "a".repeat(63),
            service: format!("{number:063}"),
            ports: vec!["65535".to_owned(), "b".repeat(15)],
        };
        let few: Vec<_> = (0..100).map(service).collect();
        assert_eq!(ExposureTable::fitting(few.clone()), few);
        let many: Vec<_> = (0..60_000).map(service).collect();
        let table = ExposureTable {
            generation: u64::MAX,
            services: ExposureTable::fitting(many),
        };
        assert!(table.services.len() > 30_000);
        let bytes = serde_json::to_vec(&table).unwrap().len();
        assert!(
            u32::try_from(bytes).unwrap() <= ExposureTable::MAX_BYTES,
            "{bytes}"
        );
    }
}
