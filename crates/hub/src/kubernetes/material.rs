//! Keys and certificates from Secrets, ConfigMaps and files, followed while the hub runs.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client, core::DeserializeGuard, runtime::watcher};
use strait_api::wire_names::{AGENT_CA_SECRET, HUB_CA_SECRET, HUB_NAMESPACE};
use strait_kube_kit::Objects as Watched;
use strait_pki::{Bundle, InvalidBundle, PkiError, Reloadable};
use strait_runtime::Tasks;
use strait_types::Redacted;
use tokio_util::sync::CancellationToken;

use super::KubernetesError;
use crate::{
    HubConfig,
    authority::{self, Authority},
    deps::Material,
    material_files::{callers_file, native_roots, serving_files},
};

/// Where the API server publishes the authority of its clients' certificates.
const AUTHENTICATION: (&str, &str) = ("kube-system", "extension-apiserver-authentication");
/// The key that holds it.
const CLIENT_CA_KEY: &str = "client-ca-file";

/// Gathers everything; waits for the Secrets of both authorities.
pub(super) async fn gather(
    client: &Client,
    config: &HubConfig,
    tasks: &Tasks,
) -> Result<Material, KubernetesError> {
    let secrets: Api<DeserializeGuard<Secret>> = Api::namespaced(client.clone(), HUB_NAMESPACE);
    let hub = follow(&secrets, HUB_CA_SECRET, tasks);
    let agents = follow(&secrets, AGENT_CA_SECRET, tasks);
    let (namespace, name) = AUTHENTICATION;
    let maps: Api<DeserializeGuard<ConfigMap>> = Api::namespaced(client.clone(), namespace);
    let callers = follow(&maps, name, tasks);

    tracing::info!("waiting for the hub's certificates");
    let stop = tasks.stop();
    let hub_now = first_authority(&hub, HUB_CA_SECRET, stop).await?;
    let agents_now = first_authority(&agents, AGENT_CA_SECRET, stop).await?;
    tokio::select! {
        biased;
        () = stop.cancelled() => return Err(KubernetesError::Stopped),
        _ = callers.ready() => {}
    }
    let material = Material {
        hub_ca: Some(Reloadable::new(hub_now.ca)),
        hub_bundle: Reloadable::new(hub_now.bundle_pem),
        agent_ca: Reloadable::new(agents_now.ca),
        agents: Reloadable::new(agents_now.verifier),
        callers: Reloadable::new(client_ca(&callers).unwrap_or_default()),
        callers_file: callers_file(config, tasks).await?,
        files: serving_files(config, tasks).await?,
        native_roots: native_roots(),
    };
    let sink = authority::hub_sink(&material);
    keep(hub, HUB_CA_SECRET, tasks, sink);
    let sink = authority::agent_sink(&material);
    keep(agents, AGENT_CA_SECRET, tasks, sink);
    keep_client_ca(callers, material.callers.clone(), tasks);
    Ok(material)
}

fn follow<K>(api: &Api<DeserializeGuard<K>>, name: &str, tasks: &Tasks) -> Watched<K>
where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + serde::de::DeserializeOwned
        + std::fmt::Debug
        + Send
        + Sync
        + 'static,
{
    let one = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let (objects, keep) = strait_kube_kit::watch(api.clone(), one, tasks.stop().clone());
    tasks.spawn("material", |_| keep);
    objects
}

async fn first_authority(
    secrets: &Watched<Secret>,
    name: &'static str,
    stop: &CancellationToken,
) -> Result<Authority, KubernetesError> {
    let mut secrets = secrets.clone();
    let mut told = String::new();
    loop {
        let why = match secrets
            .get(Some(HUB_NAMESPACE), name)
            .map(|secret| read(&secret))
        {
            Some(Ok(authority)) => return Ok(authority),
            Some(Err(error)) => error.to_string(),
            None => "it is not there yet".to_owned(),
        };
        if why != told {
            tracing::info!(secret = name, why, "waiting for an authority");
            told = why;
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return Err(KubernetesError::Stopped),
            changed = secrets.changed() => if !changed { return Err(KubernetesError::Stopped) },
        }
    }
}

/// Gives each new content of an authority's Secret to `take`. What is broken, or gone, leaves the
/// last good one in force.
fn keep(
    mut secrets: Watched<Secret>,
    name: &'static str,
    tasks: &Tasks,
    take: impl Fn(Result<Authority, PkiError>) + Send + 'static,
) {
    tasks.spawn(name, |stop| async move {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                changed = secrets.changed() => if !changed { return },
            }
            let Some(secret) = secrets.get(Some(HUB_NAMESPACE), name) else {
                tracing::warn!(
                    secret = name,
                    "the authority is gone; the last one stays in force"
                );
                continue;
            };
            let read = read(&secret);
            match &read {
                Ok(_) => tracing::info!(secret = name, "authority loaded"),
                Err(error) => {
                    tracing::warn!(secret = name, %error, "the last good authority stays in force");
                }
            }
            take(read);
        }
    });
}

fn keep_client_ca(mut maps: Watched<ConfigMap>, value: Reloadable<Option<Bundle>>, tasks: &Tasks) {
    tasks.spawn("callers", |stop| async move {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                changed = maps.changed() => if !changed { return },
            }
            value.offer(client_ca(&maps));
        }
    });
}

fn client_ca(maps: &Watched<ConfigMap>) -> Result<Option<Bundle>, InvalidBundle> {
    let (namespace, name) = AUTHENTICATION;
    let map = maps.get(Some(namespace), name);
    let pem = map
        .as_ref()
        .and_then(|map| map.data.as_ref()?.get(CLIENT_CA_KEY));
    pem.map(|pem| Bundle::from_pem(pem.as_bytes())).transpose()
}

fn read(secret: &Secret) -> Result<Authority, PkiError> {
    let text = |key: &str| {
        let value = secret.data.as_ref().and_then(|data| data.get(key));
        value
            .map(|v| String::from_utf8_lossy(&v.0).into_owned())
            .unwrap_or_default()
    };
    Authority::from_pem(
        text("tls.crt"),
        &Redacted::new(text("tls.key")),
        text("ca.crt"),
    )
}
