//! Keeps the hub's two authorities, and tells where the hub is and what to trust.

mod apply;
mod authority;
mod decide;
mod health;
mod info;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Client, runtime::events::Recorder};
use strait_api::wire_names::{AGENT_CA_SECRET, HUB_CA_SECRET, HUB_INFO_CONFIG_MAP, HUB_NAMESPACE};
use strait_kube_kit::{Controller, Objects, Round};
use strait_runtime::clock;

pub(crate) use health::health;

use crate::ControllerConfig;

/// The Secrets, and what the common names of their certificates begin with.
const AUTHORITIES: [(&str, &str); 2] = [
    (AGENT_CA_SECRET, "strait agents"),
    (HUB_CA_SECRET, "strait hub"),
];

/// The controller.
pub(crate) struct Certificates {
    pub(crate) client: Client,
    pub(crate) events: Recorder,
    pub(crate) config: ControllerConfig,
    /// Those of the hub's namespace.
    pub(crate) secrets: Objects<Secret>,
    /// What is told to everybody, alone.
    pub(crate) info: Objects<ConfigMap>,
    /// What was said last about each Secret that is broken.
    pub(crate) said: BTreeMap<&'static str, String>,
}

impl Controller for Certificates {
    const NAME: &'static str = "certificates";

    async fn ready(&self) -> bool {
        self.secrets.ready().await && self.info.ready().await
    }

    async fn changed(&mut self) -> bool {
        tokio::select! {
            changed = self.secrets.changed() => changed,
            changed = self.info.changed() => changed,
        }
    }

    async fn round(&mut self) -> Round {
        let mut round = Round::new();
        let found = self.info.get(Some(HUB_NAMESPACE), HUB_INFO_CONFIG_MAP);
        let told = found.as_deref().is_some_and(info::tells_authority);
        for (name, title) in AUTHORITIES {
            let now = clock::timestamp();
            let found = self.secrets.get(Some(HUB_NAMESPACE), name);
            let stored = found.as_deref().map(authority::Stored::of);
            let plan = decide::plan(stored.as_ref(), told, self.config.authorities, now);
            self.carry_out(name, title, stored, plan, now, &mut round)
                .await;
        }
        let secret = self.secrets.get(Some(HUB_NAMESPACE), HUB_CA_SECRET);
        let want = info::decide(&self.config, secret.as_deref(), found.as_deref());
        // Nobody is told of one authority while the other could not be made.
        if let Some(want) = want
            && !round.failed()
        {
            apply::info(&self.client, &want, &mut round).await;
        }
        round
    }
}
