//! What a configuration exposes: entrypoints, aliases, and what is wrong with it.

mod claims;
mod fields;
mod list;
mod map;
mod resolvers;

use std::{collections::BTreeSet, fmt};

use serde_json::Value;
use strait_types::{ClusterName, ServiceName};

use claims::Claims;

/// Everything that a configuration comes to, for the members that there are now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exposure {
    /// The entrypoints that must exist, sorted by name, each once.
    pub entrypoints: Vec<WantedEntrypoint>,
    /// Further host names, sorted by host. One host may appear for two clusters: the
    /// [`NameTable`](crate::NameTable) refuses it then.
    pub aliases: Vec<Alias>,
    /// What is wrong, in the order of the fields.
    pub problems: Vec<Problem>,
}

/// An entrypoint that the configuration asks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WantedEntrypoint {
    /// The service to expose.
    pub service: ServiceName,
    /// The first field that asks for it, e.g. `spec.services[0]`.
    pub source: String,
}

/// A host name beside the canonical one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alias {
    /// The host name, in lower case.
    pub host: String,
    /// Where it leads.
    pub service: ServiceName,
    /// The field that asks for it, e.g. `spec.serviceResolvers[1]`.
    pub source: String,
}

/// Something wrong with one entry. Only that entry suffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The field, e.g. `spec.services[0].cluster`.
    pub field: String,
    /// A word for programs.
    pub reason: ProblemReason,
    /// A sentence for people, without the field, no full stop.
    pub message: String,
}

/// What kind of problem it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProblemReason {
    /// A value of another type than the field has.
    WrongType,
    /// A field that must be there is not.
    MissingField,
    /// A field that does not exist.
    UnknownField,
    /// A name that Kubernetes would not take for such an object.
    InvalidName,
    /// A cluster that is not in the inventory. The entry works as soon as it is.
    UnknownCluster,
    /// A template without `$cluster`, which would mean the same host for every member.
    TemplateWithoutCluster,
    /// A template that does not make host names.
    InvalidHostname,
    /// Another entry says the same, or claims the same host name.
    Collision,
}

/// What a configuration exposes of these members.
///
/// `services` and `resolvers` are the raw values of `spec.services` and `spec.serviceResolvers`;
/// null is the same as absent. The result depends on nothing else, so a cluster that is unknown now
/// works as soon as it is a member.
#[must_use]
pub fn expand(
    services: Option<&Value>,
    resolvers: Option<&Value>,
    members: &BTreeSet<ClusterName>,
) -> Exposure {
    let mut claims = Claims::new(members);
    match services {
        None | Some(Value::Null) => {}
        Some(Value::Array(entries)) => list::read(entries, &mut claims),
        Some(Value::Object(entries)) => map::read(entries, &mut claims),
        Some(other) => claims.problem(fields::wrong_type(
            "spec.services",
            "a map of names or a list of entries",
            other,
        )),
    }
    match resolvers {
        None | Some(Value::Null) => {}
        Some(Value::Array(entries)) => resolvers::read(entries, &mut claims),
        Some(other) => claims.problem(fields::wrong_type(
            "spec.serviceResolvers",
            "a list of entries",
            other,
        )),
    }
    claims.finish()
}

// === impl ProblemReason ===

impl ProblemReason {
    /// The word as conditions carry it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WrongType => "WrongType",
            Self::MissingField => "MissingField",
            Self::UnknownField => "UnknownField",
            Self::InvalidName => "InvalidName",
            Self::UnknownCluster => "UnknownCluster",
            Self::TemplateWithoutCluster => "TemplateWithoutCluster",
            Self::InvalidHostname => "InvalidHostname",
            Self::Collision => "Collision",
        }
    }
}

impl fmt::Display for ProblemReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl Problem ===

impl Problem {
    pub(crate) fn new(
        field: impl Into<String>,
        reason: ProblemReason,
        message: impl Into<String>,
    ) -> Self {
        Self {
            field: field.into(),
            reason,
            message: message.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

#[cfg(test)]
mod tests;
