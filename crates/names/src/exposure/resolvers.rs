//! `spec.serviceResolvers`: host names by template, for every member.

use serde_json::Value;
use strait_types::ServiceName;

use super::{Problem, ProblemReason, claims::Claims, fields};
use crate::host;

/// What stands for the member's name in a template.
const VARIABLE: &str = "$cluster";

pub(super) fn read(entries: &[Value], claims: &mut Claims<'_>) {
    for (index, entry) in entries.iter().enumerate() {
        let at = format!("spec.serviceResolvers[{index}]");
        match hosts(&at, entry, claims) {
            Ok(hosts) => claims.for_members(&at, &format!("{at}.hostnameTemplate"), hosts),
            Err(problems) => problems.into_iter().for_each(|p| claims.problem(p)),
        }
    }
}

fn hosts(
    at: &str,
    entry: &Value,
    claims: &Claims<'_>,
) -> Result<Vec<(String, ServiceName)>, Vec<Problem>> {
    let [template, namespace, name] =
        fields::texts(at, entry, ["hostnameTemplate", "namespace", "name"])?;
    let mut problems: Vec<_> = [
        check(&format!("{at}.hostnameTemplate"), &template).err(),
        fields::label(&format!("{at}.namespace"), &namespace).err(),
        fields::label(&format!("{at}.name"), &name).err(),
    ]
    .into_iter()
    .flatten()
    .collect();
    let mut hosts = vec![];
    for cluster in claims.members() {
        let host = host::normalise(&template.replace(VARIABLE, cluster.as_str()));
        let service = ServiceName::new(&name, &namespace, cluster.clone());
        match (host, service) {
            (Some(host), Ok(service)) => hosts.push((host, service)),
            // Said once: the template itself is wrong, or too long for this member's name.
            (None, _) if problems.is_empty() => problems.push(Problem::new(
                format!("{at}.hostnameTemplate"),
                ProblemReason::InvalidHostname,
                format!("makes no host name for cluster {cluster}, it would be too long"),
            )),
            _ => {}
        }
    }
    if problems.is_empty() {
        Ok(hosts)
    } else {
        Err(problems)
    }
}

fn check(field: &str, template: &str) -> Result<(), Problem> {
    let shown = fields::shortened(template);
    if !template.contains(VARIABLE) {
        return Err(Problem::new(
            field,
            ProblemReason::TemplateWithoutCluster,
            format!(
                "`{shown}` has no `{VARIABLE}`, so every cluster would have the same host name"
            ),
        ));
    }
    if host::normalise(&template.replace(VARIABLE, "c")).is_none() {
        return Err(Problem::new(
            field,
            ProblemReason::InvalidHostname,
            format!("`{shown}` makes no host names: letters, digits, `-` and dots are allowed"),
        ));
    }
    Ok(())
}
