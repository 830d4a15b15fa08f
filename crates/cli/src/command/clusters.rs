//! `strait clusters`.

use jiff::Timestamp;
use kube::ResourceExt;
use serde::Serialize;
use strait_api::{Condition, ConditionStatus, ManagedCluster, wire_names};
use strait_runtime::clock;

use crate::{
    age,
    args::{Format, GlobalArgs},
    cluster::Cluster,
    failure::Failure,
    printer::{Printer, Report},
    table::Table,
};

/// Whether a member can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
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
struct Member {
    cluster: String,
    state: State,
    #[serde(skip_serializing_if = "String::is_empty")]
    since: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
    #[serde(skip)]
    age: String,
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
    let members = members(&found, clock::timestamp());
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

fn member(cluster: &ManagedCluster, now: Timestamp) -> Member {
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
        let mut table = Table::new(&["CLUSTER", "STATE", "SINCE", ""]);
        for member in &self.clusters {
            let state = match member.state {
                State::Connected => "connected",
                State::Lost => "lost",
                State::Unknown => "unknown",
                State::Expected => "expected",
            };
            table.row(vec![
                member.cluster.clone(),
                state.to_owned(),
                member.age.clone(),
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
        assert_eq!(
            members(&found, now).table(),
            "CLUSTER   STATE      SINCE\n\
             cluster1  connected  3h12m\n\
             lab       lost       3h12m  no answer to a probe\n\
             new       expected   -\n"
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
            }]})
        );
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
