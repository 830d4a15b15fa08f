//! `spec.services` as a list of `{name, namespace, cluster}`.

use serde_json::Value;
use strait_types::ServiceName;

use super::{Problem, ProblemReason, claims::Claims, fields};

pub(super) fn read(entries: &[Value], claims: &mut Claims<'_>) {
    for (index, entry) in entries.iter().enumerate() {
        let at = format!("spec.services[{index}]");
        match wanted(&at, entry, claims) {
            Ok(service) => claims.entrypoint(service, &at),
            Err(problems) => problems.into_iter().for_each(|p| claims.problem(p)),
        }
    }
}

fn wanted(at: &str, entry: &Value, claims: &Claims<'_>) -> Result<ServiceName, Vec<Problem>> {
    let [name, namespace, cluster] = fields::texts(at, entry, ["name", "namespace", "cluster"])?;
    let mut problems = vec![];
    for (field, text) in [
        ("name", &name),
        ("namespace", &namespace),
        ("cluster", &cluster),
    ] {
        problems.extend(fields::label(&format!("{at}.{field}"), text).err());
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let cluster = claims
        .member(&format!("{at}.cluster"), &cluster)
        .map_err(|problem| vec![problem])?;
    let service = ServiceName::new(&name, &namespace, cluster).map_err(|error| {
        vec![Problem::new(
            at,
            ProblemReason::InvalidName,
            error.to_string(),
        )]
    })?;
    match claims.source_of(&service) {
        Some(first) => Err(vec![Problem::new(
            at,
            ProblemReason::Collision,
            format!("{service} is already exposed by {first}"),
        )]),
        None => Ok(service),
    }
}
