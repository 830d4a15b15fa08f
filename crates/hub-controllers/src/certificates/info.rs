//! What everybody who is logged in is told: where the hub is, and what to trust. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use strait_install::HubInfo;

use super::authority::{BUNDLE, Stored};
use crate::ControllerConfig;

/// The data that the ConfigMap must have; `None` when it has it. While the authority cannot be
/// read, the bundle that was told before stays.
pub(super) fn decide(
    config: &ControllerConfig,
    authority: Option<&Secret>,
    found: Option<&ConfigMap>,
) -> Option<BTreeMap<String, String>> {
    let told = found.and_then(|map| map.data.clone()).unwrap_or_default();
    let readable = authority.filter(|secret| Stored::of(secret).read().is_ok());
    let bundle = readable
        .and_then(|secret| secret.data.as_ref()?.get(BUNDLE))
        .map(|bundle| String::from_utf8_lossy(&bundle.0).into_owned());
    let info = HubInfo {
        addresses: config.addresses.clone(),
        domain: config.domain.clone(),
        ca_bundle: bundle.unwrap_or_else(|| HubInfo::from_data(&told).ca_bundle),
    };
    let want = info.to_data();
    let says = want.iter().all(|(key, value)| told.get(key) == Some(value));
    (found.is_none() || !says).then_some(want)
}

/// Whether the ConfigMap has told somebody whom to trust.
pub(super) fn tells_authority(info: &ConfigMap) -> bool {
    let data = info.data.clone().unwrap_or_default();
    !HubInfo::from_data(&data).ca_bundle.trim().is_empty()
}
