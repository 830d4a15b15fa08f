//! Secrets that do not print.

use std::fmt;

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

/// A secret text: `Debug` and `Display` print `[redacted]`, comparison takes constant time for
/// texts of one length. Serialisation writes the secret itself, so only put it where a secret
/// belongs.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Redacted(String);

// === impl Redacted ===

impl Redacted {
    /// Takes a secret in.
    #[must_use]
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// The secret itself, for the one place that needs it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl PartialEq for Redacted {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl Eq for Redacted {}

impl fmt::Debug for Redacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl fmt::Display for Redacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_never_prints() {
        let secret = Redacted::new("hunter2");
        assert_eq!(format!("{secret} {secret:?}"), "[redacted] [redacted]");
        assert_eq!(secret, Redacted::new("hunter2"));
        assert_ne!(secret, Redacted::new("hunter3"));
    }
}
