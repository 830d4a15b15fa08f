//! How the authorities are, in the words of a condition. Pure.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use strait_api::ConditionStatus;

use super::authority::Stored;

const MISSING: &str = "it is not there; restore it, or delete ConfigMap strait-hub-info to begin anew, \
                       with which every member needs a new token";

/// Status, reason and message of a condition about these Secrets, by their names.
pub(crate) fn health<'a>(
    secrets: impl IntoIterator<Item = (&'static str, Option<&'a Secret>)>,
    now: Timestamp,
) -> (ConditionStatus, &'static str, String) {
    let mut problem = None;
    let mut sentences = vec![];
    for (name, secret) in secrets {
        match ends(secret) {
            Ok(end) if end <= now => {
                problem.get_or_insert("Expired");
                sentences.push(format!("the authority in Secret {name} ended at {end}"));
            }
            Ok(end) => sentences.push(format!(
                "the authority in Secret {name} is valid until {end}"
            )),
            Err((reason, message)) => {
                problem.get_or_insert(reason);
                sentences.push(format!("Secret {name}: {message}"));
            }
        }
    }
    let message = sentences.join("; ");
    match problem {
        None => (ConditionStatus::True, "Valid", message),
        Some(reason) => (ConditionStatus::False, reason, message),
    }
}

/// When the authority of a Secret ends, or reason and message why nobody knows.
fn ends(secret: Option<&Secret>) -> Result<Timestamp, (&'static str, String)> {
    let secret = secret.ok_or_else(|| ("Missing", MISSING.to_owned()))?;
    match Stored::of(secret).read() {
        Ok(authority) => Ok(authority.validity.not_after),
        Err(broken) => {
            let cause = std::error::Error::source(&broken);
            let cause = cause.map_or_else(String::new, |cause| format!(": {cause}"));
            let message = format!("{broken}{cause}; the last good one stays in force");
            Err(("Broken", message))
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use k8s_openapi::ByteString;
    use strait_pki::Ca;

    use super::*;
    use crate::certificates::authority::{CERTIFICATE, created};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    #[test]
    fn a_secret_that_is_missing_broken_or_old_is_told() {
        let ca = Ca::generate("test", SignedDuration::from_hours(1), at(0)).unwrap();
        let data = created(&ca).into_iter();
        let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
        let good = Secret {
            data: Some(
                data.map(|(key, value)| (key.to_owned(), bytes(value.reveal())))
                    .collect(),
            ),
            ..Secret::default()
        };
        let mut broken = good.clone();
        broken
            .data
            .get_or_insert_default()
            .insert(CERTIFICATE.to_owned(), bytes("x"));

        let say = |second, secret| health([("a", Some(&good)), ("b", secret)], at(second));
        let (status, reason, message) = say(1, Some(&good));
        assert_eq!((status, reason), (ConditionStatus::True, "Valid"));
        assert!(message.contains("2027-01-15T09:00:00Z"), "{message}");
        for (second, secret, reason, told) in [
            (1, None, "Missing", "Secret b: it is not there"),
            (
                1,
                Some(&broken),
                "Broken",
                "Secret b: tls.crt cannot be used",
            ),
            (
                3_600,
                Some(&good),
                "Expired",
                "the authority in Secret b ended",
            ),
        ] {
            let (status, said, message) = say(second, secret);
            assert_eq!((status, said), (ConditionStatus::False, reason));
            assert!(message.contains(told), "{message}");
        }
    }
}
