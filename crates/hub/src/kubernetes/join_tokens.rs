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
            "stringData": { JoinRecord::USED_AT: used_at },
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
