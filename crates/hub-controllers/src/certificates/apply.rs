//! Writes what was decided.

use std::{collections::BTreeMap, error::Error};

use jiff::Timestamp;
use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, ObjectReference, Secret},
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
    runtime::events::{Event, EventType},
};
use serde_json::json;
use strait_api::wire_names::{HUB_INFO_CONFIG_MAP, HUB_NAMESPACE, MANAGED_BY};
use strait_kube_kit::{ApplyError, Classify, FieldManager, Round, Verdict};
use strait_pki::{Ca, PkiError};
use thiserror::Error;

use super::{
    Certificates,
    authority::{Data, Stored, created},
    decide::{Plan, until},
};

const MANAGER: FieldManager = FieldManager("strait-certificates");

/// An authority could not be kept as it should be.
#[derive(Debug, Error)]
enum KeepError {
    #[error("failed to make an authority for Secret {name}")]
    Make { name: String, source: PkiError },
    #[error("failed to read Secret {name}")]
    Read { name: String, source: kube::Error },
    #[error("failed to create Secret {name}")]
    Create { name: String, source: kube::Error },
    #[error(transparent)]
    Apply(#[from] ApplyError),
    #[error("failed to write Secret {name}")]
    Encode {
        name: String,
        source: serde_json::Error,
    },
}

// === impl Certificates ===

impl Certificates {
    /// Does what the plan says about one authority.
    pub(super) async fn carry_out(
        &mut self,
        name: &'static str,
        title: &str,
        stored: Option<Stored>,
        plan: Plan,
        now: Timestamp,
        round: &mut Round,
    ) {
        let what = match &plan {
            Plan::Keep { until: then } => {
                round.again_in(until(*then, now));
                self.said.remove(name);
                return;
            }
            Plan::EndsSoon { at } => {
                let note =
                    format!("the authority in it ends at {at}; whoever made it has to replace it");
                return self.tell(name, "AuthorityEndsSoon", note).await;
            }
            Plan::Broken(broken) => {
                let cause = broken
                    .source()
                    .map_or_else(String::new, |c| format!(": {c}"));
                let note = format!(
                    "{broken}{cause}; it is kept as it is, and what was loaded from it before stays in force"
                );
                return self.tell(name, "AuthorityBroken", note).await;
            }
            Plan::Lost => {
                // The watch may be behind.
                let api: Api<Secret> = Api::namespaced(self.client.clone(), HUB_NAMESPACE);
                let there = api.get_metadata_opt(name).await;
                let there = round.note(there.map_err(|source| KeepError::Read {
                    name: name.to_owned(),
                    source,
                }));
                if !matches!(there, Some(None)) {
                    return;
                }
                let note = format!(
                    "Secret {name} is gone, and members trust what was in it: restore it. To begin anew, \
                     delete ConfigMap {HUB_INFO_CONFIG_MAP}; every member needs a new token then"
                );
                return self.tell(name, "AuthorityLost", note).await;
            }
            Plan::Create => "authority made",
            Plan::Prepare => "successor of the authority made",
            Plan::Promote => "successor of the authority signs from now on",
            Plan::Tidy => "authority's bundle put right",
        };
        let written = self.write(name, title, stored.as_ref(), &plan, now).await;
        if round.note(written).is_some() {
            tracing::info!(secret = name, what);
        }
    }

    async fn write(
        &self,
        name: &str,
        title: &str,
        stored: Option<&Stored>,
        plan: &Plan,
        now: Timestamp,
    ) -> Result<(), KeepError> {
        let make = || {
            let lifetime = self.config.authorities.lifetime;
            Ca::generate(title, lifetime, now).map_err(|source| KeepError::Make {
                name: name.to_owned(),
                source,
            })
        };
        let api: Api<Secret> = Api::namespaced(self.client.clone(), HUB_NAMESPACE);
        match (plan, stored) {
            (Plan::Create, _) => create(&api, name, &created(&make()?)).await,
            (Plan::Prepare, Some(stored)) => {
                let data = stored.prepared(&make()?, now);
                update(&api, name, stored, &data).await
            }
            (Plan::Promote, Some(stored)) => {
                update(&api, name, stored, &stored.promoted(now)).await
            }
            (Plan::Tidy, Some(stored)) => update(&api, name, stored, &stored.tidied(now)).await,
            _ => Ok(()),
        }
    }

    /// Logs and publishes what is wrong with a Secret, once for each thing that is wrong.
    async fn tell(&mut self, name: &'static str, reason: &'static str, note: String) {
        if self.said.get(name) == Some(&note) {
            return;
        }
        tracing::warn!(secret = name, reason, note);
        let event = Event {
            type_: EventType::Warning,
            reason: reason.to_owned(),
            note: Some(note.chars().take(1024).collect()),
            action: "Keep".to_owned(),
            secondary: None,
        };
        let regarding = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Secret".to_owned()),
            namespace: Some(HUB_NAMESPACE.to_owned()),
            name: Some(name.to_owned()),
            ..ObjectReference::default()
        };
        match self.events.publish(&event, &regarding).await {
            Ok(()) => {
                self.said.insert(name, note);
            }
            Err(error) => {
                let error = &error as &dyn Error;
                tracing::warn!(secret = name, error, "an event was not published");
            }
        }
    }
}

/// Creates the Secret; one that somebody else has created meanwhile stays as it is.
async fn create(api: &Api<Secret>, name: &str, data: &Data) -> Result<(), KeepError> {
    let mut secret = secret(name, None, data);
    secret.type_ = Some("kubernetes.io/tls".to_owned());
    match api.create(&PostParams::default(), &secret).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(source) => Err(KeepError::Create {
            name: name.to_owned(),
            source,
        }),
    }
}

/// Writes the Secret if nobody has written to it since it was looked at.
async fn update(
    api: &Api<Secret>,
    name: &str,
    stored: &Stored,
    data: &Data,
) -> Result<(), KeepError> {
    let want = serde_json::to_value(secret(name, stored.version.clone(), data));
    let want = want.map_err(|source| KeepError::Encode {
        name: name.to_owned(),
        source,
    })?;
    MANAGER.apply(api, name, &want).await?;
    Ok(())
}

fn secret(name: &str, version: Option<String>, data: &Data) -> Secret {
    let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(HUB_NAMESPACE.to_owned()),
            labels: Some([(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned())].into()),
            resource_version: version,
            ..ObjectMeta::default()
        },
        data: Some(
            data.iter()
                .map(|(key, value)| ((*key).to_owned(), bytes(value.reveal())))
                .collect(),
        ),
        ..Secret::default()
    }
}

/// Writes what everybody is told.
pub(super) async fn info(client: &Client, data: &BTreeMap<String, String>, round: &mut Round) {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), HUB_NAMESPACE);
    let want = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": HUB_INFO_CONFIG_MAP,
            "namespace": HUB_NAMESPACE,
            "labels": { MANAGED_BY.0: MANAGED_BY.1 },
        },
        "data": data,
    });
    if round
        .note(MANAGER.apply(&api, HUB_INFO_CONFIG_MAP, &want).await)
        .is_some()
    {
        tracing::info!("callers are told where the hub is");
    }
}

// === impl KeepError ===

impl Classify for KeepError {
    fn verdict(&self) -> Verdict {
        match self {
            Self::Read { source, .. } | Self::Create { source, .. } => source.verdict(),
            Self::Apply(error) => error.verdict(),
            Self::Make { .. } | Self::Encode { .. } => Verdict::Retry,
        }
    }
}
