//! Writes by server-side apply, one field manager per controller, nothing at rest.

use std::fmt;

use kube::{
    Api, Resource,
    api::{Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use thiserror::Error;

use crate::{Classify, Verdict};

/// Owns the fields that one controller writes. Never renamed: the API server knows the owner by
/// this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldManager(pub &'static str);

/// An object could not be written.
#[derive(Debug, Error)]
#[error("failed to write {kind} {name}")]
pub struct ApplyError {
    /// The kind.
    pub kind: String,
    /// The object, with its namespace.
    pub name: String,
    /// What the API server said.
    pub source: kube::Error,
}

// === impl FieldManager ===

impl FieldManager {
    /// Creates an object that is missing; one of its name that is there already stays as it is.
    /// Returns whether it was created.
    ///
    /// # Errors
    /// When the API server refuses or does not answer.
    pub async fn create<K>(self, api: &Api<K>, name: &str, want: &Value) -> Result<bool, ApplyError>
    where
        K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + fmt::Debug,
    {
        let params = PostParams {
            field_manager: Some(self.0.to_owned()),
            ..PostParams::default()
        };
        let object = serde_json::from_value(want.clone())
            .map_err(|source| error::<K>(name, kube::Error::SerdeError(source)))?;
        match api.create(&params, &object).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(false),
            Err(source) => Err(error::<K>(name, source)),
        }
    }

    /// Makes the object say what `want` says. `want` holds only the fields that this manager owns,
    /// with apiVersion, kind and name; fields that it owned before and that are gone are removed.
    /// Takes fields over that other managers own.
    ///
    /// # Errors
    /// When the API server refuses or does not answer.
    pub async fn apply<K>(self, api: &Api<K>, name: &str, want: &Value) -> Result<K, ApplyError>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + fmt::Debug,
    {
        let params = PatchParams::apply(self.0).force();
        api.patch(name, &params, &Patch::Apply(want))
            .await
            .map_err(|source| error::<K>(name, source))
    }

    /// The same for the status alone.
    ///
    /// # Errors
    /// When the API server refuses or does not answer.
    pub async fn apply_status<K>(
        self,
        api: &Api<K>,
        name: &str,
        want: &Value,
    ) -> Result<K, ApplyError>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + fmt::Debug,
    {
        let params = PatchParams::apply(self.0).force();
        api.patch_status(name, &params, &Patch::Apply(want))
            .await
            .map_err(|source| error::<K>(name, source))
    }
}

// === impl ApplyError ===

impl Classify for ApplyError {
    fn verdict(&self) -> Verdict {
        self.source.verdict()
    }
}

/// Whether `have` already says all that `want` says: each object field of `want` is in `have` with
/// the same value; lists must be equal. With it a controller sends nothing that changes nothing.
#[must_use]
pub fn says(have: &impl Serialize, want: &Value) -> bool {
    serde_json::to_value(have).is_ok_and(|have| covers(&have, want))
}

fn covers(have: &Value, want: &Value) -> bool {
    match (have, want) {
        (Value::Object(have), Value::Object(want)) => want
            .iter()
            .all(|(key, want)| have.get(key).is_some_and(|have| covers(have, want))),
        (have, want) => have == want,
    }
}

fn error<K: Resource<DynamicType = ()>>(name: &str, source: kube::Error) -> ApplyError {
    ApplyError {
        kind: K::kind(&()).into_owned(),
        name: name.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_that_says_it_already_needs_no_write() {
        let have = json!({"metadata": {"name": "a", "uid": "1"}, "spec": {"ports": [1, 2]}});
        assert!(says(
            &have,
            &json!({"metadata": {"name": "a"}, "spec": {"ports": [1, 2]}})
        ));
        assert!(!says(&have, &json!({"spec": {"ports": [1]}})));
        assert!(!says(&have, &json!({"spec": {"tls": {}}})));
    }
}
