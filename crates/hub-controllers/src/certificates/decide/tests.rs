use k8s_openapi::{ByteString, api::core::v1::Secret};
use strait_api::wire_names::MANAGED_BY;
use strait_pki::{Bundle, Ca};

use super::*;
use crate::certificates::authority::{BUNDLE, CERTIFICATE, Data, KEY, NEXT_KEY, created};

const LIFETIME: i64 = 60_000;
const OVERLAP: i64 = 3_000;
const START: i64 = 1_800_000_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(START + second).unwrap()
}

fn times() -> AuthorityTimes {
    AuthorityTimes {
        lifetime: SignedDuration::from_secs(LIFETIME),
        overlap: SignedDuration::from_secs(OVERLAP),
    }
}

fn ca(second: i64) -> Ca {
    Ca::generate("test", SignedDuration::from_secs(LIFETIME), at(second)).unwrap()
}

fn secret(data: &Data) -> Secret {
    let mut secret = Secret {
        data: Some(
            data.iter()
                .map(|(key, value)| ((*key).to_owned(), ByteString(value.reveal().into())))
                .collect(),
        ),
        ..Secret::default()
    };
    let label = (MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned());
    secret.metadata.labels = Some([label].into());
    secret
}

fn stored(data: &Data) -> Stored {
    Stored::of(&secret(data))
}

fn trusted(data: &Data) -> usize {
    let bundle = Bundle::from_pem(data[BUNDLE].reveal().as_bytes()).unwrap();
    bundle.certificates().len()
}

fn step(data: &Data, second: i64) -> Plan {
    plan(Some(&stored(data)), true, times(), at(second))
}

#[test]
fn a_root_is_trusted_before_it_signs_and_after_it_has_signed() {
    assert!(matches!(plan(None, false, times(), at(0)), Plan::Create));
    assert!(matches!(plan(None, true, times(), at(0)), Plan::Lost));
    let first = created(&ca(0));
    let Plan::Keep { until } = step(&first, 1) else {
        panic!("a new authority is kept");
    };
    let due = until.as_second() - START;
    assert_eq!(due, LIFETIME * 2 / 3);
    assert!(matches!(step(&first, due + 1), Plan::Prepare));

    let second = stored(&first).prepared(&ca(due), at(due));
    assert_eq!(
        second[CERTIFICATE], first[CERTIFICATE],
        "the old one still signs"
    );
    assert_eq!(trusted(&second), 2);
    assert!(matches!(
        step(&second, due + OVERLAP - 1),
        Plan::Keep { .. }
    ));
    assert!(matches!(step(&second, due + OVERLAP), Plan::Promote));

    let third = stored(&second).promoted(at(due + OVERLAP));
    assert_eq!(third[KEY], second[NEXT_KEY]);
    assert!(!third.contains_key(NEXT_KEY));
    assert_eq!(trusted(&third), 2, "what the old one signed is still good");
    let Plan::Keep { until } = step(&third, due + OVERLAP + 1) else {
        panic!("a promoted authority is kept");
    };
    let ends = until.as_second() - START;
    assert!(matches!(step(&third, ends), Plan::Tidy));
    let fourth = stored(&third).tidied(at(ends));
    assert_eq!(trusted(&fourth), 1);
    assert!(matches!(step(&fourth, ends), Plan::Keep { .. }));
}

#[test]
fn a_root_that_has_expired_meanwhile_is_replaced_at_once() {
    let first = created(&ca(0));
    let late = LIFETIME + 1;
    assert!(matches!(step(&first, late), Plan::Prepare));
    let second = stored(&first).prepared(&ca(late), at(late));
    assert!(matches!(step(&second, late), Plan::Promote));
    let third = stored(&second).promoted(at(late));
    assert_eq!(trusted(&third), 1);
    assert!(matches!(step(&third, late), Plan::Keep { .. }));
}

#[test]
fn the_life_of_a_minute_has_the_same_steps() {
    let minute = SignedDuration::from_mins(1);
    let make = |second| Ca::generate("test", minute, at(second)).unwrap();
    let first = created(&make(0));
    assert!(matches!(step(&first, 39), Plan::Keep { .. }));
    assert!(matches!(step(&first, 40), Plan::Prepare));
    let second = stored(&first).prepared(&make(40), at(40));
    assert!(matches!(step(&second, 49), Plan::Keep { .. }));
    assert!(matches!(step(&second, 50), Plan::Promote));
}

#[test]
fn a_bundle_that_lacks_what_signs_is_put_right() {
    let mut data = created(&ca(0));
    data.remove(BUNDLE);
    assert!(matches!(step(&data, 1), Plan::Tidy));
    let tidied = stored(&data).tidied(at(1));
    assert_eq!(trusted(&tidied), 1);
    assert!(matches!(step(&tidied, 1), Plan::Keep { .. }));
}

#[test]
fn what_was_broken_by_hand_is_kept_and_named() {
    let good = created(&ca(0));
    for (key, value, told) in [
        (CERTIFICATE, "garbage", "tls.crt cannot be used"),
        (KEY, "garbage", "tls.key cannot be used"),
        (
            BUNDLE,
            "-----BEGIN CERTIFICATE-----\nx",
            "ca.crt cannot be used",
        ),
    ] {
        let mut data = good.clone();
        data.insert(key, strait_types::Redacted::new(value));
        let Plan::Broken(broken) = step(&data, 1) else {
            panic!("{key} is broken");
        };
        assert_eq!(broken.to_string(), told);
    }
    let mut data = good.clone();
    data.remove(KEY);
    let Plan::Broken(broken) = step(&data, 1) else {
        panic!("the key is missing");
    };
    assert_eq!(broken.to_string(), "tls.key is missing");
    let foreign = created(&ca(0));
    let mut data = good;
    data.insert(KEY, foreign[KEY].clone());
    assert!(matches!(step(&data, 1), Plan::Broken(_)));
}

#[test]
fn an_authority_of_somebody_else_is_never_written() {
    let mut theirs = secret(&created(&ca(0)));
    theirs.metadata.labels = None;
    let stored = Stored::of(&theirs);
    let plan = |second| plan(Some(&stored), true, times(), at(second));
    assert!(matches!(plan(1), Plan::Keep { .. }));
    assert!(matches!(plan(LIFETIME - 1), Plan::EndsSoon { .. }));
    assert!(matches!(plan(LIFETIME + 1), Plan::EndsSoon { .. }));
}
