//! From a Service to a connection with one of its endpoints.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use rand::seq::SliceRandom;
use strait_types::{AllowPattern, ExposedService, PortChoice, Refusal, RefusalCode};
use tokio::{
    net::TcpStream,
    time::{Instant, timeout_at},
};

use crate::{
    port::choose,
    services::{Cache, Found, Service, ServicePort},
};

/// How long a dial may take, from the look-up to the connection.
const BUDGET: Duration = Duration::from_secs(10);
/// How many endpoints are tried at most.
const TRIES: usize = 3;

/// Connects to Services, within the agent's own policy.
#[derive(Clone, Debug)]
pub(crate) struct Dialer {
    services: Cache,
    allow: Arc<[AllowPattern]>,
    own: Arc<[IpAddr]>,
    /// The address policy; tests dial loopback.
    forbidden: AddressPolicy,
}

/// Why an address is not dialled; the second argument are the agent's own.
pub(crate) type AddressPolicy = fn(IpAddr, &[IpAddr]) -> Option<&'static str>;

/// A connection, and the port that it is with.
#[derive(Debug)]
pub(crate) struct Dialed {
    pub(crate) tcp: TcpStream,
    pub(crate) port: ServicePort,
}

// === impl Dialer ===

impl Dialer {
    pub(crate) fn new(
        services: Cache,
        allow: Arc<[AllowPattern]>,
        own: Arc<[IpAddr]>,
        forbidden: AddressPolicy,
    ) -> Self {
        Self {
            services,
            allow,
            own,
            forbidden,
        }
    }

    /// Connects to a port of a Service that the hub exposes.
    pub(crate) async fn dial(
        &self,
        exposed: &ExposedService,
        choice: &PortChoice,
    ) -> Result<Dialed, Refusal> {
        let (namespace, name) = (&exposed.namespace, &exposed.service);
        if !self
            .allow
            .iter()
            .any(|pattern| pattern.covers(namespace, name))
        {
            let message = format!("the agent does not allow {namespace}/{name}");
            let hint = "the agent's `--allow` lists what it lets through";
            return Err(Refusal::new(RefusalCode::AgentRefused, message).with_hint(hint));
        }
        let deadline = Instant::now() + BUDGET;
        let remembered = self.look_up(exposed, deadline).await?;
        let refusal = match self
            .dial_service(&remembered, exposed, choice, deadline)
            .await
        {
            Ok(dialed) => return Ok(dialed),
            Err(refusal) => refusal,
        };
        // What was remembered may be old: look again, and dial again if it is not the same.
        let again = self.services.forget(namespace, name, &remembered).await;
        if !again || Instant::now() >= deadline {
            return Err(refusal);
        }
        let fresh = self.look_up(exposed, deadline).await?;
        if **fresh == **remembered {
            return Err(refusal);
        }
        self.dial_service(&fresh, exposed, choice, deadline).await
    }

    async fn look_up(
        &self,
        exposed: &ExposedService,
        deadline: Instant,
    ) -> Result<Arc<Found>, Refusal> {
        let (namespace, name) = (&exposed.namespace, &exposed.service);
        let found = match timeout_at(deadline, self.services.get(namespace, name)).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                let cause = &*error as &dyn std::error::Error;
                tracing::warn!(error = cause, "a Service could not be looked up");
                return Err(unavailable(format!(
                    "{error}, the agent's API server did not tell it"
                )));
            }
            Err(tokio::time::error::Elapsed { .. }) => {
                let why = "the agent's API server did not answer in time";
                return Err(unavailable(format!(
                    "failed to look up {namespace}/{name}: {why}"
                )));
            }
        };
        found.ok_or_else(|| {
            let message = format!("there is no Service {name} in namespace {namespace}");
            Refusal::new(RefusalCode::ServiceNotFound, message)
        })
    }

    async fn dial_service(
        &self,
        service: &Service,
        exposed: &ExposedService,
        choice: &PortChoice,
        deadline: Instant,
    ) -> Result<Dialed, Refusal> {
        let (namespace, name) = (&exposed.namespace, &exposed.service);
        if service.external_name {
            let message =
                format!("{namespace}/{name} is an ExternalName Service, which is never dialled");
            return Err(Refusal::new(RefusalCode::AgentRefused, message));
        }
        let port = choose(service, choice, exposed, &self.allow)?;
        let mut addresses = self.addresses(service, exposed, port)?;
        addresses.shuffle(&mut rand::rng());
        addresses.truncate(TRIES);
        let mut refusal = None;
        for (tried, address) in addresses.iter().enumerate() {
            let left = u32::try_from(addresses.len() - tried).unwrap_or(1);
            let share = (deadline - Instant::now()) / left;
            match timeout_at(Instant::now() + share, TcpStream::connect(address)).await {
                Ok(Ok(tcp)) => {
                    return Ok(Dialed {
                        tcp,
                        port: port.clone(),
                    });
                }
                Ok(Err(error)) => refusal = Some(failed(exposed, port, *address, &error)),
                Err(_) => refusal = Some(timed_out(exposed, port)),
            }
        }
        Err(refusal.unwrap_or_else(|| no_endpoints(exposed, port)))
    }

    /// Where a port is served; only addresses that may be dialled.
    fn addresses(
        &self,
        service: &Service,
        exposed: &ExposedService,
        port: &ServicePort,
    ) -> Result<Vec<SocketAddr>, Refusal> {
        let mut addresses = vec![];
        let mut why_not = None;
        for endpoint in &service.endpoints {
            let Some((_, number)) = endpoint.ports.iter().find(|(name, _)| *name == port.name)
            else {
                continue;
            };
            match (self.forbidden)(endpoint.address, &self.own) {
                None => addresses.push(SocketAddr::new(endpoint.address, *number)),
                Some(why) => why_not = Some((endpoint.address, why)),
            }
        }
        match why_not {
            Some((address, why)) if addresses.is_empty() => {
                let ExposedService {
                    namespace, service, ..
                } = exposed;
                let message = format!("{namespace}/{service} leads to {address}, and {why}");
                Err(Refusal::new(RefusalCode::AgentRefused, message))
            }
            _ if addresses.is_empty() => Err(no_endpoints(exposed, port)),
            _ => Ok(addresses),
        }
    }
}

fn unavailable(message: String) -> Refusal {
    Refusal::new(RefusalCode::Unavailable, message)
}

fn no_endpoints(exposed: &ExposedService, port: &ServicePort) -> Refusal {
    let message = format!(
        "Service {} has no endpoint that is ready",
        at(exposed, port)
    );
    let ExposedService {
        namespace, service, ..
    } = exposed;
    Refusal::new(RefusalCode::NoEndpoints, message).with_hint(format!(
        "in that cluster, `kubectl -n {namespace} get endpointslices -l kubernetes.io/service-name={service}` shows them"
    ))
}

fn timed_out(exposed: &ExposedService, port: &ServicePort) -> Refusal {
    let message = format!("Service {} did not answer in time", at(exposed, port));
    Refusal::new(RefusalCode::DialTimeout, message)
}

fn failed(
    exposed: &ExposedService,
    port: &ServicePort,
    address: SocketAddr,
    error: &io::Error,
) -> Refusal {
    tracing::debug!(%address, %error, "an endpoint could not be dialled");
    let at = at(exposed, port);
    match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            let message = format!("Service {at} refused the connection");
            Refusal::new(RefusalCode::ConnectionRefused, message)
        }
        io::ErrorKind::TimedOut => timed_out(exposed, port),
        _ => Refusal::new(
            RefusalCode::DialFailed,
            format!("Service {at} cannot be reached: {error}"),
        ),
    }
}

fn at(exposed: &ExposedService, port: &ServicePort) -> String {
    format!("{}/{}:{}", exposed.namespace, exposed.service, port.number)
}

#[cfg(test)]
mod tests;
