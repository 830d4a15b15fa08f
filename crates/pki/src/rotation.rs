//! When a certificate is replaced.

use jiff::{SignedDuration, Timestamp};

/// What to do about a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotation {
    /// Nothing before this.
    Keep {
        /// When to renew it.
        until: Timestamp,
    },
    /// Renew it; it is still valid.
    Renew,
    /// It is not valid any more.
    Expired,
}

/// Decides about a certificate: it is renewed after two thirds of its life, and up to a tenth of
/// its life later by `jitter` (a fraction of 0 to 1 that stays the same for one certificate), so
/// that many that were issued together are not renewed together.
#[must_use]
pub fn rotation(
    not_before: Timestamp,
    not_after: Timestamp,
    now: Timestamp,
    jitter: f64,
) -> Rotation {
    if now >= not_after {
        return Rotation::Expired;
    }
    let life = not_after.duration_since(not_before).as_secs_f64().max(0.0);
    let wait = life * (2.0 / 3.0 + jitter.clamp(0.0, 1.0) / 10.0);
    let until = SignedDuration::try_from_secs_f64(wait)
        .ok()
        .and_then(|wait| not_before.checked_add(wait).ok())
        .unwrap_or(not_before);
    if now < until {
        Rotation::Keep { until }
    } else {
        Rotation::Renew
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_certificate_is_renewed_after_two_thirds_of_its_life() {
        let decide = |now, jitter| rotation(at(1000), at(4000), at(now), jitter);
        assert_eq!(decide(1000, 0.0), Rotation::Keep { until: at(3000) });
        assert_eq!(decide(2999, 0.0), Rotation::Keep { until: at(3000) });
        assert_eq!(decide(3001, 0.0), Rotation::Renew);
        assert_eq!(decide(3001, 1.0), Rotation::Keep { until: at(3300) });
        assert_eq!(decide(3301, 1.0), Rotation::Renew);
        assert_eq!(decide(4000, 1.0), Rotation::Expired);
    }

    #[test]
    fn nonsense_is_renewed_and_never_kept() {
        assert_eq!(rotation(at(10), at(5), at(7), 0.5), Rotation::Expired);
        assert!(matches!(
            rotation(at(0), at(9), at(8), f64::NAN),
            Rotation::Renew
        ));
    }
}
