//! Removes join tokens some time after they have expired. Until then they tell who comes with one
//! that it has expired, or was used, instead of that it never existed.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt};
use strait_api::wire_names::{HUB_NAMESPACE, JOIN_SECRET_PREFIX, JOIN_SECRET_TYPE};
use strait_install::JoinRecord;
use strait_kube_kit::{Controller, Objects, Round, delete_same};
use strait_runtime::clock;

use crate::inventory::lives;

/// How long an expired token is kept.
const KEPT: SignedDuration = SignedDuration::from_hours(1);

/// The controller.
pub(crate) struct JoinTokens {
    pub(crate) client: Client,
    /// Those of the hub's namespace.
    pub(crate) secrets: Objects<Secret>,
    /// Secrets that were said to be no tokens.
    pub(crate) said: BTreeSet<String>,
}

/// What to do now, and when to look again.
#[derive(Debug, Default, PartialEq, Eq)]
struct Decision {
    /// Name and uid.
    delete: Vec<(String, String)>,
    again: Option<Duration>,
    /// Names of Secrets that cannot be read as tokens; they stay.
    unreadable: Vec<String>,
}

impl Controller for JoinTokens {
    const NAME: &'static str = "join-tokens";

    async fn ready(&self) -> bool {
        self.secrets.ready().await
    }

    async fn changed(&mut self) -> bool {
        self.secrets.changed().await
    }

    async fn round(&mut self) -> Round {
        let mut round = Round::new();
        let decision = decide(&self.secrets.all(), clock::timestamp());
        let api: Api<Secret> = Api::namespaced(self.client.clone(), HUB_NAMESPACE);
        for (name, uid) in &decision.delete {
            if round.note(delete_same(&api, name, uid).await).is_some() {
                tracing::info!(secret = name, "expired join token removed");
            }
        }
        for name in decision.unreadable {
            if self.said.insert(name.clone()) {
                tracing::warn!(secret = name, "this is no join token, and is left alone");
            }
        }
        if let Some(delay) = decision.again {
            round.again_in(delay);
        }
        round
    }
}

fn decide(secrets: &[Arc<Secret>], now: Timestamp) -> Decision {
    let mut decision = Decision::default();
    let tokens = secrets.iter().filter(|secret| {
        secret.type_.as_deref() == Some(JOIN_SECRET_TYPE)
            && secret.name_any().starts_with(JOIN_SECRET_PREFIX)
            && lives(secret.as_ref())
    });
    for secret in tokens {
        let data = secret
            .data
            .iter()
            .flatten()
            .map(|(key, value)| (key.clone(), value.0.as_slice()))
            .collect();
        let Ok(record) = JoinRecord::from_data(&data) else {
            decision.unreadable.push(secret.name_any());
            continue;
        };
        let left = record.expires.duration_since(now).saturating_add(KEPT);
        match Duration::try_from(left) {
            Ok(left) if !left.is_zero() => {
                decision.again = Some(decision.again.map_or(left, |before| before.min(left)));
            }
            _ => decision
                .delete
                .extend(secret.uid().map(|uid| (secret.name_any(), uid))),
        }
    }
    decision
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use kube::core::ObjectMeta;
    use strait_types::JoinCredential;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn token(name: &str, expires: i64) -> Arc<Secret> {
        let credential = JoinCredential::from_random([1; 8], [2; 32]);
        let record = JoinRecord::new("cluster1".parse().unwrap(), &credential, at(expires));
        let bytes = |(key, text): (String, String)| (key, ByteString(text.into_bytes()));
        Arc::new(Secret {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                uid: Some(format!("uid-{name}")),
                ..ObjectMeta::default()
            },
            type_: Some(JOIN_SECRET_TYPE.to_owned()),
            data: Some(record.to_data().into_iter().map(bytes).collect()),
            ..Secret::default()
        })
    }

    #[test]
    fn an_expired_token_goes_after_an_hour_and_no_other_secret_does() {
        let other = Secret {
            type_: Some("Opaque".to_owned()),
            ..(*token("strait-join-d", 0)).clone()
        };
        let broken = Secret {
            data: None,
            ..(*token("strait-join-e", 0)).clone()
        };
        let secrets = [
            token("strait-join-a", 1_000),
            token("strait-join-b", 1_001),
            token("other", 0),
            Arc::new(other),
            Arc::new(broken),
        ];
        let decision = decide(&secrets, at(1_000 + 3_600));
        let expected = Decision {
            delete: vec![("strait-join-a".to_owned(), "uid-strait-join-a".to_owned())],
            again: Some(Duration::from_secs(1)),
            unreadable: vec!["strait-join-e".to_owned()],
        };
        assert_eq!(decision, expected);
    }
}
