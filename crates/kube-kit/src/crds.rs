//! Installs CustomResourceDefinitions that are missing.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    runtime::{conditions, wait},
};
use serde_json::json;
use strait_api::wire_names::{MANAGED_BY, PROXY_GROUP};
use strait_runtime::Backoff;
use thiserror::Error;

use crate::{ApplyError, Classify, FieldManager, Verdict, apply::says};

const MANAGER: FieldManager = FieldManager("strait-crds");

/// Until a new definition is served. It takes tens of milliseconds on an idle API server.
const ESTABLISH_TIMEOUT: Duration = Duration::from_secs(30);

/// Delays between two tries to watch.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// On a definition that Strait installed: the version that wrote it. The name is Kubernetes' own.
const VERSION_LABEL: &str = "app.kubernetes.io/version";

/// A definition could not be installed.
#[derive(Debug, Error)]
pub enum CrdError {
    /// It cannot be looked up.
    #[error("failed to read CustomResourceDefinition {name}")]
    Get {
        /// Its name.
        name: String,
        /// What the API server said.
        source: kube::Error,
    },
    /// It cannot be written.
    #[error("failed to install a CustomResourceDefinition")]
    Apply(#[from] ApplyError),
    /// It is not served.
    #[error("CustomResourceDefinition {0} is not served")]
    NotEstablished(String),
}

/// Installs the definitions that are missing, brings those that Strait installed up to `version`,
/// and waits until all are served. A definition that a newer version of Strait installed is left as
/// it is, and so is one that somebody else did, unless it is of the group that Strait replaces.
///
/// # Errors
/// When the API server refuses, or does not serve a definition in time.
pub async fn install(
    client: &Client,
    definitions: &[CustomResourceDefinition],
    version: &str,
) -> Result<(), CrdError> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in definitions {
        let name = definition.name_any();
        let found = api.get_opt(&name).await.map_err(|source| CrdError::Get {
            name: name.clone(),
            source,
        })?;
        let labels = json!({ MANAGED_BY.0: MANAGED_BY.1, VERSION_LABEL: version });
        let want = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": name, "labels": labels},
            "spec": definition.spec,
        });
        let write = found.is_none_or(|found| may_write(&found, version) && !says(&found, &want));
        if write {
            MANAGER.apply(&api, &name, &want).await?;
        }
        let served = wait::await_condition(api.clone(), &name, conditions::is_crd_established());
        if !matches!(
            tokio::time::timeout(ESTABLISH_TIMEOUT, served).await,
            Ok(Ok(_))
        ) {
            return Err(CrdError::NotEstablished(name));
        }
    }
    Ok(())
}

/// Waits until somebody has installed all of the definitions and they are served, however long
/// that takes, and whether the API server can be reached meanwhile or not. Cancel safe.
pub async fn await_served(client: &Client, definitions: &[CustomResourceDefinition]) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut backoff = Backoff::random(RETRY.0, RETRY.1);
    for definition in definitions {
        let name = definition.name_any();
        loop {
            let served =
                wait::await_condition(api.clone(), &name, conditions::is_crd_established());
            let Err(error) = served.await else { break };
            let error = &error as &dyn std::error::Error;
            tracing::warn!(
                name,
                error,
                "a definition cannot be waited for; trying again"
            );
            tokio::time::sleep(backoff.next_delay()).await;
        }
    }
}

/// Whether a definition that is there was installed by Strait, and by no newer one; or is one of
/// the kinds that Strait replaces, which it knows more fields of than those who installed it.
fn may_write(found: &CustomResourceDefinition, version: &str) -> bool {
    let label = |key: &str| found.labels().get(key).map(String::as_str);
    let newer = label(VERSION_LABEL)
        .and_then(numbers)
        .zip(numbers(version))
        .is_some_and(|(theirs, ours)| theirs > ours);
    let replaced = found.spec.group == PROXY_GROUP;
    (replaced || label(MANAGED_BY.0) == Some(MANAGED_BY.1)) && !newer
}

/// `major.minor.patch` of a version; what follows them says nothing about the schema.
fn numbers(version: &str) -> Option<[u64; 3]> {
    let plain = version.split(['-', '+']).next()?;
    let parts: Vec<u64> = plain
        .split('.')
        .map(|part| part.parse().ok())
        .collect::<Option<_>>()?;
    parts.try_into().ok()
}

// === impl CrdError ===

impl Classify for CrdError {
    fn verdict(&self) -> Verdict {
        match self {
            Self::Get { source, .. } => source.verdict(),
            Self::Apply(error) => error.verdict(),
            Self::NotEstablished(_) => Verdict::Retry,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(labels: &[(&str, &str)]) -> CustomResourceDefinition {
        let mut found = CustomResourceDefinition::default();
        for (key, value) in labels {
            found.labels_mut().insert((*key).into(), (*value).into());
        }
        found
    }

    #[test]
    fn what_others_or_newer_ones_installed_is_left_alone() {
        let ours = |version| found(&[MANAGED_BY, (VERSION_LABEL, version)]);
        let mut upstreams = found(&[]);
        upstreams.spec.group = PROXY_GROUP.to_owned();
        assert!(may_write(&upstreams, "1.0.0"));
        assert!(!may_write(&found(&[]), "1.0.0"));
        assert!(!may_write(&found(&[(MANAGED_BY.0, "Helm")]), "1.0.0"));
        assert!(may_write(&found(&[MANAGED_BY]), "1.0.0"));
        assert!(may_write(&ours("0.9.9"), "0.10.0"));
        assert!(may_write(&ours("0.10.0"), "0.10.0"));
        assert!(may_write(&ours("unreadable"), "0.10.0"));
        assert!(!may_write(&ours("0.11.0-rc.1"), "0.10.0"));
    }
}
