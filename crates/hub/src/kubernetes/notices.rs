//! What the hub says of itself, on the `ManagedProxyConfiguration`.

use futures::future::BoxFuture;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;
use strait_api::{ManagedProxyConfiguration, wire_names::CONFIGURATION_NAME};
use strait_kube_kit::Objects as Watched;
use strait_runtime::clock;

use super::answered;
use crate::{
    deps::{Notices, Unanswered},
    file_report::FileReport,
};

/// Writes conditions of the configuration in force.
#[derive(Debug)]
pub(super) struct KubeNotices {
    api: Api<ManagedProxyConfiguration>,
    configurations: Watched<ManagedProxyConfiguration>,
}

// === impl KubeNotices ===

impl KubeNotices {
    pub(super) fn new(client: &Client, configurations: Watched<ManagedProxyConfiguration>) -> Self {
        Self {
            api: Api::all(client.clone()),
            configurations,
        }
    }

    /// Writes for the version that was looked at: the list belongs to several writers. Who was
    /// faster is seen the next time.
    async fn write(&self, report: &FileReport) -> Result<(), Unanswered> {
        let Some(present) = self.configurations.get(None, CONFIGURATION_NAME) else {
            return Ok(());
        };
        let before = present.status.as_ref();
        let existing = before.map_or(&[][..], |status| status.conditions.as_slice());
        let generation = present.metadata.generation;
        let Some(conditions) = report.conditions(existing, generation, clock::timestamp()) else {
            return Ok(());
        };
        let patch = Patch::Merge(json!({
            "metadata": { "resourceVersion": present.resource_version() },
            "status": { "conditions": conditions },
        }));
        let params = PatchParams::default();
        answered("ManagedProxyConfiguration", async {
            let written = self.api.patch_status(CONFIGURATION_NAME, &params, &patch);
            match written.await {
                Ok(_) => Ok(()),
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
                Err(error) => Err(error),
            }
        })
        .await
    }
}

impl Notices for KubeNotices {
    fn files<'a>(&'a self, report: &'a FileReport) -> BoxFuture<'a, Result<(), Unanswered>> {
        Box::pin(self.write(report))
    }
}
