//! The name of a cluster.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::label::{self, InvalidLabel};

/// The name of a member cluster, which is also the name of its namespace at the hub:
/// an RFC 1123 label.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClusterName(Box<str>);

// === impl ClusterName ===

impl ClusterName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ClusterName {
    type Err = InvalidLabel;

    fn from_str(text: &str) -> Result<Self, InvalidLabel> {
        label::check(text)?;
        Ok(Self(text.into()))
    }
}

impl TryFrom<String> for ClusterName {
    type Error = InvalidLabel;

    fn try_from(text: String) -> Result<Self, InvalidLabel> {
        text.parse()
    }
}

impl From<ClusterName> for String {
    fn from(name: ClusterName) -> Self {
        name.0.into()
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
