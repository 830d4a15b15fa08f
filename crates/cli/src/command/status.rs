//! `strait status`.

use jiff::Timestamp;
use serde::Serialize;
use strait_api::ManagedCluster;
use strait_runtime::clock;
use strait_types::SessionStatus;

use crate::{
    age,
    args::{Format, GlobalArgs},
    cluster::Cluster,
    command::clusters,
    failure::Failure,
    printer::{Printer, Report},
    sessions::{self, Found},
    table::Table,
};

/// A session with an agent, or a member that has none.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    cluster: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hub: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<SessionStatus>,
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
    #[serde(skip)]
    age: String,
}

#[derive(Debug, PartialEq, Serialize)]
struct Status {
    sessions: Vec<Row>,
}

pub(crate) async fn run(
    global: &GlobalArgs,
    format: Format,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    let cluster = Cluster::connect(global).await?;
    let members: Vec<ManagedCluster> = cluster.list(&cluster.all(), "").await?;
    let found = sessions::ask(&cluster).await?;
    let status = status(&members, found, clock::timestamp());
    if status.sessions.is_empty() {
        printer.say("no cluster has joined; `strait token create --cluster NAME` lets one in")?;
    }
    printer.report(format, &status)
}

fn status(members: &[ManagedCluster], found: Vec<Found>, now: Timestamp) -> Status {
    let mut rows: Vec<Row> = found
        .into_iter()
        .map(|found| with_session(found, now))
        .collect();
    for member in members {
        let member = clusters::member(member, now);
        if rows.iter().all(|row| row.cluster != member.cluster) {
            rows.push(Row {
                cluster: member.cluster,
                // The inventory may be a moment behind.
                state: match member.state {
                    clusters::State::Connected => clusters::State::Lost.as_str(),
                    state => state.as_str(),
                },
                hub: None,
                session: None,
                reason: member.message,
                age: member.age,
            });
        }
    }
    rows.sort_by(|a, b| a.cluster.cmp(&b.cluster));
    Status { sessions: rows }
}

fn with_session(Found { hub, session }: Found, now: Timestamp) -> Row {
    let (state, reason) = match (session.draining, session.reachable) {
        (true, _) => (
            "draining",
            "takes no more streams; another session has its place",
        ),
        (false, Some(true)) => ("connected", ""),
        (false, None) => ("connected", "no probe has come back yet"),
        (false, Some(false)) => ("unreachable", "the agent answers, its API server does not"),
    };
    Row {
        cluster: session.cluster.to_string(),
        state,
        hub: Some(hub),
        reason: reason.to_owned(),
        age: age::age(session.since, now),
        session: Some(session),
    }
}

impl Report for Status {
    fn table(&self) -> String {
        let mut table = Table::new(&[
            "CLUSTER", "STATE", "HUB", "CARRIER", "RTT", "SEEN", "STREAMS", "SINCE", "FROM",
            "AGENT", "",
        ]);
        for row in &self.sessions {
            let of = |read: fn(&SessionStatus) -> String| {
                row.session.as_ref().map(read).unwrap_or_default()
            };
            table.row(vec![
                row.cluster.clone(),
                row.state.to_owned(),
                row.hub.clone().unwrap_or_default(),
                of(|s| s.carrier.clone()),
                of(|s| {
                    s.rtt_micros
                        .map_or_else(String::new, sessions::milliseconds)
                }),
                of(|s| format!("{}s ago", s.silent_millis / 1000)),
                of(|s| s.streams.to_string()),
                row.age.clone(),
                of(|s| s.source.clone()),
                of(|s| sessions::version(s).to_owned()),
                row.reason.clone(),
            ]);
        }
        table.render()
    }
}

#[cfg(test)]
mod tests {
    use strait_api::ManagedClusterSpec;

    use super::*;

    #[test]
    fn every_session_has_a_row_and_so_has_a_member_without_one() {
        let members =
            ["cluster1", "lab"].map(|n| ManagedCluster::new(n, ManagedClusterSpec::default()));
        let found = vec![
            found("cluster1", "hub-0", |_| {}),
            found("cluster1", "hub-1", |s| s.reachable = Some(false)),
            found("cluster2", "hub-1", |s| s.draining = true),
        ];
        let status = status(&members, found, Timestamp::from_second(190).unwrap());
        assert_eq!(
            status.table(),
            "CLUSTER   STATE        HUB    CARRIER  RTT     SEEN    STREAMS  SINCE  FROM         AGENT\n\
             cluster1  connected    hub-0  tls      0.4 ms  2s ago  3        3m10s  192.0.2.1:1  0.1.0\n\
             cluster1  unreachable  hub-1  tls      0.4 ms  2s ago  3        3m10s  192.0.2.1:1  0.1.0  the agent answers, its API server does not\n\
             cluster2  draining     hub-1  tls      0.4 ms  2s ago  3        3m10s  192.0.2.1:1  0.1.0  takes no more streams; another session has its place\n\
             lab       expected     -      -        -       -       -        -      -            -\n"
        );
        let json = serde_json::to_value(&status).unwrap();
        assert_eq!(json["sessions"][0]["session"]["rttMicros"], 412);
        assert_eq!(
            json["sessions"][3],
            serde_json::json!({ "cluster": "lab", "state": "expected" })
        );
    }

    fn found(cluster: &str, hub: &str, change: impl FnOnce(&mut SessionStatus)) -> Found {
        let mut session = SessionStatus {
            cluster: cluster.parse().unwrap(),
            instance: hub.to_owned(),
            software: "strait/0.1.0".to_owned(),
            source: "192.0.2.1:1".to_owned(),
            carrier: "tls".to_owned(),
            since: Timestamp::UNIX_EPOCH,
            rtt_micros: Some(412),
            silent_millis: 2400,
            streams: 3,
            bytes_from_agent: 0,
            bytes_to_agent: 0,
            draining: false,
            reachable: Some(true),
            certificate_ends: Timestamp::UNIX_EPOCH,
        };
        change(&mut session);
        Found {
            hub: hub.to_owned(),
            session,
        }
    }
}
