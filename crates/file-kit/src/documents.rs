//! YAML documents that are Kubernetes objects. Pure.

use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;

/// One object as it was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Document {
    /// Counts from 1, as people do.
    number: usize,
    /// `apiVersion`.
    pub(crate) api_version: String,
    /// `kind`.
    pub(crate) kind: String,
    value: Value,
}

/// Why a file of objects cannot be used.
#[derive(Debug, Error)]
pub enum DocumentError {
    /// It is not YAML.
    #[error("it is not YAML")]
    Yaml(#[source] Box<serde_saphyr::Error>),
    /// A document has no kind.
    #[error("document {number}: `apiVersion` and `kind` must be there")]
    NoKind {
        /// Which, from 1.
        number: usize,
    },
    /// A document's kind means nothing here.
    #[error("document {number}: {kind} of {api_version} means nothing here; known are {known}")]
    UnknownKind {
        /// Which, from 1.
        number: usize,
        /// Its kind.
        kind: String,
        /// Its version.
        api_version: String,
        /// What would.
        known: &'static str,
    },
    /// A field is wrong.
    #[error("document {number} ({kind}): {field}: {why}")]
    Field {
        /// Which, from 1.
        number: usize,
        /// Its kind.
        kind: String,
        /// The path of the field.
        field: String,
        /// What is wrong.
        why: String,
    },
    /// A document that must be there once.
    #[error("there must be one {0}")]
    Missing(&'static str),
}

// === impl Document ===

impl Document {
    /// The documents of a file, empty ones left out.
    pub(crate) fn all(text: &str) -> Result<Vec<Self>, DocumentError> {
        let values: Vec<Value> = serde_saphyr::from_multiple(text)
            .map_err(|error| DocumentError::Yaml(Box::new(error)))?;
        let numbered = values.into_iter().enumerate();
        let filled = numbered.filter(|(_, value)| !value.is_null());
        filled
            .map(|(index, value)| {
                let text = |key: &str| value[key].as_str().map(str::to_owned);
                let number = index + 1;
                let (Some(api_version), Some(kind)) = (text("apiVersion"), text("kind")) else {
                    return Err(DocumentError::NoKind { number });
                };
                Ok(Self {
                    number,
                    api_version,
                    kind,
                    value,
                })
            })
            .collect()
    }

    /// The document as this type.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, DocumentError> {
        serde_path_to_error::deserialize(&self.value)
            .map_err(|error| self.wrong(&error.path().to_string(), error.inner()))
    }

    /// An error about a field of it.
    pub(crate) fn wrong(&self, field: &str, why: impl ToString) -> DocumentError {
        DocumentError::Field {
            number: self.number,
            kind: self.kind.clone(),
            field: field.to_owned(),
            why: why.to_string(),
        }
    }

    /// It is of no kind that means something.
    pub(crate) fn unknown(&self, known: &'static str) -> DocumentError {
        DocumentError::UnknownKind {
            number: self.number,
            kind: self.kind.clone(),
            api_version: self.api_version.clone(),
            known,
        }
    }

    /// The API group, empty for the core one.
    pub(crate) fn group(&self) -> &str {
        let version = self.api_version.as_str();
        version.split_once('/').map_or("", |(group, _)| group)
    }
}
