//! What to do about an authority.

use jiff::{SignedDuration, Timestamp};
use strait_pki::{Rotation, Validity, rotation};

use super::authority::{Authority, Broken, Stored};
use crate::config::AuthorityTimes;

/// What to do about an authority. A root is replaced in three steps, so that no verifier meets a
/// certificate of a root that it does not know: the successor is trusted, then it signs, then its
/// predecessor is forgotten once it has expired.
#[derive(Debug)]
pub(super) enum Plan {
    /// There is none and never was one: make it.
    Create,
    /// There is none any more. Another one would be a stranger to every member, so none is made.
    Lost,
    /// Make a successor, which is only trusted at first.
    Prepare,
    /// The successor has been trusted long enough: let it sign.
    Promote,
    /// The bundle lacks what signs, or holds what has expired.
    Tidy,
    /// Nothing before this.
    Keep {
        /// When to look again.
        until: Timestamp,
    },
    /// Somebody else's ends soon, and only he can replace it.
    EndsSoon {
        /// When it ends.
        at: Timestamp,
    },
    /// It cannot be read, and is kept as it is.
    Broken(Broken),
}

/// `told` says whether a hub's authorities have been told to others: then there were some.
pub(super) fn plan(
    stored: Option<&Stored>,
    told: bool,
    times: AuthorityTimes,
    now: Timestamp,
) -> Plan {
    let Some(stored) = stored else {
        return if told { Plan::Lost } else { Plan::Create };
    };
    match stored.read() {
        Err(broken) => Plan::Broken(broken),
        Ok(authority) if stored.ours => ours(&authority, times, now),
        Ok(authority) => theirs(&authority, now),
    }
}

fn ours(authority: &Authority, times: AuthorityTimes, now: Timestamp) -> Plan {
    let life = &authority.validity;
    let expired = |life: &Validity| life.not_after <= now;
    if let Some(next) = &authority.next {
        let promote = promote_at(life, next, times);
        if now >= promote {
            return Plan::Promote;
        }
        if authority.complete && !authority.trusted.iter().any(|(_, life)| expired(life)) {
            return Plan::Keep { until: promote };
        }
        return Plan::Tidy;
    }
    match rotation(life.made(), life.not_after, now, 0.0) {
        Rotation::Renew | Rotation::Expired => Plan::Prepare,
        Rotation::Keep { until } => {
            let others = authority.trusted.iter().map(|(_, life)| life.not_after);
            match others.min() {
                Some(first) if first <= now => Plan::Tidy,
                _ if !authority.complete => Plan::Tidy,
                Some(first) => Plan::Keep {
                    until: until.min(first),
                },
                None => Plan::Keep { until },
            }
        }
    }
}

/// When the successor begins to sign: after the overlap, and before its predecessor ends.
fn promote_at(life: &Validity, next: &Validity, times: AuthorityTimes) -> Timestamp {
    let whole = life.not_after.duration_since(life.made());
    let overlap = times.overlap.min(whole / 6);
    next.made()
        .checked_add(overlap)
        .unwrap_or(life.not_after)
        .min(life.not_after)
}

fn theirs(authority: &Authority, now: Timestamp) -> Plan {
    let life = &authority.validity;
    match rotation(life.not_before, life.not_after, now, 0.0) {
        Rotation::Keep { until } => Plan::Keep { until },
        Rotation::Renew | Rotation::Expired => Plan::EndsSoon { at: life.not_after },
    }
}

/// How long from `now` until `then`, never negative.
pub(super) fn until(then: Timestamp, now: Timestamp) -> std::time::Duration {
    let left = then.duration_since(now).max(SignedDuration::ZERO);
    std::time::Duration::try_from(left).unwrap_or_default()
}

#[cfg(test)]
mod tests;
