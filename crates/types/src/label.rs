//! The form that Kubernetes demands of namespaces, services and clusters (RFC 1123 labels).

use thiserror::Error;

/// Longest label, in bytes (RFC 1123, as Kubernetes enforces it).
const MAX: usize = 63;

/// Why a text is not an RFC 1123 label.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum InvalidLabel {
    /// Nothing is there.
    #[error("it is empty")]
    Empty,
    /// Longer than 63 bytes; holds the length.
    #[error("it has {0} characters, at most 63 are allowed")]
    TooLong(usize),
    /// A character other than `a-z`, `0-9` and `-`; holds it.
    #[error("`{0}` is not allowed, only a-z, 0-9 and `-` are")]
    BadChar(char),
    /// A `-` at the start or the end.
    #[error("it must start and end with a letter or a digit")]
    BadEdge,
}

/// Succeeds when `text` is an RFC 1123 label.
pub(crate) fn check(text: &str) -> Result<(), InvalidLabel> {
    if text.is_empty() {
        return Err(InvalidLabel::Empty);
    }
    if let Some(bad) = text
        .chars()
        .find(|c| !matches!(c, 'a'..='z' | '0'..='9' | '-'))
    {
        return Err(InvalidLabel::BadChar(bad));
    }
    if text.len() > MAX {
        return Err(InvalidLabel::TooLong(text.len()));
    }
    if text.starts_with('-') || text.ends_with('-') {
        return Err(InvalidLabel::BadEdge);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_follow_rfc_1123() {
        for good in ["a", "0", "cluster-1", &"x".repeat(63)] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        assert_eq!(check(""), Err(InvalidLabel::Empty));
        assert_eq!(check(&"x".repeat(64)), Err(InvalidLabel::TooLong(64)));
        assert_eq!(check("a.b"), Err(InvalidLabel::BadChar('.')));
        assert_eq!(check("A"), Err(InvalidLabel::BadChar('A')));
        assert_eq!(check("-a"), Err(InvalidLabel::BadEdge));
        assert_eq!(check("a-"), Err(InvalidLabel::BadEdge));
    }
}
