//! Services and EndpointSlices of the API server.

use std::{net::IpAddr, sync::Arc};

use futures::future::BoxFuture;
use k8s_openapi::api::{
    core::v1::{Service as CoreService, ServicePort as CorePort},
    discovery::v1::{Endpoint as CoreEndpoint, EndpointSlice},
};
use kube::{Api, Client, api::ListParams};

use super::{Endpoint, LookupError, Service, ServicePort, Services};

/// The label by which slices belong to a Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Looks Services up at an API server: one GET and one LIST each.
#[derive(Clone)]
pub struct KubeServices(Client);

// === impl KubeServices ===

impl KubeServices {
    /// Asks this API server.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self(client)
    }

    async fn find(&self, namespace: &str, service: &str) -> kube::Result<Option<Service>> {
        let services: Api<CoreService> = Api::namespaced(self.0.clone(), namespace);
        let slices: Api<EndpointSlice> = Api::namespaced(self.0.clone(), namespace);
        let selector = ListParams::default().labels(&format!("{SERVICE_NAME}={service}"));
        let (found, slices) = futures::join!(services.get_opt(service), slices.list(&selector));
        let Some(found) = found? else {
            return Ok(None);
        };
        Ok(Some(convert(&found, &slices?.items)))
    }
}

impl Services for KubeServices {
    fn look_up<'a>(
        &'a self,
        namespace: &'a str,
        service: &'a str,
    ) -> BoxFuture<'a, Result<Option<Service>, LookupError>> {
        Box::pin(async move {
            self.find(namespace, service)
                .await
                .map_err(|source| LookupError {
                    namespace: namespace.to_owned(),
                    service: service.to_owned(),
                    source: Arc::new(source),
                })
        })
    }
}

impl std::fmt::Debug for KubeServices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KubeServices")
    }
}

/// What both objects say about one Service.
pub(super) fn convert(service: &CoreService, slices: &[EndpointSlice]) -> Service {
    let spec = service.spec.clone().unwrap_or_default();
    let mut endpoints: Vec<Endpoint> = slices.iter().flat_map(endpoints_of).collect();
    endpoints.sort_by(|a, b| (a.address, &a.ports).cmp(&(b.address, &b.ports)));
    endpoints.dedup();
    Service {
        external_name: spec.type_.as_deref() == Some("ExternalName"),
        ports: spec
            .ports
            .unwrap_or_default()
            .iter()
            .filter_map(port_of)
            .collect(),
        endpoints,
    }
}

fn port_of(port: &CorePort) -> Option<ServicePort> {
    let tcp = port
        .protocol
        .as_deref()
        .is_none_or(|protocol| protocol == "TCP");
    Some(ServicePort {
        number: u16::try_from(port.port).ok().filter(|_| tcp)?,
        name: port.name.clone().unwrap_or_default(),
        app_protocol: port.app_protocol.clone().unwrap_or_default(),
    })
}

/// The ready addresses of a slice. Host names are not dialled: they could lead anywhere.
fn endpoints_of(slice: &EndpointSlice) -> Vec<Endpoint> {
    let ports = slice.ports.as_deref().unwrap_or_default().iter();
    let ports: Vec<(String, u16)> = ports
        .filter(|port| {
            port.protocol
                .as_deref()
                .is_none_or(|protocol| protocol == "TCP")
        })
        .filter_map(|port| {
            let number = u16::try_from(port.port?).ok()?;
            Some((port.name.clone().unwrap_or_default(), number))
        })
        .collect();
    let ready = slice.endpoints.iter().filter(|endpoint| is_ready(endpoint));
    let addresses = ready.flat_map(|endpoint| endpoint.addresses.iter());
    addresses
        .filter_map(|address| address.parse::<IpAddr>().ok())
        .map(|address| Endpoint {
            address,
            ports: ports.clone(),
        })
        .collect()
}

/// No word about it means ready, says the API.
fn is_ready(endpoint: &CoreEndpoint) -> bool {
    endpoint
        .conditions
        .as_ref()
        .and_then(|conditions| conditions.ready)
        .unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_ready_addresses_and_tcp_ports_count() {
        let service: CoreService = serde_json::from_value(json!({ "spec": { "ports": [
            { "port": 443, "name": "https", "appProtocol": "kubernetes.io/h2c" },
            { "port": 53, "name": "dns", "protocol": "UDP" },
        ]}}))
        .unwrap();
        let slice: EndpointSlice = serde_json::from_value(json!({
            "addressType": "IPv4",
            "ports": [
                { "name": "https", "port": 8443, "protocol": "TCP" },
                { "name": "dns", "port": 53, "protocol": "UDP" },
            ],
            "endpoints": [
                { "addresses": ["10.244.0.7"], "conditions": { "ready": true } },
                { "addresses": ["10.244.0.8"], "conditions": { "ready": false } },
                { "addresses": ["10.244.0.9"], "conditions": {} },
                { "addresses": ["evil.example.com"] },
            ],
        }))
        .unwrap();
        let converted = convert(&service, &[slice.clone(), slice]);
        assert!(!converted.external_name);
        assert_eq!(
            converted.ports,
            [ServicePort {
                number: 443,
                name: "https".into(),
                app_protocol: "kubernetes.io/h2c".into(),
            }]
        );
        let ports = vec![("https".to_owned(), 8443)];
        let expected = ["10.244.0.7", "10.244.0.9"].map(|a| Endpoint {
            address: a.parse().unwrap(),
            ports: ports.clone(),
        });
        assert_eq!(converted.endpoints, expected);
    }

    #[test]
    fn an_external_name_is_seen_as_one() {
        let service: CoreService = serde_json::from_value(json!({ "spec": {
            "type": "ExternalName", "externalName": "example.com",
        }}))
        .unwrap();
        assert!(convert(&service, &[]).external_name);
    }
}
