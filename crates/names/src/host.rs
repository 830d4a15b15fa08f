//! Host names as callers write them, brought into one form.

/// Longest host name, in bytes (RFC 1035).
const MAX: usize = 253;
/// Longest label of a host name, in bytes (RFC 1035).
const MAX_LABEL: usize = 63;

/// The one form of a host name: lower case, no dot at the end. `None` when it is no host name:
/// empty or too long, an empty or too long label, another character than letters, digits and `-`,
/// or a `-` at the edge of a label.
pub(crate) fn normalise(host: &str) -> Option<String> {
    let host = host.strip_suffix('.').unwrap_or(host);
    let good = !host.is_empty() && host.len() <= MAX && host.split('.').all(is_label);
    good.then(|| host.to_ascii_lowercase())
}

/// What stands before `.domain`, if the host is under the domain.
pub(crate) fn under<'a>(host: &'a str, domain: &str) -> Option<&'a str> {
    if domain.is_empty() {
        return None;
    }
    host.strip_suffix(domain)?
        .strip_suffix('.')
        .filter(|rest| !rest.is_empty())
}

/// A label, and what stands behind each `--` in it: everything that may be a cluster's name.
pub(crate) fn tails(label: &str) -> impl Iterator<Item = &str> {
    let behind = label
        .match_indices("--")
        .filter_map(|(at, dashes)| label.get(at + dashes.len()..));
    std::iter::once(label).chain(behind)
}

fn is_label(label: &str) -> bool {
    (1..=MAX_LABEL).contains(&label.len())
        && label
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_and_the_last_dot_do_not_matter() {
        assert_eq!(
            normalise("Search.Default.cluster1.").as_deref(),
            Some("search.default.cluster1")
        );
        for wrong in ["", ".", "a..b", "-a", "a-.b", "[::1]", "a b", "ä", "$x.a"] {
            assert_eq!(normalise(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_domain_is_cut_at_a_dot_only() {
        assert_eq!(under("a.b.hub.test", "hub.test"), Some("a.b"));
        assert_eq!(under("a.bhub.test", "hub.test"), None);
        assert_eq!(under("hub.test", "hub.test"), None);
        assert_eq!(under("a.b", ""), None);
    }
}
