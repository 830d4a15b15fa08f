//! `spec.services` as a map of `key: service.namespace.svc`, for every member.

use serde_json::{Map, Value};
use strait_types::ServiceName;

use super::{Problem, ProblemReason, claims::Claims, fields};
use crate::host;

pub(super) fn read(entries: &Map<String, Value>, claims: &mut Claims<'_>) {
    let mut entries: Vec<_> = entries.iter().collect();
    entries.sort_by_key(|(key, _)| *key);
    for (key, address) in entries {
        let at = path(key);
        match wanted(&at, key, address) {
            Ok((service, namespace)) => claim(&at, key, service, namespace, claims),
            Err(problem) => claims.problem(problem),
        }
    }
}

fn claim(at: &str, key: &str, service: &str, namespace: &str, claims: &mut Claims<'_>) {
    let hosts = claims
        .members()
        .iter()
        .filter_map(|cluster| {
            let host = host::normalise(&format!("{cluster}-{key}"));
            let name = ServiceName::new(service, namespace, cluster.clone()).ok()?;
            Some((host, name))
        })
        .collect::<Vec<_>>();
    let mut named = vec![];
    for (host, name) in hosts {
        match host {
            Some(host) => named.push((host, name)),
            None => {
                let message = format!("`{}-{key}` is too long for a host name", name.cluster());
                claims.problem(Problem::new(at, ProblemReason::InvalidHostname, message));
                claims.entrypoint(name, at);
            }
        }
    }
    claims.for_members(at, at, named);
}

/// The service and namespace of one address.
fn wanted<'a>(at: &str, key: &str, address: &'a Value) -> Result<(&'a str, &'a str), Problem> {
    fields::label(at, key)?;
    let form = "`service.namespace.svc`";
    let Value::String(address) = address else {
        return Err(fields::wrong_type(
            at,
            &format!("a text of the form {form}"),
            address,
        ));
    };
    let mut parts = address.split('.');
    let (Some(service), Some(namespace), None | Some("svc")) =
        (parts.next(), parts.next(), parts.next())
    else {
        let message = format!("`{}` is not of the form {form}", fields::shortened(address));
        return Err(Problem::new(at, ProblemReason::InvalidName, message));
    };
    fields::label(at, service)?;
    fields::label(at, namespace)?;
    // What follows is the member's own domain, `cluster.local` mostly, which says nothing more.
    for label in parts {
        fields::label(at, label)?;
    }
    Ok((service, namespace))
}

fn path(key: &str) -> String {
    if key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        format!("spec.services.{}", fields::shortened(key))
    } else {
        format!("spec.services[{:?}]", fields::shortened(key))
    }
}
