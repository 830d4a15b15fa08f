//! What is told about each entrypoint, made by hand or not.

use kube::ResourceExt;
use rustls_pki_types::ServerName;
use strait_api::{
    Access, ClusterProxyEntrypoint, ClusterProxyEntrypointStatus, Condition, ConditionStatus,
    UpstreamTls, set_condition, wire_names::ACCEPTED,
};
use strait_names::{Declared, Entry, Exposure, InvalidEntry, NameTable};
use strait_pki::Bundle;
use strait_types::ClusterName;

use super::{Doomed, Seen};
use crate::inventory::lives;

/// A verdict about one entrypoint: status, reason and message of its condition.
type Verdict = (ConditionStatus, &'static str, String);

pub(super) fn decide(
    seen: &Seen,
    exposure: &Exposure,
    doomed: &[Doomed],
) -> Vec<(String, String, ClusterProxyEntrypointStatus)> {
    let table = table(seen, exposure);
    seen.entrypoints
        .iter()
        .filter(|object| lives(object.as_ref()))
        .filter_map(|object| {
            let (namespace, name, uid) = (object.namespace()?, object.name_any(), object.uid()?);
            if doomed.iter().any(|doomed| doomed.uid == uid) {
                return None;
            }
            let status = status(object, &namespace, &uid, &table, seen);
            let told = object.status.as_ref() == Some(&status);
            (!told).then_some((namespace, name, status))
        })
        .collect()
}

/// The names as the hub reads them.
fn table(seen: &Seen, exposure: &Exposure) -> NameTable<()> {
    let mut table = NameTable::builder(&seen.domain, seen.members.iter().cloned());
    for object in seen.entrypoints.iter().filter(|o| lives(o.as_ref())) {
        let cluster = object.namespace().and_then(|n| n.parse().ok());
        if let Some(cluster) = cluster {
            // An invalid one is told so below.
            let _ = table.entry(&cluster, &declared(object), ());
        }
    }
    for alias in &exposure.aliases {
        table.alias(alias);
    }
    table.build()
}

pub(super) fn declared(object: &ClusterProxyEntrypoint) -> Declared {
    Declared {
        object: object.name_any(),
        uid: object.uid().unwrap_or_default(),
        service: object.spec.service.clone(),
        namespace: object.spec.namespace.clone(),
        ports: object.spec.ports.clone(),
    }
}

fn status(
    object: &ClusterProxyEntrypoint,
    namespace: &str,
    uid: &str,
    table: &NameTable<()>,
    seen: &Seen,
) -> ClusterProxyEntrypointStatus {
    let entry = table.by_uid(uid);
    let (status, reason, message) = match entry {
        Some(entry) => in_table(object, entry, table),
        None => (
            ConditionStatus::False,
            refused(object, namespace, seen).0,
            refused(object, namespace, seen).1,
        ),
    };
    let before = object.status.as_ref();
    let mut conditions = before.map_or_else(Vec::new, |status| status.conditions.clone());
    let condition = Condition::new(ACCEPTED, status, reason, message, seen.now);
    set_condition(
        &mut conditions,
        condition.observed(object.metadata.generation),
    );
    ClusterProxyEntrypointStatus {
        url: Some(format!("https://{uid}/")),
        uid: Some(uid.to_owned()),
        hostnames: entry.map_or_else(Vec::new, |entry| table.hostnames(entry)),
        conditions,
    }
}

/// What is said of an entrypoint that the table has.
fn in_table(object: &ClusterProxyEntrypoint, entry: &Entry<()>, table: &NameTable<()>) -> Verdict {
    let service = entry.service();
    let objects: Vec<String> = table
        .by_service(service)
        .map(|entry| format!("`{}`", entry.object()))
        .collect();
    if objects.len() > 1 {
        let message = format!(
            "{service} is exposed by the entrypoints {}, so that name is refused; https://{}/ still leads to this one",
            objects.join(" and "),
            entry.uid()
        );
        return (ConditionStatus::False, "Ambiguous", message);
    }
    if let Some(wrong) = object.spec.tls.as_ref().and_then(wrong_tls) {
        let message =
            format!("{wrong}; {service} is exposed to CONNECT alone until that is mended");
        return (ConditionStatus::False, "InvalidTls", message);
    }
    let mut message = format!("{service} is exposed");
    for (index, subject) in object.spec.subjects.iter().enumerate() {
        if let Some(problem) = subject.problem() {
            message.push_str(&format!(
                "; spec.subjects[{index}].{problem}, this subject is not let in"
            ));
        }
    }
    if object.spec.access == Some(Access::Anonymous) {
        message.push_str("; spec.access: `Anonymous` has no effect, callers must be known");
    }
    (ConditionStatus::True, "Accepted", message)
}

/// What is wrong with a block about the service's certificate, from the field on.
fn wrong_tls(tls: &UpstreamTls) -> Option<String> {
    if let Some(name) = &tls.server_name
        && let Err(error) = ServerName::try_from(name.as_str())
    {
        return Some(format!("spec.tls.serverName: `{name}`: {error}"));
    }
    let bundle = Bundle::from_pem(tls.ca_bundle.as_ref()?.as_bytes());
    let error = bundle.err()?;
    Some(format!("spec.tls.caBundle: {error}"))
}

/// Why the table does not have an entrypoint: reason and message.
fn refused(
    object: &ClusterProxyEntrypoint,
    namespace: &str,
    seen: &Seen,
) -> (&'static str, String) {
    let cluster: Option<ClusterName> = namespace
        .parse()
        .ok()
        .filter(|cluster| seen.members.contains(cluster));
    let Some(cluster) = cluster else {
        let message = format!(
            "metadata.namespace: no cluster is called `{namespace}`; an entrypoint lies in the namespace of its cluster"
        );
        return ("UnknownCluster", message);
    };
    match declared(object).check(&cluster, ()) {
        Err(error) => (reason(&error), detailed(&error)),
        Ok(_) => ("Ambiguous", "another object has the same uid".to_owned()),
    }
}

fn reason(error: &InvalidEntry) -> &'static str {
    match error {
        InvalidEntry::Name {
            field: "service", ..
        } => "InvalidService",
        InvalidEntry::Name { .. } => "InvalidNamespace",
        InvalidEntry::Port { .. } => "InvalidPort",
    }
}

/// The error and its causes in one line; those that the error's own text holds already are left
/// out.
fn detailed(error: &InvalidEntry) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = error.source();
    }
    text
}
