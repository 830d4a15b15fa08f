//! Join tokens in Secrets.

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;
use strait_api::wire_names::{HUB_NAMESPACE, JOIN_SECRET_TYPE};
use strait_install::JoinRecord;
use strait_types::TokenId;

use super::answered;
use crate::deps::{JoinTokens, RecordVersion, Unanswered};

/// Join tokens in Secrets of the hub's namespace.
#[derive(Debug)]
pub(super) struct KubeJoinTokens {
    secrets: Api<Secret>,
}

// === impl KubeJoinTokens ===

impl KubeJoinTokens {
    pub(super) fn new(client: &Client) -> Self {
        Self {
            secrets: Api::namespaced(client.clone(), HUB_NAMESPACE),
        }
    }

    async fn read(&self, id: &TokenId) -> Result<Option<(JoinRecord, RecordVersion)>, Unanswered> {
        let name = JoinRecord::secret_name(id);
        let Some(secret) = answered("the join token", self.secrets.get_opt(&name)).await? else {
            return Ok(None);
        };
        if secret.type_.as_deref() != Some(JOIN_SECRET_TYPE) {
            return Ok(None);
        }
        let version = RecordVersion(secret.resource_version().unwrap_or_default());
        let data = secret.data.unwrap_or_default();
        let data = data
            .into_iter()
            .map(|(key, value)| (key, value.0))
            .collect();
        match JoinRecord::from_data::<Vec<u8>>(&data) {
            Ok(record) => Ok(Some((record, version))),
            Err(error) => {
                tracing::warn!(secret = name, %error, "a join token cannot be read");
                Ok(None)
            }
        }
    }

    /// The version in the patch makes the API server refuse it when somebody was faster.
    async fn mark(
        &self,
        id: &TokenId,
        version: RecordVersion,
        record: JoinRecord,
    ) -> Result<bool, Unanswered> {
        let used_at = record.used_at.map(|at| at.to_string());
        let patch = Patch::Merge(json!({
            "metadata": { "resourceVersion": version.0 },
            "stringData": {
                JoinRecord::USED_AT: used_at,
                JoinRecord::USED_BY: record.used_by,
            },
        }));
        let name = JoinRecord::secret_name(id);
        let params = PatchParams::default();
        answered("the join token", async {
            match self.secrets.patch(&name, &params, &patch).await {
                Ok(_) => Ok(true),
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(false),
                Err(error) => Err(error),
            }
        })
        .await
    }
}

impl JoinTokens for KubeJoinTokens {
    fn find<'a>(
        &'a self,
        id: &'a TokenId,
    ) -> BoxFuture<'a, Result<Option<(JoinRecord, RecordVersion)>, Unanswered>> {
        Box::pin(self.read(id))
    }

    fn consume<'a>(
        &'a self,
        id: &'a TokenId,
        version: RecordVersion,
        record: JoinRecord,
    ) -> BoxFuture<'a, Result<bool, Unanswered>> {
        Box::pin(self.mark(id, version, record))
    }
}

#[cfg(test)]
mod tests {
    use base64::{Engine, prelude::BASE64_STANDARD};
    use serde_json::Value;
    use strait_types::JoinCredential;

    use super::*;
    use crate::kubernetes::api_server::{refusal, scripted};

    fn secret(token: &JoinCredential, kind: &str) -> Value {
        let expires = jiff::Timestamp::from_second(1_800_000_000).unwrap();
        let record = JoinRecord::new("cluster1".parse().unwrap(), token, expires);
        let encoded = |(key, value): (String, String)| (key, BASE64_STANDARD.encode(value));
        let data: serde_json::Map<_, _> = record
            .to_data()
            .into_iter()
            .map(encoded)
            .map(|(k, v)| (k, v.into()))
            .collect();
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": kind, "data": data,
            "metadata": { "name": "strait-join-x", "resourceVersion": "42" },
        })
    }

    #[tokio::test]
    async fn a_token_is_marked_with_the_version_that_was_read() {
        let token = JoinCredential::from_random([1; 8], [2; 32]);
        let object = secret(&token, JOIN_SECRET_TYPE);
        let (client, asked) = scripted(move |_, _| (200, object.clone()));
        let tokens = KubeJoinTokens::new(&client);
        let (record, version) = tokens.find(token.id()).await.unwrap().unwrap();
        assert_eq!(record.secret_hash, token.secret_hash());
        let used = JoinRecord {
            used_at: Some(record.expires),
            used_by: Some("ab".to_owned()),
            ..record
        };
        assert!(tokens.consume(token.id(), version, used).await.unwrap());
        let asked = asked.lock();
        let (method, path, body) = &asked[1];
        assert_eq!(method, "PATCH");
        assert!(path.starts_with("/api/v1/namespaces/strait-system/secrets/strait-join-0101"));
        assert_eq!(body["metadata"]["resourceVersion"], "42");
        assert_eq!(
            body["stringData"],
            json!({ "usedAt": "2027-01-15T08:00:00Z", "usedBy": "ab" })
        );
    }

    #[tokio::test]
    async fn who_comes_second_does_not_win() {
        let token = JoinCredential::from_random([1; 8], [2; 32]);
        let object = secret(&token, JOIN_SECRET_TYPE);
        let (client, _) = scripted(move |method, _| match method {
            "PATCH" => refusal(409, "Conflict"),
            _ => (200, object.clone()),
        });
        let tokens = KubeJoinTokens::new(&client);
        let (record, version) = tokens.find(token.id()).await.unwrap().unwrap();
        assert!(!tokens.consume(token.id(), version, record).await.unwrap());
    }

    #[tokio::test]
    async fn another_secret_is_no_token_and_a_broken_server_is_no_answer() {
        let token = JoinCredential::from_random([1; 8], [2; 32]);
        let object = secret(&token, "Opaque");
        let (client, _) = scripted(move |_, _| (200, object.clone()));
        assert!(
            KubeJoinTokens::new(&client)
                .find(token.id())
                .await
                .unwrap()
                .is_none()
        );
        let (client, _) = scripted(|_, _| refusal(404, "NotFound"));
        assert!(
            KubeJoinTokens::new(&client)
                .find(token.id())
                .await
                .unwrap()
                .is_none()
        );
        let (client, _) = scripted(|_, _| refusal(500, "InternalError"));
        assert!(KubeJoinTokens::new(&client).find(token.id()).await.is_err());
    }
}
