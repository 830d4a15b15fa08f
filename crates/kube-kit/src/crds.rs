//! Installs CustomResourceDefinitions that are missing.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    runtime::{conditions, wait},
};
use serde_json::json;
use strait_api::wire_names::MANAGED_BY;
use thiserror::Error;

use crate::{ApplyError, FieldManager};

const MANAGER: FieldManager = FieldManager("strait-crds");

/// Until a new definition is served. It takes tens of milliseconds on an idle API server.
const ESTABLISH_TIMEOUT: Duration = Duration::from_secs(30);

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
    #[error("CustomResourceDefinition {0} was installed and is not served")]
    NotEstablished(String),
}

/// Installs the definitions that are missing, brings those that Strait installed up to date, and
/// waits until all are served. A definition that somebody else installed is left as it is.
///
/// # Errors
/// When the API server refuses, or does not serve a definition in time.
pub async fn install(
    client: &Client,
    definitions: &[CustomResourceDefinition],
) -> Result<(), CrdError> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in definitions {
        let name = definition.name_any();
        let found = api.get_opt(&name).await.map_err(|source| CrdError::Get {
            name: name.clone(),
            source,
        })?;
        let ours = |found: &CustomResourceDefinition| {
            found
                .labels()
                .get(MANAGED_BY.0)
                .is_some_and(|value| value == MANAGED_BY.1)
        };
        if found.is_none_or(|found| ours(&found)) {
            let want = json!({
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": name, "labels": {MANAGED_BY.0: MANAGED_BY.1}},
                "spec": definition.spec,
            });
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
