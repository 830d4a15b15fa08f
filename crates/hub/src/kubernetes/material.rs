//! Keys and certificates from Secrets, ConfigMaps and files, followed while the hub runs.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client, core::DeserializeGuard, runtime::watcher};
use rustls::RootCertStore;
use strait_api::wire_names::{AGENT_CA_SECRET, HUB_CA_SECRET, HUB_NAMESPACE};
use strait_kube_kit::Objects as Watched;
use strait_pki::{
    Bundle, Ca, ClientVerifier, FileWatch, Identity, InvalidBundle, PkiError, Reloadable,
    follow_files,
};
use strait_runtime::Tasks;
use strait_types::Redacted;
use tokio_util::sync::CancellationToken;

use super::KubernetesError;
use crate::{HubConfig, deps::Material};

/// Where the API server publishes the authority of its clients' certificates.
const AUTHENTICATION: (&str, &str) = ("kube-system", "extension-apiserver-authentication");
/// The key that holds it.
const CLIENT_CA_KEY: &str = "client-ca-file";

/// One authority's Secret, read.
struct Authority {
    ca: Ca,
    bundle_pem: String,
    verifier: ClientVerifier,
}

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
    keep(hub, HUB_CA_SECRET, tasks, {
        let (ca, bundle) = (material.hub_ca.clone(), material.hub_bundle.clone());
        move |read| {
            let (new_ca, new_bundle) = split(read.map(|a| (a.ca, a.bundle_pem)));
            if let Some(ca) = &ca {
                ca.offer(new_ca);
            }
            if let Some(new) = new_bundle {
                bundle.offer(Ok::<_, PkiError>(new));
            }
        }
    });
    keep(agents, AGENT_CA_SECRET, tasks, {
        let (ca, verifier) = (material.agent_ca.clone(), material.agents.clone());
        move |read| {
            let (new_ca, new_verifier) = split(read.map(|a| (a.ca, a.verifier)));
            ca.offer(new_ca);
            if let Some(new) = new_verifier {
                verifier.offer(Ok::<_, PkiError>(new));
            }
        }
    });
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
    let certificate = text("tls.crt");
    let ca = Ca::from_pem(&certificate, &Redacted::new(text("tls.key")))?;
    let mut bundle_pem = text("ca.crt");
    if bundle_pem.is_empty() {
        bundle_pem = certificate;
    }
    let bundle = Bundle::from_pem(bundle_pem.as_bytes())?;
    let verifier = ClientVerifier::new(Arc::clone(bundle.roots()))?;
    Ok(Authority {
        ca,
        bundle_pem,
        verifier,
    })
}

fn split<A, B>(read: Result<(A, B), PkiError>) -> (Result<A, PkiError>, Option<B>) {
    match read {
        Ok((a, b)) => (Ok(a), Some(b)),
        Err(error) => (Err(error), None),
    }
}

async fn callers_file(
    config: &HubConfig,
    tasks: &Tasks,
) -> Result<Reloadable<Option<Bundle>>, KubernetesError> {
    let Some(path) = &config.callers_ca else {
        return Ok(Reloadable::new(None));
    };
    let parse = |files: &[Vec<u8>]| {
        let pem = files.first().map(Vec::as_slice).unwrap_or_default();
        Ok(Some(Bundle::from_pem(pem)?))
    };
    let mut watch = FileWatch::new(vec![path.clone()]);
    let value = Reloadable::new(watch.load(parse).await?.flatten());
    spawn_files(watch, parse, &value, tasks, "callers-ca");
    Ok(value)
}

async fn serving_files(
    config: &HubConfig,
    tasks: &Tasks,
) -> Result<Reloadable<Vec<Identity>>, KubernetesError> {
    let Some((certificate, key)) = &config.serving_files else {
        return Ok(Reloadable::new(vec![]));
    };
    let parse = |files: &[Vec<u8>]| match files {
        [certificate, key] => Ok(vec![Identity::from_pem(certificate, key)?]),
        _ => Err(PkiError::Mismatch),
    };
    let mut watch = FileWatch::new(vec![certificate.clone(), key.clone()]);
    let value = Reloadable::new(watch.load(parse).await?.unwrap_or_default());
    spawn_files(watch, parse, &value, tasks, "serving-files");
    Ok(value)
}

fn spawn_files<T: Send + Sync + 'static>(
    watch: FileWatch,
    parse: impl Fn(&[Vec<u8>]) -> Result<T, PkiError> + Send + Sync + 'static,
    value: &Reloadable<T>,
    tasks: &Tasks,
    name: &'static str,
) {
    let value = value.clone();
    tasks.spawn(name, |stop| async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = follow_files(watch, parse, value) => {}
        }
    });
}

/// The system's authorities. None is not an error: services then name theirs.
fn native_roots() -> Arc<RootCertStore> {
    let loaded = rustls_native_certs::load_native_certs();
    for error in &loaded.errors {
        tracing::info!(%error, "some of the system's authorities cannot be read");
    }
    let mut roots = RootCertStore::empty();
    let (added, skipped) = roots.add_parsable_certificates(loaded.certs);
    tracing::debug!(added, skipped, "system's authorities");
    Arc::new(roots)
}
