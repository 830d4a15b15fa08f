//! What the hub's cluster keeps of a join token: never the secret itself.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};
use strait_api::wire_names::{CLUSTER_LABEL, HUB_NAMESPACE, JOIN_SECRET_PREFIX, JOIN_SECRET_TYPE};
use strait_types::{ClusterName, JoinCredential, Redacted, TokenId};
use thiserror::Error;

use crate::object::{Kind, Object, Part};

/// A join token as the hub's cluster keeps it, in a Secret of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinRecord {
    /// The cluster that may join.
    pub cluster: ClusterName,
    /// Lower-case hex SHA-256 of the token's secret.
    pub secret_hash: Redacted,
    /// After this it is refused.
    pub expires: Timestamp,
    /// When it was used; it is refused from then on.
    pub used_at: Option<Timestamp>,
    /// Lower-case hex SHA-256 of the public key that it was used with, a colon, and the uid of the
    /// member: who holds that key may ask again when the answer was lost.
    pub used_by: Option<String>,
}

/// A Secret of the type of join tokens that cannot be read as one.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the join token's Secret has no valid `{0}`")]
pub struct InvalidJoinRecord(&'static str);

// === impl JoinRecord ===

impl JoinRecord {
    /// Key of the cluster's name.
    pub const CLUSTER: &'static str = "cluster";
    /// Key of the secret's hash.
    pub const SECRET_HASH: &'static str = "secretHash";
    /// Key of the time, RFC 3339, after which the token is refused.
    pub const EXPIRES: &'static str = "expires";
    /// Key of the time, RFC 3339, at which the token was used; absent before.
    pub const USED_AT: &'static str = "usedAt";

    /// Key of the public key's hash with which the token was used; absent before.
    pub const USED_BY: &'static str = "usedBy";

    /// The name of the Secret of a token.
    #[must_use]
    pub fn secret_name(id: &TokenId) -> String {
        format!("{JOIN_SECRET_PREFIX}{id}")
    }

    /// A record of a token that nobody has used yet.
    #[must_use]
    pub fn new(cluster: ClusterName, token: &JoinCredential, expires: Timestamp) -> Self {
        Self {
            cluster,
            secret_hash: token.secret_hash(),
            expires,
            used_at: None,
            used_by: None,
        }
    }

    /// Reads a Secret's data.
    ///
    /// # Errors
    /// Names the key that is missing or wrong.
    pub fn from_data<V: AsRef<[u8]>>(
        data: &BTreeMap<String, V>,
    ) -> Result<Self, InvalidJoinRecord> {
        let text = |key: &'static str| {
            let value = data
                .get(key)
                .and_then(|v| std::str::from_utf8(v.as_ref()).ok());
            value.ok_or(InvalidJoinRecord(key))
        };
        let time =
            |key: &'static str| text(key).and_then(|t| t.parse().or(Err(InvalidJoinRecord(key))));
        let used = data.contains_key(Self::USED_AT);
        Ok(Self {
            cluster: text(Self::CLUSTER)?
                .parse()
                .or(Err(InvalidJoinRecord(Self::CLUSTER)))?,
            secret_hash: Redacted::new(text(Self::SECRET_HASH)?),
            expires: time(Self::EXPIRES)?,
            used_at: if used {
                Some(time(Self::USED_AT)?)
            } else {
                None
            },
            used_by: text(Self::USED_BY).ok().map(str::to_owned),
        })
    }

    /// The Secret's data, as `stringData`.
    #[must_use]
    pub fn to_data(&self) -> BTreeMap<String, String> {
        let mut data = BTreeMap::from([
            (Self::CLUSTER.to_owned(), self.cluster.to_string()),
            (
                Self::SECRET_HASH.to_owned(),
                self.secret_hash.reveal().to_owned(),
            ),
            (Self::EXPIRES.to_owned(), self.expires.to_string()),
        ]);
        if let Some(used_at) = self.used_at {
            data.insert(Self::USED_AT.to_owned(), used_at.to_string());
        }
        if let Some(used_by) = &self.used_by {
            data.insert(Self::USED_BY.to_owned(), used_by.clone());
        }
        data
    }

    /// The Secret to apply for it.
    #[must_use]
    pub fn secret(&self, id: &TokenId, version: &str) -> Object {
        let mut labels = Part::Hub.labels("hub", version);
        labels[CLUSTER_LABEL] = Value::from(self.cluster.as_str());
        let metadata = json!({
            "name": Self::secret_name(id),
            "namespace": HUB_NAMESPACE,
            "labels": labels,
        });
        let rest = json!({ "type": JOIN_SECRET_TYPE, "stringData": self.to_data() });
        Object::new(Kind::Secret, metadata, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_its_secret_without_the_tokens_secret() {
        let token = JoinCredential::from_random([1; 8], [2; 32]);
        let expires = Timestamp::from_second(1_800_000_000).unwrap();
        let cluster: ClusterName = "cluster1".parse().unwrap();
        let mut record = JoinRecord::new(cluster, &token, expires);
        assert_eq!(JoinRecord::from_data(&record.to_data()), Ok(record.clone()));
        record.used_at = Some(Timestamp::from_second(1_700_000_000).unwrap());
        assert_eq!(JoinRecord::from_data(&record.to_data()), Ok(record.clone()));

        let secret = record.secret(token.id(), "1.2.3");
        assert_eq!(secret.name(), "strait-join-0101010101010101");
        let text = String::from(token);
        let (_, hidden) = text.split_once('.').unwrap();
        assert!(!secret.value().to_string().contains(hidden));
    }

    #[test]
    fn a_broken_secret_names_its_key() {
        let mut data = BTreeMap::from([
            ("cluster".to_owned(), "cluster1".to_owned()),
            ("secretHash".to_owned(), "00".to_owned()),
            ("expires".to_owned(), "tomorrow".to_owned()),
        ]);
        assert_eq!(
            JoinRecord::from_data(&data),
            Err(InvalidJoinRecord("expires"))
        );
        data.insert("expires".to_owned(), "2026-01-01T00:00:00Z".to_owned());
        data.insert("usedAt".to_owned(), String::new());
        assert_eq!(
            JoinRecord::from_data(&data),
            Err(InvalidJoinRecord("usedAt"))
        );
    }
}
