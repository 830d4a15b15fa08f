//! What to do about the identity. Pure.

use jiff::Timestamp;
use strait_pki::{Rotation, Validity, rotation};
use strait_types::JoinToken;

/// All that counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    /// The identity in use: the id of its token and its validity.
    pub(crate) identity: Option<(&'a str, Validity)>,
    /// The token that is there.
    pub(crate) token: Option<&'a JoinToken>,
    /// Whether that token was tried in vain and waits for its next try.
    pub(crate) waits: bool,
    /// A fraction of 0 to 1 that stays the same for one process.
    pub(crate) jitter: f64,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing, until something changes or this time comes.
    Wait(Option<Timestamp>),
    /// Join with the token.
    Join,
    /// Renew the certificate.
    Renew,
    /// The certificate has ended, and only another token helps.
    Lost,
}

/// A token that the identity in use was not got with is there to be used: the administrator wants
/// the cluster to join, again or elsewhere.
pub(crate) fn decide(seen: Seen<'_>, now: Timestamp) -> Step {
    match (seen.identity, seen.token) {
        (None, None) => Step::Wait(None),
        (None, Some(_)) => Step::Join,
        (Some((got_with, validity)), token) => {
            let other = token.is_some_and(|token| token.token.id().as_str() != got_with);
            let due = rotation(validity.made(), validity.not_after, now, seen.jitter);
            match due {
                // A token that does not help must not cost the identity that does.
                Rotation::Renew if other && seen.waits => Step::Renew,
                Rotation::Keep { .. } | Rotation::Renew | Rotation::Expired if other => Step::Join,
                Rotation::Keep { until } => Step::Wait(Some(until)),
                Rotation::Renew => Step::Renew,
                Rotation::Expired => Step::Lost,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use strait_types::JoinCredential;

    use super::*;

    #[test]
    fn a_new_token_is_used_and_an_old_one_is_not() {
        let token = token();
        let id = token.token.id().as_str();
        for (identity, token, step) in [
            (None, None, Step::Wait(None)),
            (None, Some(&token), Step::Join),
            (Some("other"), Some(&token), Step::Join),
            (Some(id), Some(&token), Step::Wait(Some(at(200)))),
            (Some(id), None, Step::Wait(Some(at(200)))),
            (Some(""), None, Step::Wait(Some(at(200)))),
        ] {
            assert_eq!(step_at(identity, token, 100), step, "{identity:?}");
        }
    }

    #[test]
    fn a_certificate_is_renewed_before_it_ends() {
        assert_eq!(step_at(Some("x"), None, 201), Step::Renew);
        assert_eq!(step_at(Some("x"), None, 299), Step::Renew);
        assert_eq!(step_at(Some("x"), None, 300), Step::Lost);
        assert_eq!(step_at(Some("x"), Some(&token()), 300), Step::Join);
    }

    #[test]
    fn a_token_that_was_refused_does_not_stop_renewals() {
        let token = token();
        assert_eq!(step(Some("x"), Some(&token), 100, true), Step::Join);
        assert_eq!(step(Some("x"), Some(&token), 201, true), Step::Renew);
        assert_eq!(step(Some("x"), Some(&token), 201, false), Step::Join);
        assert_eq!(step(Some("x"), Some(&token), 300, true), Step::Join);
    }

    fn step_at(identity: Option<&str>, token: Option<&JoinToken>, now: i64) -> Step {
        step(identity, token, now, false)
    }

    fn step(identity: Option<&str>, token: Option<&JoinToken>, now: i64, waits: bool) -> Step {
        let validity = Validity {
            // Made at 0, reaching back a tenth of its life.
            not_before: at(-30),
            not_after: at(300),
        };
        let identity = identity.map(|id| (id, validity));
        decide(
            Seen {
                identity,
                token,
                waits,
                jitter: 0.0,
            },
            at(now),
        )
    }

    fn token() -> JoinToken {
        JoinToken {
            cluster: "cluster1".parse().unwrap(),
            expires: at(1000),
            hubs: vec![],
            ca_bundle: String::new(),
            token: JoinCredential::from_random([1; 8], [2; 32]),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }
}
