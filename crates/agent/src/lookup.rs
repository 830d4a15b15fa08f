//! Where a Service's endpoints are, asked of the API server and remembered for a moment.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::{
    core::v1::{Service, ServicePort},
    discovery::v1::EndpointSlice,
};
use kube::{Api, Client, api::ListParams};
use moka::future::Cache;
use strait_types::{Refusal, RefusalCode};

/// How long an answer is used. A dial that fails asks anew at once, so this bounds how long a
/// removed endpoint is tried first, not how long it hurts.
const FRESH: Duration = Duration::from_secs(5);

/// How many Services are remembered. One takes a few KiB.
const REMEMBERED: u64 = 1_000;

/// A Service and its endpoints.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) service: Service,
    slices: Vec<EndpointSlice>,
}

/// Looks Services up. Cheap to clone; clones share what is remembered.
#[derive(Clone, Debug)]
pub(crate) struct Lookup {
    source: Source,
    remembered: Cache<(Box<str>, Box<str>), Arc<Found>>,
}

#[derive(Clone)]
enum Source {
    Api(Client),
    #[cfg(test)]
    Fixed(Arc<dyn Fn(&str, &str) -> Option<Found> + Send + Sync>),
}

// === impl Lookup ===

impl Lookup {
    /// Asks this cluster.
    pub(crate) fn new(client: Client) -> Self {
        Self::with(Source::Api(client))
    }

    /// Answers what `find` says, given namespace and name.
    #[cfg(test)]
    pub(crate) fn fixed(
        find: impl Fn(&str, &str) -> Option<Found> + Send + Sync + 'static,
    ) -> Self {
        Self::with(Source::Fixed(Arc::new(find)))
    }

    fn with(source: Source) -> Self {
        let remembered = Cache::builder()
            .max_capacity(REMEMBERED)
            .time_to_live(FRESH)
            .build();
        Self { source, remembered }
    }

    /// The Service, remembered or asked for; many who ask at once cause one request.
    pub(crate) async fn find(&self, namespace: &str, name: &str) -> Result<Arc<Found>, Refusal> {
        let key = (namespace.into(), name.into());
        self.remembered
            .try_get_with(key, self.ask(namespace, name))
            .await
            .map_err(|refusal: Arc<Refusal>| Refusal::clone(&refusal))
    }

    /// Asks anew at the next call.
    pub(crate) async fn forget(&self, namespace: &str, name: &str) {
        self.remembered
            .invalidate(&(namespace.into(), name.into()))
            .await;
    }

    async fn ask(&self, namespace: &str, name: &str) -> Result<Arc<Found>, Refusal> {
        let found = match &self.source {
            Source::Api(client) => ask_api(client, namespace, name)
                .await
                .map_err(|error| cannot_ask(namespace, name, &error))?,
            #[cfg(test)]
            Source::Fixed(find) => find(namespace, name),
        };
        found.map(Arc::new).ok_or_else(|| {
            Refusal::new(
                RefusalCode::ServiceNotFound,
                format!("the cluster has no service {namespace}/{name}"),
            )
        })
    }
}

// === impl Found ===

impl Found {
    #[cfg(test)]
    pub(crate) fn new(service: Service, slices: Vec<EndpointSlice>) -> Self {
        Self { service, slices }
    }

    /// Whether it is an alias for a host name outside.
    pub(crate) fn is_external_name(&self) -> bool {
        let spec = self.service.spec.as_ref();
        spec.and_then(|spec| spec.type_.as_deref()) == Some("ExternalName")
    }

    /// The addresses of the endpoints that are ready, for this port of the Service.
    pub(crate) fn ready(&self, port: &ServicePort) -> Vec<SocketAddr> {
        let mut ready: Vec<SocketAddr> = self
            .slices
            .iter()
            .flat_map(|slice| ready_in(slice, port))
            .collect();
        ready.sort_unstable();
        ready.dedup();
        ready
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Source")
    }
}

async fn ask_api(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Option<Found>, kube::Error> {
    let services: Api<Service> = Api::namespaced(client.clone(), namespace);
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), namespace);
    let of_service = ListParams::default().labels(&format!("kubernetes.io/service-name={name}"));
    let (service, slices) = tokio::try_join!(services.get_opt(name), slices.list(&of_service))?;
    Ok(service.map(|service| Found {
        service,
        slices: slices.items,
    }))
}

fn cannot_ask(namespace: &str, name: &str, error: &kube::Error) -> Refusal {
    let chain = error as &dyn std::error::Error;
    tracing::warn!(
        namespace,
        name,
        error = chain,
        "a service could not be looked up"
    );
    Refusal::new(
        RefusalCode::DialFailed,
        format!("the agent could not ask its API server for service {namespace}/{name}"),
    )
}

/// An EndpointSlice's port has the name of the Service's port, or none where that has none.
fn ready_in(slice: &EndpointSlice, port: &ServicePort) -> Vec<SocketAddr> {
    let wanted = port.name.as_deref().unwrap_or_default();
    let number = slice
        .ports
        .iter()
        .flatten()
        .find(|port| port.name.as_deref().unwrap_or_default() == wanted)
        .and_then(|port| port.port)
        .and_then(|number| u16::try_from(number).ok());
    let Some(number) = number else {
        return Vec::new();
    };
    slice
        .endpoints
        .iter()
        .filter(|endpoint| {
            let conditions = endpoint.conditions.as_ref();
            conditions
                .and_then(|conditions| conditions.ready)
                .unwrap_or(true)
        })
        .flat_map(|endpoint| &endpoint.addresses)
        .filter_map(|address| address.parse::<IpAddr>().ok())
        .map(|address| SocketAddr::new(address, number))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;

    #[test]
    fn only_ready_endpoints_of_the_port_count() {
        let slice = |value| serde_json::from_value::<EndpointSlice>(value).unwrap();
        let found = Found::new(
            Service::default(),
            vec![
                slice(json!({
                    "addressType": "IPv4",
                    "ports": [{"name": "http", "port": 8080}, {"name": "admin", "port": 9000}],
                    "endpoints": [
                        {"addresses": ["10.244.0.2"], "conditions": {"ready": true}},
                        {"addresses": ["10.244.0.3"], "conditions": {"ready": false}},
                        {"addresses": ["10.244.0.4"]}
                    ]
                })),
                slice(json!({
                    "addressType": "FQDN",
                    "ports": [{"name": "http", "port": 8080}],
                    "endpoints": [{"addresses": ["example.com"]}]
                })),
            ],
        );
        let port = |name: &str| ServicePort {
            name: (!name.is_empty()).then(|| name.to_owned()),
            ..ServicePort::default()
        };
        let expected: Vec<SocketAddr> = vec![
            "10.244.0.2:8080".parse().unwrap(),
            "10.244.0.4:8080".parse().unwrap(),
        ];
        assert_eq!(found.ready(&port("http")), expected);
        assert!(found.ready(&port("")).is_empty());
    }

    #[tokio::test]
    async fn an_answer_is_remembered_until_it_is_forgotten() {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let lookup = Lookup::fixed(move |_, _| {
            count.fetch_add(1, Ordering::Relaxed);
            Some(Found::new(Service::default(), vec![]))
        });
        lookup.find("default", "search").await.unwrap();
        lookup.find("default", "search").await.unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        lookup.forget("default", "search").await;
        lookup.find("default", "search").await.unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn an_unknown_service_is_refused_by_name() {
        let lookup = Lookup::fixed(|_, _| None);
        let refusal = lookup.find("default", "search").await.unwrap_err();
        assert_eq!(refusal.code, RefusalCode::ServiceNotFound);
        assert_eq!(refusal.message, "the cluster has no service default/search");
    }
}
