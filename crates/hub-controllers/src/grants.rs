//! Turns the subjects of an entrypoint into a Role and a RoleBinding for that one entrypoint, so
//! that `kubectl auth can-i connect` tells what the hub does.

mod apply;
mod decide;

use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Client;
use strait_api::ClusterProxyEntrypoint;
use strait_kube_kit::{Controller, Objects, Round};

pub(crate) use decide::COMPONENT;

/// The controller.
pub(crate) struct Grants {
    pub(crate) client: Client,
    pub(crate) entrypoints: Objects<ClusterProxyEntrypoint>,
    /// Those of our component alone.
    pub(crate) roles: Objects<Role>,
    /// Those of our component alone.
    pub(crate) bindings: Objects<RoleBinding>,
}

impl Controller for Grants {
    const NAME: &'static str = "grants";

    async fn ready(&self) -> bool {
        self.entrypoints.ready().await && self.roles.ready().await && self.bindings.ready().await
    }

    async fn changed(&mut self) -> bool {
        tokio::select! {
            changed = self.entrypoints.changed() => changed,
            changed = self.roles.changed() => changed,
            changed = self.bindings.changed() => changed,
        }
    }

    async fn round(&mut self) -> Round {
        let seen = decide::Seen {
            entrypoints: self.entrypoints.all(),
            roles: self.roles.all(),
            bindings: self.bindings.all(),
            blind: !self.entrypoints.unreadable().is_empty(),
        };
        apply::apply(&self.client, &decide::decide(&seen)).await
    }
}
