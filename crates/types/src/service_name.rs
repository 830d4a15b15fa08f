//! The address of a service of a cluster: `service.namespace.cluster`.

use std::{fmt, str::FromStr};

use thiserror::Error;

use crate::{
    ClusterName,
    label::{self, InvalidLabel},
};

/// A service of a member by its full name, `service.namespace.cluster`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceName {
    cluster: ClusterName,
    namespace: Box<str>,
    service: Box<str>,
}

/// Why a text is not a `service.namespace.cluster` name.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum InvalidServiceName {
    /// The text has not exactly three parts; holds how many.
    #[error("it has {0} parts, `service.namespace.cluster` has three")]
    Parts(usize),
    /// One part is not a label; says which.
    #[error("its {part} is wrong")]
    Part {
        /// `service`, `namespace` or `cluster`.
        part: &'static str,
        /// What is wrong with it.
        source: InvalidLabel,
    },
}

// === impl ServiceName ===

impl ServiceName {
    /// Makes a name of its parts.
    ///
    /// # Errors
    /// When the service or the namespace is not an RFC 1123 label.
    pub fn new(
        service: &str,
        namespace: &str,
        cluster: ClusterName,
    ) -> Result<Self, InvalidServiceName> {
        let check = |part, text: &str| {
            label::check(text).map_err(|source| InvalidServiceName::Part { part, source })
        };
        check("service", service)?;
        check("namespace", namespace)?;
        Ok(Self {
            cluster,
            namespace: namespace.into(),
            service: service.into(),
        })
    }

    /// The cluster that runs the service.
    #[must_use]
    pub fn cluster(&self) -> &ClusterName {
        &self.cluster
    }

    /// The service's namespace in its cluster.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The name of the Service object.
    #[must_use]
    pub fn service(&self) -> &str {
        &self.service
    }
}

impl FromStr for ServiceName {
    type Err = InvalidServiceName;

    fn from_str(text: &str) -> Result<Self, InvalidServiceName> {
        let parts: Vec<&str> = text.split('.').collect();
        let [service, namespace, cluster] = parts.as_slice() else {
            return Err(InvalidServiceName::Parts(parts.len()));
        };
        let cluster = cluster.parse().map_err(|source| InvalidServiceName::Part {
            part: "cluster",
            source,
        })?;
        Self::new(service, namespace, cluster)
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.service, self.namespace, self.cluster)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_three_labels() {
        let name: ServiceName = "search.default.cluster1".parse().unwrap();
        assert_eq!(
            (name.service(), name.namespace(), name.cluster().as_str()),
            ("search", "default", "cluster1")
        );
        assert_eq!(name.to_string(), "search.default.cluster1");
    }

    #[test]
    fn a_wrong_name_says_which_part() {
        assert_eq!(
            "a.b".parse::<ServiceName>(),
            Err(InvalidServiceName::Parts(2))
        );
        assert_eq!(
            "a.b.c.d".parse::<ServiceName>(),
            Err(InvalidServiceName::Parts(4))
        );
        assert_eq!(
            "a.B.c".parse::<ServiceName>(),
            Err(InvalidServiceName::Part {
                part: "namespace",
                source: InvalidLabel::BadChar('B')
            })
        );
    }
}
