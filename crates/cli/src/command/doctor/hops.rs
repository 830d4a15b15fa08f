//! What each hop shows of itself.

use std::{fmt, str::FromStr};

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::ResourceExt;
use serde::Serialize;
use strait_api::{ClusterProxyEntrypoint, ConditionStatus, wire_names};

use crate::{
    cluster::Cluster,
    command::{clusters, services},
    failure::Failure,
    proxy::Opened,
    sessions::{self, Found},
};

/// The port that is tried when nobody names one.
const HTTPS: u16 = 443;

/// One hop of the way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Hop {
    pub(super) hop: String,
    pub(super) verdict: Verdict,
    pub(super) found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hint: Option<String>,
}

/// How a hop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    Good,
    Broken,
    /// We may not know.
    Unknown,
}

/// The name of a service as it was typed, with or without a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    host: String,
    port: Option<u16>,
}

// === impl Hop ===

impl Hop {
    pub(super) fn good(hop: &str, found: impl Into<String>) -> Self {
        Self::new(hop, Verdict::Good, found, None)
    }

    pub(super) fn broken(hop: &str, found: impl Into<String>, hint: Option<String>) -> Self {
        Self::new(hop, Verdict::Broken, found, hint)
    }

    pub(super) fn unknown(hop: &str, found: impl Into<String>) -> Self {
        Self::new(hop, Verdict::Unknown, found, None)
    }

    pub(super) fn failed(hop: &str, failure: &Failure) -> Self {
        Self::broken(hop, failure.line(), failure.hint().map(str::to_owned))
    }

    fn new(hop: &str, verdict: Verdict, found: impl Into<String>, hint: Option<String>) -> Self {
        Self {
            hop: hop.to_owned(),
            verdict,
            found: found.into(),
            hint,
        }
    }
}

// === impl Name ===

impl Name {
    /// The cluster in a name of the canonical form.
    pub(super) fn cluster(&self) -> Option<&str> {
        let labels: Vec<&str> = self.host.split('.').collect();
        match labels.as_slice() {
            [_, _, cluster] => Some(*cluster),
            _ => None,
        }
    }

    pub(super) fn is_among(&self, found: &[ClusterProxyEntrypoint]) -> bool {
        found.iter().any(|entrypoint| self.leads_to(entrypoint))
    }

    fn leads_to(&self, entrypoint: &ClusterProxyEntrypoint) -> bool {
        let status = entrypoint.status.as_ref();
        let uid = status.and_then(|status| status.uid.as_ref());
        canonical(entrypoint) == self.host
            || status.is_some_and(|status| status.hostnames.contains(&self.host))
            || uid == Some(&self.host)
    }

    /// What to connect to: the port that was typed, else the first that is exposed by number,
    /// else 443.
    pub(super) fn authority(&self, entrypoint: Option<&ClusterProxyEntrypoint>) -> String {
        let exposed = entrypoint.iter().flat_map(|e| e.spec.ports.iter());
        let first = exposed.filter_map(|port| port.parse().ok()).next();
        format!("{}:{}", self.host, self.port.or(first).unwrap_or(HTTPS))
    }
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "it must be SERVICE.NAMESPACE.CLUSTER or SERVICE.NAMESPACE.CLUSTER:PORT";
        let (host, port) = match text.rsplit_once(':') {
            None => (text, None),
            Some((host, port)) => match port.parse() {
                Ok(port @ 1..) => (host, Some(port)),
                _ => return Err(wrong().to_owned()),
            },
        };
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
        if host.is_empty() || !host.chars().all(allowed) {
            return Err(wrong().to_owned());
        }
        Ok(Self {
            host: host.to_ascii_lowercase(),
            port,
        })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.host)
    }
}

/// Whether the name leads to an entrypoint, and to which.
pub(super) fn name<'a>(
    name: &Name,
    found: &'a Result<Vec<ClusterProxyEntrypoint>, Failure>,
) -> (Hop, Option<&'a ClusterProxyEntrypoint>) {
    let hop = "name";
    let found = match found {
        Ok(found) => found,
        Err(failure) => return (Hop::unknown(hop, failure.line()), None),
    };
    let Some(entrypoint) = found.iter().find(|entrypoint| name.leads_to(entrypoint)) else {
        let all: Vec<String> = found.iter().map(canonical).collect();
        let hint = match services::nearest(&name.host, &all) {
            Some(near) => {
                format!("did you mean `{near}`?  `strait services` lists what is exposed")
            }
            None => "`strait services` lists what is exposed".to_owned(),
        };
        let text = format!("no entrypoint is called {name}");
        return (Hop::broken(hop, text, Some(hint)), None);
    };
    let annotations = entrypoint.annotations();
    let from = match annotations.get(wire_names::SOURCE_ANNOTATION) {
        Some(source) => format!("from {source}"),
        None => "made by hand".to_owned(),
    };
    let namespace = entrypoint.namespace().unwrap_or_default();
    let text = format!(
        "ClusterProxyEntrypoint {namespace}/{}, {from}",
        entrypoint.name_any()
    );
    match refusal(entrypoint) {
        None => (Hop::good(hop, text), Some(entrypoint)),
        Some(why) => (
            Hop::broken(hop, format!("{text}: {why}"), None),
            Some(entrypoint),
        ),
    }
}

/// Whether the user of the kubeconfig may connect.
pub(super) async fn rights(cluster: &Cluster, entrypoint: &ClusterProxyEntrypoint) -> Hop {
    let (namespace, object) = (
        entrypoint.namespace().unwrap_or_default(),
        entrypoint.name_any(),
    );
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                group: Some(wire_names::PROXY_GROUP.to_owned()),
                resource: Some(wire_names::ENTRYPOINTS.to_owned()),
                verb: Some(wire_names::CONNECT_VERB.to_owned()),
                namespace: Some(namespace.clone()),
                name: Some(object.clone()),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let answer = match cluster.create(&review).await {
        Ok(answer) => answer.status.unwrap_or_default(),
        Err(failure) => return Hop::unknown("rights", failure.line()),
    };
    if answer.allowed {
        let why = answer.reason.filter(|reason| !reason.is_empty());
        let why = why.map(|reason| format!(" ({reason})")).unwrap_or_default();
        return Hop::good(
            "rights",
            format!("the user of this kubeconfig may connect{why}"),
        );
    }
    if !entrypoint.spec.subjects.is_empty() {
        return Hop::unknown(
            "rights",
            "RBAC does not allow it; the entrypoint's own spec.subjects may",
        );
    }
    let hint = format!(
        "a Role in namespace {namespace} has to allow the verb `{}` on {} `{object}`; the ClusterRole `strait-connect` does for all of that member",
        wire_names::CONNECT_VERB,
        wire_names::ENTRYPOINTS
    );
    Hop::broken(
        "rights",
        "the user of this kubeconfig may not connect",
        Some(hint),
    )
}

/// Whether a hub has a session with the member's agent.
pub(super) fn session(member: &str, found: Result<Vec<Found>, Failure>) -> Hop {
    let hop = "session";
    let found = match found {
        Ok(found) => found,
        Err(failure) => return Hop::unknown(hop, failure.line()),
    };
    let of_member = |f: &&Found| f.session.cluster.as_str() == member && !f.session.draining;
    let ours: Vec<&Found> = found.iter().filter(of_member).collect();
    if ours.is_empty() {
        let hint = "in the member, `kubectl -n strait-agent logs deployment/strait-agent` says why the agent is not connected";
        return Hop::broken(
            hop,
            format!("no agent of {member} is connected"),
            Some(hint.to_owned()),
        );
    }
    let hubs: Vec<String> = ours
        .iter()
        .map(|f| match f.session.rtt_micros {
            Some(rtt) => format!("{} ({})", f.hub, sessions::milliseconds(rtt)),
            None => f.hub.clone(),
        })
        .collect();
    let text = format!("{member} is connected to {}", hubs.join(" and "));
    if ours.iter().all(|f| f.session.reachable == Some(false)) {
        let hint =
            "the member's API server does not answer its own agent, so Services are not found";
        return Hop::broken(
            hop,
            format!("{text}, but probes do not come back"),
            Some(hint.to_owned()),
        );
    }
    Hop::good(hop, text)
}

/// Whether the service takes a connection.
pub(super) fn connection(authority: &str, opened: &Opened) -> Hop {
    let hop = "connection";
    match opened {
        Opened::Stream(_) => Hop::good(hop, format!("{authority} took a connection")),
        Opened::Refused(refusal) => {
            let problem: serde_json::Value =
                serde_json::from_slice(refusal.body()).unwrap_or_default();
            let text = |field: &str| problem[field].as_str().map(str::to_owned);
            let detail = text("detail").unwrap_or_else(|| refusal.status().to_string());
            let found = match text("code") {
                Some(code) => format!("{detail} ({code})"),
                None => detail,
            };
            Hop::broken(hop, found, text("hint"))
        }
    }
}

/// How a member is.
pub(super) fn member(member: &clusters::Member) -> Hop {
    let (hop, state) = (member.cluster.as_str(), member.state.as_str());
    let text = match member.message.as_str() {
        "" => state.to_owned(),
        message => format!("{state}: {message}"),
    };
    match member.state {
        clusters::State::Connected => Hop::good(hop, text),
        clusters::State::Lost => Hop::broken(hop, text, None),
        clusters::State::Unknown | clusters::State::Expected => Hop::unknown(hop, text),
    }
}

/// How many entrypoints there are, and those that do not work.
pub(super) fn entrypoints(found: &[ClusterProxyEntrypoint]) -> Vec<Hop> {
    let wrong = found.iter().filter_map(|entrypoint| {
        let why = refusal(entrypoint)?;
        Some(Hop::broken(&canonical(entrypoint), why, None))
    });
    let mut hops: Vec<Hop> = wrong.collect();
    let good = found.len() - hops.len();
    hops.insert(0, Hop::good("entrypoints", format!("{good} accepted")));
    hops
}

/// Why an entrypoint is not accepted, if it is not.
fn refusal(entrypoint: &ClusterProxyEntrypoint) -> Option<String> {
    let conditions = &entrypoint.status.as_ref()?.conditions;
    let accepted = conditions
        .iter()
        .find(|c| c.r#type == wire_names::ACCEPTED)?;
    (accepted.status == ConditionStatus::False)
        .then(|| format!("{}: {}", accepted.reason, accepted.message))
}

fn canonical(entrypoint: &ClusterProxyEntrypoint) -> String {
    let spec = &entrypoint.spec;
    let cluster = entrypoint.namespace().unwrap_or_default();
    format!("{}.{}.{cluster}", spec.service, spec.namespace)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use strait_api::{ClusterProxyEntrypointSpec, ClusterProxyEntrypointStatus, Condition};

    use super::*;

    #[test]
    fn a_name_may_have_a_port() {
        let name: Name = "Search.default.cluster1:8443".parse().unwrap();
        assert_eq!(name.cluster(), Some("cluster1"));
        assert_eq!(name.authority(None), "search.default.cluster1:8443");
        let name: Name = "search.default.cluster1".parse().unwrap();
        assert_eq!(name.authority(None), "search.default.cluster1:443");
        let entrypoint = entrypoint("search", &["http", "8080"], None);
        assert_eq!(
            name.authority(Some(&entrypoint)),
            "search.default.cluster1:8080"
        );
        for bad in [
            "",
            ":1",
            "a.b.c:",
            "a.b.c:https",
            "a.b.c:0",
            "https://a.b.c",
            "a b",
        ] {
            assert!(bad.parse::<Name>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_name_is_found_by_every_form_and_a_wrong_one_corrected() {
        let found = Ok(vec![
            entrypoint("search", &[], None),
            entrypoint("foo", &[], Some("InvalidTls")),
        ]);
        for good in ["search.default.cluster1", "mysearch.cluster1", "uid-search"] {
            let (hop, entrypoint) = name(&good.parse().unwrap(), &found);
            assert_eq!(hop.verdict, Verdict::Good, "{hop:?}");
            assert!(entrypoint.is_some());
        }
        let (hop, _) = name(&"foo.default.cluster1".parse().unwrap(), &found);
        assert!(
            hop.verdict == Verdict::Broken && hop.found.contains("InvalidTls: why"),
            "{hop:?}"
        );
        let (hop, none) = name(&"serch.default.cluster1".parse().unwrap(), &found);
        assert!(none.is_none() && hop.hint.unwrap().contains("`search.default.cluster1`"));
        let forbidden = Err(Failure::new("forbidden"));
        assert_eq!(
            name(&"a.b.c".parse().unwrap(), &forbidden).0.verdict,
            Verdict::Unknown
        );
    }

    #[test]
    fn entrypoints_that_do_not_work_are_named() {
        let found = [
            entrypoint("search", &[], None),
            entrypoint("foo", &[], Some("Conflict")),
        ];
        let hops = entrypoints(&found);
        assert_eq!(hops[0], Hop::good("entrypoints", "1 accepted"));
        assert_eq!(
            hops[1],
            Hop::broken("foo.default.cluster1", "Conflict: why", None)
        );
    }

    #[test]
    fn a_member_without_a_session_is_the_broken_hop() {
        assert_eq!(session("cluster1", Ok(vec![])).verdict, Verdict::Broken);
        let failed = Err(Failure::new("forbidden"));
        assert_eq!(session("cluster1", failed).verdict, Verdict::Unknown);
    }

    fn entrypoint(service: &str, ports: &[&str], wrong: Option<&str>) -> ClusterProxyEntrypoint {
        let spec = ClusterProxyEntrypointSpec {
            service: service.to_owned(),
            namespace: "default".to_owned(),
            ports: ports.iter().map(|port| (*port).to_owned()).collect(),
            ..ClusterProxyEntrypointSpec::default()
        };
        let mut made = ClusterProxyEntrypoint::new(service, spec);
        made.metadata.namespace = Some("cluster1".to_owned());
        let status = match wrong {
            Some(_) => ConditionStatus::False,
            None => ConditionStatus::True,
        };
        let reason = wrong.unwrap_or("Accepted");
        let accepted = Condition::new(
            wire_names::ACCEPTED,
            status,
            reason,
            "why",
            Timestamp::UNIX_EPOCH,
        );
        made.status = Some(ClusterProxyEntrypointStatus {
            uid: Some(format!("uid-{service}")),
            hostnames: vec![
                format!("{service}.default.cluster1"),
                format!("my{service}.cluster1"),
            ],
            conditions: vec![accepted],
            ..ClusterProxyEntrypointStatus::default()
        });
        made
    }
}
