//! What an agent lets the hub reach.

use std::{fmt, str::FromStr};

use thiserror::Error;

use crate::{
    InvalidPort, Port,
    label::{self, InvalidLabel},
};

/// `namespace/service[:port]`, in which `*` stands for any run of characters of the namespace or
/// the service, and for any port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowPattern {
    namespace: Glob,
    service: Glob,
    port: Option<Port>,
}

/// Why a text is not an [`AllowPattern`].
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum InvalidAllowPattern {
    /// There is no `/`.
    #[error("it is not of the form `namespace/service[:port]`")]
    Form,
    /// One part cannot be a name, even with its `*`.
    #[error("its {part} is wrong: {wrong}")]
    Part {
        /// `namespace` or `service`.
        part: &'static str,
        /// What is wrong with it.
        wrong: InvalidLabel,
    },
    /// The port is wrong.
    #[error(transparent)]
    Port(#[from] InvalidPort),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Glob(Box<str>);

// === impl AllowPattern ===

impl AllowPattern {
    /// The pattern that allows everything.
    #[must_use]
    pub fn everything() -> Self {
        Self {
            namespace: Glob("*".into()),
            service: Glob("*".into()),
            port: None,
        }
    }

    /// Whether it allows this port of this Service. `name` is the port's name, empty when it has
    /// none.
    #[must_use]
    pub fn allows(&self, namespace: &str, service: &str, number: u16, name: &str) -> bool {
        let port = match &self.port {
            None => true,
            Some(Port::Number(allowed)) => allowed.get() == number,
            Some(Port::Name(allowed)) => **allowed == *name,
        };
        port && self.covers(namespace, service)
    }

    /// Whether it allows some port of this Service.
    #[must_use]
    pub fn covers(&self, namespace: &str, service: &str) -> bool {
        self.namespace.matches(namespace) && self.service.matches(service)
    }
}

impl FromStr for AllowPattern {
    type Err = InvalidAllowPattern;

    fn from_str(text: &str) -> Result<Self, InvalidAllowPattern> {
        let (namespace, rest) = text.split_once('/').ok_or(InvalidAllowPattern::Form)?;
        let (service, port) = match rest.split_once(':') {
            None | Some((_, "*")) => (rest.trim_end_matches(":*"), None),
            Some((service, port)) => (service, Some(port.parse()?)),
        };
        Ok(Self {
            namespace: Glob::parse("namespace", namespace)?,
            service: Glob::parse("service", service)?,
            port,
        })
    }
}

impl fmt::Display for AllowPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace.0, self.service.0)?;
        match &self.port {
            None => Ok(()),
            Some(port) => write!(f, ":{port}"),
        }
    }
}

// === impl Glob ===

impl Glob {
    fn parse(part: &'static str, text: &str) -> Result<Self, InvalidAllowPattern> {
        // With letters for the stars, what is left must be a name.
        label::check(&text.replace('*', "x"))
            .map_err(|wrong| InvalidAllowPattern::Part { part, wrong })?;
        Ok(Self(text.into()))
    }

    fn matches(&self, text: &str) -> bool {
        let mut parts = self.0.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = text.strip_prefix(first) else {
            return false;
        };
        let mut parts: Vec<&str> = parts.collect();
        let Some(last) = parts.pop() else {
            return rest.is_empty();
        };
        for part in parts {
            match rest.split_once(part) {
                Some((_, after)) => rest = after,
                None => return false,
            }
        }
        rest.ends_with(last)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_allow_what_they_say() {
        for (pattern, namespace, service, number, name, allowed) in [
            ("*/*", "default", "search", 443, "https", true),
            ("default/*", "default", "search", 443, "", true),
            ("default/*", "kube-system", "search", 443, "", false),
            ("default/search:443", "default", "search", 443, "", true),
            ("default/search:443", "default", "search", 80, "", false),
            (
                "default/search:https",
                "default",
                "search",
                8443,
                "https",
                true,
            ),
            ("default/search:https", "default", "search", 443, "", false),
            ("default/search:*", "default", "search", 1, "", true),
            ("team-*/web-*-v*", "team-a", "web-x-v2", 80, "", true),
            ("team-*/web-*-v*", "team-a", "web-v2", 80, "", false),
            ("team-*/web", "tea", "web", 80, "", false),
            ("a*a/*", "a", "x", 80, "", false),
            ("*-prod/*", "shop-prod", "x", 80, "", true),
        ] {
            let parsed: AllowPattern = pattern.parse().unwrap();
            assert_eq!(
                parsed.allows(namespace, service, number, name),
                allowed,
                "{pattern} {namespace}/{service}:{number}"
            );
        }
    }

    #[test]
    fn wrong_patterns_say_what_is_wrong() {
        assert_eq!(
            "search".parse::<AllowPattern>(),
            Err(InvalidAllowPattern::Form)
        );
        for (bad, part) in [
            ("/x", "namespace"),
            ("A/x", "namespace"),
            ("a/", "service"),
            ("a/b.c", "service"),
        ] {
            let wrong = bad.parse::<AllowPattern>().unwrap_err().to_string();
            assert!(wrong.contains(part), "{bad}: {wrong}");
        }
        assert!("a/b:0".parse::<AllowPattern>().is_err());
    }

    proptest! {
        #[test]
        fn a_pattern_survives_its_text(text in "[a-z*]{1,9}/[a-z*]{1,9}(:[1-9][0-9]{0,3})?") {
            let pattern: AllowPattern = text.parse().unwrap();
            prop_assert_eq!(pattern.to_string(), text);
        }

        #[test]
        fn a_name_matches_itself(namespace in "[a-z]{1,9}", service in "[a-z]{1,9}") {
            let pattern: AllowPattern = format!("{namespace}/{service}").parse().unwrap();
            prop_assert!(pattern.covers(&namespace, &service));
            prop_assert!(AllowPattern::everything().covers(&namespace, &service));
        }
    }
}
