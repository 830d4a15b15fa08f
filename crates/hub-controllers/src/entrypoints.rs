//! Makes entrypoints of what the configuration exposes, and tells how every entrypoint is.

mod apply;
mod decide;
mod observe;

use kube::Client;
use strait_kube_kit::{Controller, Round};
use strait_runtime::clock;

pub(crate) use observe::Sources;

/// The controller.
pub(crate) struct Entrypoints {
    pub(crate) client: Client,
    pub(crate) domain: String,
    pub(crate) sources: Sources,
}

impl Controller for Entrypoints {
    const NAME: &'static str = "entrypoints";

    async fn ready(&self) -> bool {
        self.sources.ready().await
    }

    async fn changed(&mut self) -> bool {
        self.sources.changed().await
    }

    async fn round(&mut self) -> Round {
        let seen = self.sources.observe(&self.domain, clock::timestamp());
        apply::apply(&self.client, &decide::decide(&seen)).await
    }
}
