//! Ports by number and by name.

use std::{fmt, num::NonZeroU16, str::FromStr};

use thiserror::Error;

/// A port of a Service: its number or its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Port {
    /// By number.
    Number(NonZeroU16),
    /// By the name that the Service gives it (RFC 6335: 1 to 15 of `a-z0-9-`, one letter at least).
    Name(Box<str>),
}

/// The text is neither a port number nor a port name.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("`{0}` is neither a port number (1 to 65535) nor a port name (1 to 15 of a-z, 0-9, `-`)")]
pub struct InvalidPort(Box<str>);

// === impl Port ===

impl FromStr for Port {
    type Err = InvalidPort;

    fn from_str(text: &str) -> Result<Self, InvalidPort> {
        if let Ok(number) = text.parse::<NonZeroU16>()
            && text.bytes().all(|b| b.is_ascii_digit())
        {
            return Ok(Self::Number(number));
        }
        let named = (1..=15).contains(&text.len())
            && text
                .bytes()
                .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'))
            && text.bytes().any(|b| b.is_ascii_lowercase())
            && !text.starts_with('-')
            && !text.ends_with('-')
            && !text.contains("--");
        if named {
            Ok(Self::Name(text.into()))
        } else {
            Err(InvalidPort(
                text.chars().take(64).collect::<String>().into(),
            ))
        }
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_numbers_or_iana_names() {
        for text in ["1", "443", "65535", "https", "web-1", "8080x"] {
            assert_eq!(text.parse::<Port>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "0",
            "65536",
            "+80",
            "-1",
            "HTTP",
            "a--b",
            "-a",
            "a-",
            "sixteen-letters-",
        ] {
            assert!(text.parse::<Port>().is_err(), "{text}");
        }
    }
}
