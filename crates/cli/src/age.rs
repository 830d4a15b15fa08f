//! Spans of time as people read them.

use jiff::{SignedDuration, Timestamp};

/// `12s`, `3m10s`, `3h12m`, `5d4h`: the two largest units.
pub(crate) fn age(since: Timestamp, now: Timestamp) -> String {
    span(now.duration_since(since))
}

pub(crate) fn span(span: SignedDuration) -> String {
    let seconds = span.as_secs().max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let two = |large: i64, unit: char, small: i64, small_unit: char| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit}{small}{small_unit}"),
    };
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, minutes) => two(minutes, 'm', seconds % 60, 's'),
        (0, hours, _) => two(hours, 'h', minutes % 60, 'm'),
        (days, ..) => two(days, 'd', hours % 24, 'h'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_units_are_enough() {
        for (seconds, text) in [
            (-5, "0s"),
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (190, "3m10s"),
            (3 * 3600 + 12 * 60 + 9, "3h12m"),
            (5 * 86400 + 4 * 3600 + 60, "5d4h"),
            (86400, "1d"),
        ] {
            assert_eq!(span(SignedDuration::from_secs(seconds)), text);
        }
    }
}
