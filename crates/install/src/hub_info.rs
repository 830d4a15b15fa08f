//! What the hub tells everybody who is logged in to its cluster: where it listens.

use std::collections::BTreeMap;

/// The data of the ConfigMap `strait-hub-info`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HubInfo {
    /// Where members and callers reach the hub, `host:port` each.
    pub addresses: Vec<String>,
    /// The domain below which names are served by HTTPS; empty for none.
    pub domain: String,
    /// PEM certificates that the hub's certificate chains to.
    pub ca_bundle: String,
}

// === impl HubInfo ===

impl HubInfo {
    /// The ConfigMap's data: `addresses` (one a line), `domain`, `caBundle`.
    #[must_use]
    pub fn to_data(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            ("addresses".to_owned(), self.addresses.join("\n")),
            ("domain".to_owned(), self.domain.clone()),
            ("caBundle".to_owned(), self.ca_bundle.clone()),
        ])
    }

    /// Reads the ConfigMap's data; what is missing is empty.
    #[must_use]
    pub fn from_data(data: &BTreeMap<String, String>) -> Self {
        let text = |key: &str| data.get(key).map_or("", String::as_str);
        let addresses = text("addresses").split([',', '\n', ' ']);
        Self {
            addresses: addresses
                .map(str::trim)
                .filter(|address| !address.is_empty())
                .map(str::to_owned)
                .collect(),
            domain: text("domain").trim().to_owned(),
            ca_bundle: text("caBundle").to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_info_survives_its_config_map() {
        let info = HubInfo {
            addresses: vec!["hub-0:8443".to_owned(), "[fd00::1]:8443".to_owned()],
            domain: "demo.localhost".to_owned(),
            ca_bundle: "PEM\n".to_owned(),
        };
        assert_eq!(HubInfo::from_data(&info.to_data()), info);
        assert_eq!(HubInfo::from_data(&BTreeMap::new()), HubInfo::default());
    }
}
