//! `strait clusters`.

use std::collections::BTreeSet;

use jiff::Timestamp;
use kube::ResourceExt;
use serde::Serialize;
use strait_api::{Condition, ConditionStatus, ManagedCluster, wire_names};
use strait_runtime::clock;
use strait_types::SessionStatus;

use crate::{
    age,
    args::{Format, GlobalArgs},
    cluster::Cluster,
    failure::Failure,
    printer::{Printer, Report},
    sessions,
    table::Table,
};

/// Whether a member can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// A probe went through the tunnel and came back.
    Connected,
    /// It was so, and is not any more.
    Lost,
    /// It has joined, and nobody knows yet.
    Unknown,
    /// It is in the inventory and has never joined.
    Expected,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Member {
    pub(crate) cluster: String,
    pub(crate) state: State,
    #[serde(skip_serializing_if = "String::is_empty")]
    since: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) message: String,
    /// Sessions with its agents, of all hubs that could be asked.
    sessions: Vec<SessionStatus>,
    #[serde(skip)]
    pub(crate) age: String,
    /// Whether a hub could be asked about sessions.
    #[serde(skip)]
    asked: bool,
}

#[derive(Debug, PartialEq, Serialize)]
struct Members {
    clusters: Vec<Member>,
}

pub(crate) async fn run(
    global: &GlobalArgs,
    format: Format,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    let cluster = Cluster::connect(global).await?;
    let found: Vec<ManagedCluster> = cluster.list(&cluster.all(), "").await?;
    let mut members = members(&found, clock::timestamp());
    if !members.clusters.is_empty() {
        match sessions::ask(&cluster).await {
            Ok(found) => members.take(found.into_iter().map(|found| found.session)),
            Err(failure) => {
                printer.say(&format!("sessions are not known: {}", failure.line()))?;
            }
        }
    }
    if members.clusters.is_empty() {
        printer.say("no cluster has joined; `strait token create --cluster NAME` lets one in")?;
    }
    printer.report(format, &members)
}

fn members(found: &[ManagedCluster], now: Timestamp) -> Members {
    let mut clusters: Vec<Member> = found.iter().map(|cluster| member(cluster, now)).collect();
    clusters.sort_by(|a, b| a.cluster.cmp(&b.cluster));
    Members { clusters }
}

/// What the inventory says of a member.
pub(crate) fn member(cluster: &ManagedCluster, now: Timestamp) -> Member {
    let status = cluster.status.clone().unwrap_or_default();
    let find = |name: &str| status.conditions.iter().find(|c| c.r#type == name);
    let reachable = find(wire_names::TUNNEL_REACHABLE);
    let joined = find(wire_names::JOINED).is_some_and(|c| c.status == ConditionStatus::True);
    let state = match reachable.map(|c| c.status) {
        Some(ConditionStatus::True) => State::Connected,
        Some(ConditionStatus::False) if joined => State::Lost,
        _ if joined => State::Unknown,
        _ => State::Expected,
    };
    let since = reachable
        .map(|c| c.last_transition_time.clone())
        .unwrap_or_default();
    let message = match state {
        State::Connected => String::new(),
        State::Lost | State::Unknown | State::Expected => reachable.map(told).unwrap_or_default(),
    };
    Member {
        cluster: cluster.name_any(),
        state,
        age: since
            .parse()
            .map(|since| age::age(since, now))
            .unwrap_or_default(),
        since,
        message,
        sessions: vec![],
        asked: false,
    }
}

impl State {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Lost => "lost",
            Self::Unknown => "unknown",
            Self::Expected => "expected",
        }
    }
}

impl Members {
    /// Adds what the hub knows of their sessions.
    fn take(&mut self, sessions: impl IntoIterator<Item = SessionStatus>) {
        for session in sessions {
            let member = self
                .clusters
                .iter_mut()
                .find(|member| member.cluster == session.cluster.as_str());
            if let Some(member) = member {
                member.sessions.push(session);
            }
        }
        self.clusters
            .iter_mut()
            .for_each(|member| member.asked = true);
    }
}

impl Member {
    fn count(&self, number: usize) -> String {
        if self.asked {
            number.to_string()
        } else {
            String::new()
        }
    }

    /// The shortest round trip.
    fn rtt(&self) -> String {
        let shortest = self.sessions.iter().filter_map(|s| s.rtt_micros).min();
        shortest.map_or_else(String::new, sessions::milliseconds)
    }

    /// The versions of its agents.
    fn versions(&self) -> String {
        let versions = self.sessions.iter().map(sessions::version);
        let versions: BTreeSet<&str> = versions.filter(|version| !version.is_empty()).collect();
        versions.into_iter().collect::<Vec<_>>().join(",")
    }
}

fn told(condition: &Condition) -> String {
    if condition.message.is_empty() {
        condition.reason.clone()
    } else {
        condition.message.clone()
    }
}

impl Report for Members {
    fn table(&self) -> String {
        let mut table = Table::new(&[
            "CLUSTER", "STATE", "SESSIONS", "RTT", "STREAMS", "SINCE", "AGENT", "",
        ]);
        for member in &self.clusters {
            table.row(vec![
                member.cluster.clone(),
                member.state.as_str().to_owned(),
                member.count(member.sessions.len()),
                member.rtt(),
                member.count(member.sessions.iter().map(|s| s.streams).sum()),
                member.age.clone(),
                member.versions(),
                member.message.clone(),
            ]);
        }
        table.render()
    }
}

#[cfg(test)]
mod tests {
    use strait_api::{ManagedClusterSpec, ManagedClusterStatus};

    use super::*;

    #[test]
    fn the_table_tells_who_is_there_since_when_and_why_not() {
        let found = [
            cluster(
                "lab",
                &[(
                    "TunnelReachable",
                    ConditionStatus::False,
                    "no answer to a probe",
                )],
            ),
            cluster(
                "cluster1",
                &[("TunnelReachable", ConditionStatus::True, "fine")],
            ),
            cluster("new", &[]),
        ];
        let now = Timestamp::from_second(1_800_000_000 + 3 * 3600 + 720).unwrap();
        let mut members = members(&found, now);
        assert_eq!(
            members.table(),
            "CLUSTER   STATE      SESSIONS  RTT  STREAMS  SINCE  AGENT\n\
             cluster1  connected  -         -    -        3h12m  -\n\
             lab       lost       -         -    -        3h12m  -      no answer to a probe\n\
             new       expected   -         -    -        -      -\n"
        );
        members.take(vec![session("cluster1", 38_400), session("cluster1", 412)]);
        assert_eq!(
            members.table(),
            "CLUSTER   STATE      SESSIONS  RTT     STREAMS  SINCE  AGENT\n\
             cluster1  connected  2         0.4 ms  6        3h12m  0.1.0\n\
             lab       lost       0         -       0        3h12m  -      no answer to a probe\n\
             new       expected   0         -       0        -      -\n"
        );
    }

    #[test]
    fn json_says_the_same() {
        let found = [cluster(
            "a",
            &[("TunnelReachable", ConditionStatus::True, "fine")],
        )];
        let json = serde_json::to_value(members(&found, Timestamp::UNIX_EPOCH)).unwrap();
        assert_eq!(
            json,
            serde_json::json!({ "clusters": [{
                "cluster": "a", "state": "connected", "since": "2027-01-15T08:00:00Z",
                "sessions": [],
            }]})
        );
    }

    fn session(cluster: &str, rtt: u64) -> SessionStatus {
        SessionStatus {
            cluster: cluster.parse().unwrap(),
            instance: rtt.to_string(),
            software: "strait/0.1.0".to_owned(),
            source: "192.0.2.1:1".to_owned(),
            carrier: "tls".to_owned(),
            since: Timestamp::UNIX_EPOCH,
            rtt_micros: Some(rtt),
            silent_millis: 0,
            streams: 3,
            bytes_from_agent: 0,
            bytes_to_agent: 0,
            draining: false,
            reachable: Some(true),
            certificate_ends: Timestamp::UNIX_EPOCH,
        }
    }

    fn cluster(name: &str, conditions: &[(&str, ConditionStatus, &str)]) -> ManagedCluster {
        let at = Timestamp::from_second(1_800_000_000).unwrap();
        let mut all = vec![];
        for (kind, status, message) in conditions {
            all.push(Condition::new(kind, *status, "Probe", *message, at));
        }
        if !all.is_empty() {
            all.push(Condition::new(
                wire_names::JOINED,
                ConditionStatus::True,
                "x",
                "",
                at,
            ));
        }
        let mut cluster = ManagedCluster::new(name, ManagedClusterSpec::default());
        cluster.status = Some(ManagedClusterStatus {
            conditions: all,
            ..ManagedClusterStatus::default()
        });
        cluster
    }
}
