//! Deletes exactly the object that was looked at.

use std::fmt;

use kube::{
    Api, Resource,
    api::{DeleteParams, Preconditions},
};
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::{Classify, Verdict};

/// An object could not be deleted.
#[derive(Debug, Error)]
#[error("failed to delete {kind} {name}")]
pub struct DeleteError {
    /// The kind.
    pub kind: String,
    /// The object.
    pub name: String,
    /// What the API server said.
    pub source: kube::Error,
}

/// Deletes the object with this name and this uid. One that is gone, or that another object of
/// its name has replaced, counts as deleted.
///
/// # Errors
/// When the API server refuses or does not answer.
pub async fn delete_same<K>(api: &Api<K>, name: &str, uid: &str) -> Result<(), DeleteError>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + fmt::Debug,
{
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        }),
        ..DeleteParams::background()
    };
    match api.delete(name, &params).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(source) => Err(DeleteError {
            kind: K::kind(&()).into_owned(),
            name: name.to_owned(),
            source,
        }),
    }
}

// === impl DeleteError ===

impl Classify for DeleteError {
    fn verdict(&self) -> Verdict {
        self.source.verdict()
    }
}
