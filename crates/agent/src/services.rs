//! The member's Services, as its API server or a file tells them.

mod cache;
mod files;
mod kubernetes;

use std::{fmt, net::IpAddr, sync::Arc};

use futures::future::BoxFuture;
use thiserror::Error;

pub(crate) use self::cache::{Cache, Found};
pub use self::{
    files::{FileServices, ServicesFileError},
    kubernetes::KubeServices,
};

/// A Service with its endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// Whether it is only another name for something elsewhere, which is never dialled.
    pub external_name: bool,
    /// Its TCP ports.
    pub ports: Vec<ServicePort>,
    /// Where it is served; those that are ready.
    pub endpoints: Vec<Endpoint>,
}

/// A TCP port of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServicePort {
    /// Its number.
    pub number: u16,
    /// Its name; empty when it has none.
    pub name: String,
    /// Its `appProtocol`; empty when it has none.
    pub app_protocol: String,
}

/// One address that serves a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The address.
    pub address: IpAddr,
    /// Number of each of the Service's ports there, by the port's name.
    pub ports: Vec<(String, u16)>,
}

/// A Service cannot be looked up at the moment.
#[derive(Clone, Debug, Error)]
#[error("failed to look up Service {namespace}/{service}")]
pub struct LookupError {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub service: String,
    /// Why.
    pub source: Arc<dyn std::error::Error + Send + Sync>,
}

/// Looks Services up.
pub trait Services: fmt::Debug + Send + Sync + 'static {
    /// The Service with its endpoints; `None` when there is none of this name.
    fn look_up<'a>(
        &'a self,
        namespace: &'a str,
        service: &'a str,
    ) -> BoxFuture<'a, Result<Option<Service>, LookupError>>;

    /// Whether the addresses were written down by the member's owner, who then means those of the
    /// agent's own machine too.
    fn written_down(&self) -> bool {
        false
    }
}
