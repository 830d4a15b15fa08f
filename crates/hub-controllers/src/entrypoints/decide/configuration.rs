//! What is told about each configuration.

use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use serde_json::Value;
use strait_api::{
    Condition, ConditionStatus, ManagedProxyConfiguration, ManagedProxyConfigurationStatus,
    set_condition,
    wire_names::{
        CERTIFICATES_VALID, CONFIGURATION_NAME, IMAGES_HONOURED, PROXY_SERVER_DEPLOYED,
        SERVICES_RESOLVED,
    },
};
use strait_names::Exposure;

use super::{Seen, objects::Objects};
use crate::{certificates::health, inventory::lives};

/// The longest message of a condition, in bytes (`metav1.Condition`).
const MAX_MESSAGE: usize = 32_768;
/// Room for the words behind a message that was cut.
const MORE: usize = 64;

/// A condition without its time: type, status, reason, message.
type Said = (&'static str, ConditionStatus, &'static str, String);

pub(super) fn decide(
    seen: &Seen,
    exposure: &Exposure,
    objects: &Objects,
) -> Vec<(String, String, ManagedProxyConfigurationStatus)> {
    seen.configurations
        .iter()
        .filter(|configuration| lives(configuration.as_ref()))
        .filter_map(|configuration| {
            let name = configuration.name_any();
            let said = if name == CONFIGURATION_NAME {
                vec![
                    services(seen, exposure, objects),
                    images(configuration, seen.hub.as_deref()),
                    deployed(seen.hub.as_deref()),
                    certificates(seen),
                ]
            } else {
                let message =
                    format!("only the configuration called `{CONFIGURATION_NAME}` counts");
                vec![(
                    SERVICES_RESOLVED,
                    ConditionStatus::False,
                    "NotInUse",
                    message,
                )]
            };
            let status = status(configuration, said, seen);
            let told = configuration.status.as_ref() == Some(&status);
            let version = configuration.resource_version().unwrap_or_default();
            (!told).then_some((name, version, status))
        })
        .collect()
}

fn status(
    configuration: &ManagedProxyConfiguration,
    said: Vec<Said>,
    seen: &Seen,
) -> ManagedProxyConfigurationStatus {
    let generation = configuration.metadata.generation;
    let before = configuration.status.as_ref();
    let mut conditions = before.map_or_else(Vec::new, |status| status.conditions.clone());
    for (kind, status, reason, message) in said {
        let condition = Condition::new(kind, status, reason, message, seen.now);
        set_condition(&mut conditions, condition.observed(generation));
    }
    ManagedProxyConfigurationStatus {
        last_observed_generation: generation,
        conditions,
    }
}

fn services(seen: &Seen, exposure: &Exposure, objects: &Objects) -> Said {
    let mut reason = None;
    let mut sentences = vec![];
    for problem in &exposure.problems {
        reason.get_or_insert(problem.reason.as_str());
        sentences.push(problem.to_string());
    }
    for entry in &objects.by_hand {
        reason.get_or_insert("MadeByHand");
        sentences.push(format!("{}: {}", entry.field, entry.message));
    }
    for cluster in &objects.without_namespace {
        reason.get_or_insert("NamespaceMissing");
        sentences.push(format!(
            "the namespace of cluster {cluster} is not there yet"
        ));
    }
    for object in &seen.unreadable {
        reason.get_or_insert("Unreadable");
        sentences.push(format!(
            "{object} cannot be read, and nothing is removed until it can"
        ));
    }
    match reason {
        Some(reason) => (
            SERVICES_RESOLVED,
            ConditionStatus::False,
            reason,
            joined(&sentences),
        ),
        None => {
            let by_hand = match objects.stand_ins {
                0 => String::new(),
                some => format!(", {some} of them made by hand,"),
            };
            let message = format!(
                "{} entrypoints{by_hand} and {} further host names",
                exposure.entrypoints.len(),
                exposure.aliases.len()
            );
            (
                SERVICES_RESOLVED,
                ConditionStatus::True,
                "Resolved",
                message,
            )
        }
    }
}

/// All sentences that fit.
fn joined(sentences: &[String]) -> String {
    let mut message = String::new();
    for (index, sentence) in sentences.iter().enumerate() {
        if message.len() + sentence.len() + MORE > MAX_MESSAGE {
            message.push_str(&format!("; and {} more", sentences.len() - index));
            break;
        }
        if !message.is_empty() {
            message.push_str("; ");
        }
        message.push_str(sentence);
    }
    message
}

/// Whether the image fields have an effect. They never decide what the hub runs: the hub's own
/// installation does.
fn images(configuration: &ManagedProxyConfiguration, hub: Option<&Deployment>) -> Said {
    let spec = &configuration.spec;
    let running = hub.and_then(image).unwrap_or_default();
    let named = [
        ("spec.proxyServer.image", spec.proxy_server.get("image")),
        ("spec.proxyAgent.image", spec.proxy_agent.get("image")),
    ];
    let others: Vec<_> = named
        .into_iter()
        .filter_map(|(field, image)| Some((field, image.and_then(Value::as_str)?)))
        .filter(|(_, image)| !image.is_empty() && *image != running)
        .collect();
    if others.is_empty() {
        let message = "no other image is asked for".to_owned();
        return (
            IMAGES_HONOURED,
            ConditionStatus::True,
            "NothingElseAsked",
            message,
        );
    }
    let ours = others.iter().all(|(_, image)| is_strait(image));
    let listed: Vec<_> = others
        .iter()
        .map(|(field, image)| format!("{field}: `{image}` is not used"))
        .collect();
    let (reason, why) = if ours {
        ("OtherVersion", "`strait install hub` changes the version")
    } else {
        ("ForeignImage", "Strait runs its own image")
    };
    let message = format!("{}; {why}", joined(&listed));
    (IMAGES_HONOURED, ConditionStatus::False, reason, message)
}

/// Whether an image is one of Strait, by the last part of its repository.
fn is_strait(image: &str) -> bool {
    let last = image.rsplit('/').next().unwrap_or(image);
    last.split([':', '@']).next() == Some("strait")
}

fn image(hub: &Deployment) -> Option<&str> {
    let pod = hub.spec.as_ref()?.template.spec.as_ref()?;
    pod.containers.first()?.image.as_deref()
}

fn certificates(seen: &Seen) -> Said {
    let secrets = seen.authorities.iter();
    let secrets = secrets.map(|(name, secret)| (*name, secret.as_deref()));
    let (status, reason, message) = health(secrets, seen.now);
    (CERTIFICATES_VALID, status, reason, message)
}

/// Reasons and message are cluster-proxy's.
fn deployed(hub: Option<&Deployment>) -> Said {
    let status = hub.and_then(|hub| hub.status.as_ref());
    let ready = status.and_then(|s| s.ready_replicas).unwrap_or_default();
    let message = format!("Replicas: {ready}");
    if ready > 0 {
        (
            PROXY_SERVER_DEPLOYED,
            ConditionStatus::True,
            "SuccessfullyDeployed",
            message,
        )
    } else {
        (
            PROXY_SERVER_DEPLOYED,
            ConditionStatus::False,
            "NotYetDeployed",
            message,
        )
    }
}
