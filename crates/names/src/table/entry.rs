//! One line of the table.

use std::num::NonZeroU16;

use strait_types::{ClusterName, InvalidPort, InvalidServiceName, Port, ServiceName};
use thiserror::Error;

/// What the object of an entrypoint declares, as texts that nobody has checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// The object's name.
    pub object: String,
    /// The object's uid.
    pub uid: String,
    /// `spec.service`.
    pub service: String,
    /// `spec.namespace`.
    pub namespace: String,
    /// `spec.ports`.
    pub ports: Vec<String>,
}

/// An entrypoint that can be resolved.
#[derive(Clone, Debug)]
pub struct Entry<P> {
    service: ServiceName,
    object: String,
    uid: String,
    ports: Vec<Port>,
    policy: P,
}

/// Why a declaration makes no entry. The field is named as in the object.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum InvalidEntry {
    /// `spec.service` or `spec.namespace` is not a label.
    #[error("spec.{field}: `{text}` is no name that Kubernetes takes")]
    Name {
        /// `service` or `namespace`.
        field: &'static str,
        /// What it says, shortened.
        text: String,
        /// What is wrong.
        source: InvalidServiceName,
    },
    /// An item of `spec.ports` is no port.
    #[error("spec.ports[{index}]: {source}")]
    Port {
        /// Which one.
        index: usize,
        /// What is wrong.
        source: InvalidPort,
    },
}

// === impl Declared ===

impl Declared {
    /// Checks the declaration of an entrypoint of this cluster.
    ///
    /// # Errors
    /// Names the first field that is wrong.
    pub fn check<P>(&self, cluster: &ClusterName, policy: P) -> Result<Entry<P>, InvalidEntry> {
        let service = ServiceName::new(&self.service, &self.namespace, cluster.clone());
        let service = service.map_err(|source| self.wrong_name(source))?;
        let ports = self
            .ports
            .iter()
            .enumerate()
            .map(|(index, port)| {
                port.parse()
                    .map_err(|source| InvalidEntry::Port { index, source })
            })
            .collect::<Result<_, _>>()?;
        Ok(Entry {
            service,
            object: self.object.clone(),
            uid: self.uid.to_ascii_lowercase(),
            ports,
            policy,
        })
    }

    fn wrong_name(&self, source: InvalidServiceName) -> InvalidEntry {
        let (field, text) = match &source {
            InvalidServiceName::Part {
                part: "namespace", ..
            } => ("namespace", &self.namespace),
            _ => ("service", &self.service),
        };
        InvalidEntry::Name {
            field,
            text: text.chars().take(80).collect(),
            source,
        }
    }
}

// === impl Entry ===

impl<P> Entry<P> {
    /// The service it leads to.
    #[must_use]
    pub fn service(&self) -> &ServiceName {
        &self.service
    }

    /// The name of its object, which rights are about.
    #[must_use]
    pub fn object(&self) -> &str {
        &self.object
    }

    /// The uid of its object, in lower case.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The ports that it exposes; none means all of the Service.
    #[must_use]
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// What the table's owner keeps with it.
    #[must_use]
    pub fn policy(&self) -> &P {
        &self.policy
    }

    /// Whether a port is exposed, of which the number or the name is known, or both.
    #[must_use]
    pub fn allows(&self, number: Option<NonZeroU16>, name: Option<&str>) -> bool {
        self.ports.is_empty()
            || self.ports.iter().any(|port| match port {
                Port::Number(listed) => number == Some(*listed),
                Port::Name(listed) => name == Some(&**listed),
            })
    }
}

/// `service--namespace--cluster`: the name as one label of a host name.
pub(super) fn one_label(service: &ServiceName) -> String {
    format!(
        "{}--{}--{}",
        service.service(),
        service.namespace(),
        service.cluster()
    )
}
