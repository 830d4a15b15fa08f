//! An identity kept in a Secret of the member.

use std::sync::Arc;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, runtime::watcher};
use serde_json::json;
use strait_api::wire_names::{AGENT_IDENTITY_SECRET, AGENT_JOIN_SECRET};
use strait_kube_kit::{FieldManager, Objects, watch as watch_objects};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{IdentityStore, Materials, StoreError, StoredIdentity, TOKEN, parse_token};

/// Owns what the agent writes into its Secret.
const MANAGER: FieldManager = FieldManager("strait-agent");

/// An identity in the Secret `strait-agent-identity`, and a token in `strait-agent-join`.
#[derive(Clone)]
pub struct SecretStore {
    client: Client,
    namespace: String,
    materials: watch::Sender<Materials>,
}

// === impl SecretStore ===

impl SecretStore {
    /// Keeps the identity in this namespace. The future watches the Secrets until it is stopped.
    pub fn new(
        client: Client,
        namespace: String,
        stop: CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (materials, _) = watch::channel(Materials::default());
        let store = Self {
            client,
            namespace,
            materials,
        };
        let watching = {
            let store = store.clone();
            let only = |name: &str| {
                let api = Api::namespaced(store.client.clone(), &store.namespace);
                let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
                watch_objects::<Secret>(api, config, stop.clone())
            };
            let (identities, keep_identities) = only(AGENT_IDENTITY_SECRET);
            let (tokens, keep_tokens) = only(AGENT_JOIN_SECRET);
            async move {
                tokio::join!(
                    keep_identities,
                    keep_tokens,
                    store.follow(identities, tokens)
                );
            }
        };
        (store, watching)
    }

    async fn follow(&self, mut identities: Objects<Secret>, mut tokens: Objects<Secret>) {
        if !(identities.ready().await && tokens.ready().await) {
            return;
        }
        loop {
            let namespace = Some(self.namespace.as_str());
            let identity = identities.get(namespace, AGENT_IDENTITY_SECRET);
            let token = tokens.get(namespace, AGENT_JOIN_SECRET);
            self.materials
                .send_replace(read(identity.as_deref(), token.as_deref()));
            let goes_on = tokio::select! {
                goes_on = identities.changed() => goes_on,
                goes_on = tokens.changed() => goes_on,
            };
            if !goes_on {
                return;
            }
        }
    }
}

impl IdentityStore for SecretStore {
    fn materials(&self) -> watch::Receiver<Materials> {
        self.materials.subscribe()
    }

    fn save<'a>(&'a self, identity: &'a StoredIdentity) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let data: std::collections::BTreeMap<_, _> = identity.parts().into();
            let want = json!({
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": { "name": AGENT_IDENTITY_SECRET, "namespace": self.namespace },
                "stringData": data,
            });
            let api: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
            match MANAGER.apply(&api, AGENT_IDENTITY_SECRET, &want).await {
                Ok(_) => Ok(()),
                Err(source) => Err(StoreError {
                    place: format!("Secret {}/{AGENT_IDENTITY_SECRET}", self.namespace),
                    source: source.into(),
                }),
            }
        })
    }
}

impl std::fmt::Debug for SecretStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretStore")
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

fn read(identity: Option<&Secret>, token: Option<&Secret>) -> Materials {
    let text = |secret: Option<&Secret>, key: &str| {
        let value = secret?.data.as_ref()?.get(key)?;
        String::from_utf8(value.0.clone()).ok()
    };
    let mut problem = None;
    let token = match text(token, TOKEN).as_deref().map(parse_token).transpose() {
        Ok(token) => token.map(Arc::new),
        Err(wrong) => {
            problem = Some(format!("Secret {AGENT_JOIN_SECRET}: {wrong}"));
            None
        }
    };
    let identity = StoredIdentity::from_parts(|key| text(identity, key)).map(Arc::new);
    Materials {
        loaded: true,
        identity,
        token,
        problem,
    }
}
