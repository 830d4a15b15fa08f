//! `strait doctor`: walks the way to a service hop by hop and names the one that is broken.

mod hops;

use serde::Serialize;
use strait_api::{ClusterProxyEntrypoint, ManagedCluster};
use strait_runtime::{Tasks, clock};

use self::hops::Hop;
pub(crate) use self::hops::Name;
use crate::{
    args::{DoctorArgs, GlobalArgs},
    cluster::Cluster,
    command::{clusters, doctor::hops::Verdict},
    failure::Failure,
    printer::{Printer, Report},
    proxy::{Hub, HubError},
    sessions,
};

/// What was found, hop by hop.
#[derive(Debug, PartialEq, Serialize)]
struct Diagnosis {
    hops: Vec<Hop>,
}

pub(crate) async fn run(
    global: &GlobalArgs,
    args: &DoctorArgs,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    let cluster = Cluster::connect(global).await?;
    let mut hops = vec![];
    if let Some(hub) = hub(&cluster, &mut hops).await {
        match &args.name {
            Some(name) => way_to(&cluster, &hub, name, &mut hops).await,
            None => members(&cluster, &mut hops).await,
        }
    }
    let diagnosis = Diagnosis { hops };
    printer.report(args.format.output, &diagnosis)?;
    let broken = |hop: &&Hop| hop.verdict == Verdict::Broken;
    match diagnosis.hops.iter().find(broken) {
        None => Ok(()),
        Some(hop) => {
            let failure = Failure::new(format!("{}: {}", hop.hop, hop.found));
            Err(match &hop.hint {
                Some(hint) => failure.with_hint(hint),
                None => failure,
            })
        }
    }
}

/// Whether the hub is there and can be trusted. `None` when there is no way on.
async fn hub(cluster: &Cluster, hops: &mut Vec<Hop>) -> Option<Hub> {
    let hub = match Hub::of(cluster).await {
        Ok(hub) => hub,
        Err(failure) => {
            hops.push(Hop::failed("hub", &failure));
            return None;
        }
    };
    match hub.answers().await {
        Ok(()) => {
            let found = format!("{} answers", hub.addresses().join(", "));
            hops.push(Hop::good("hub", found));
            Some(hub)
        }
        Err(error) => {
            let failure = Failure::from(anyhow::Error::from(error)).with_hint(
                "`kubectl -n strait-system get pods,services` shows the hub; its address must be reachable from here",
            );
            hops.push(Hop::failed("hub", &failure));
            None
        }
    }
}

async fn way_to(cluster: &Cluster, hub: &Hub, name: &Name, hops: &mut Vec<Hop>) {
    let found: Result<Vec<ClusterProxyEntrypoint>, _> = match name.cluster() {
        Some(member) => cluster.list(&cluster.namespaced(member), "").await,
        None => cluster.list(&cluster.all(), "").await,
    };
    // An alias does not tell its cluster, and a wrong name is best corrected among all.
    let found = match found {
        Ok(found) if name.is_among(&found) => Ok(found),
        Ok(found) => Ok(cluster.list(&cluster.all(), "").await.unwrap_or(found)),
        Err(failure) => Err(failure),
    };
    let (hop, entrypoint) = hops::name(name, &found);
    hops.push(hop);
    let entrypoint = entrypoint.cloned();
    if let Some(entrypoint) = &entrypoint {
        hops.push(hops::rights(cluster, entrypoint).await);
    }
    let member = entrypoint
        .as_ref()
        .and_then(kube::ResourceExt::namespace)
        .or_else(|| name.cluster().map(str::to_owned));
    if let Some(member) = &member {
        hops.push(hops::session(member, sessions::ask(cluster).await));
    }
    let tasks = Tasks::default();
    let authority = name.authority(entrypoint.as_ref());
    let opened = hub.open(&authority, &tasks).await;
    hops.push(connection(&authority, opened));
}

fn connection(authority: &str, opened: Result<crate::proxy::Opened, HubError>) -> Hop {
    match opened {
        Ok(opened) => hops::connection(authority, &opened),
        Err(error) => Hop::failed("connection", &Failure::from(anyhow::Error::from(error))),
    }
}

/// How every member is, when no service is asked about.
async fn members(cluster: &Cluster, hops: &mut Vec<Hop>) {
    let found: Vec<ManagedCluster> = match cluster.list(&cluster.all(), "").await {
        Ok(found) => found,
        Err(failure) => {
            hops.push(Hop::unknown("members", failure.line()));
            return;
        }
    };
    let now = clock::timestamp();
    let mut members: Vec<_> = found
        .iter()
        .map(|found| clusters::member(found, now))
        .collect();
    members.sort_by(|a, b| a.cluster.cmp(&b.cluster));
    hops.extend(members.iter().map(hops::member));
    match cluster
        .list::<ClusterProxyEntrypoint>(&cluster.all(), "")
        .await
    {
        Ok(found) => hops.extend(hops::entrypoints(&found)),
        Err(failure) => hops.push(Hop::unknown("entrypoints", failure.line())),
    }
}

impl Report for Diagnosis {
    fn table(&self) -> String {
        let width = self.hops.iter().map(|hop| hop.hop.len()).max().unwrap_or(0);
        let line = |hop: &Hop| {
            let mark = match hop.verdict {
                Verdict::Good => "ok",
                Verdict::Broken => "BROKEN",
                Verdict::Unknown => "?",
            };
            format!("{:width$}  {mark:6}  {}\n", hop.hop, hop.found)
        };
        self.hops.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hop_has_a_line() {
        let diagnosis = Diagnosis {
            hops: vec![
                Hop::good("hub", "hub:8443 answers"),
                Hop::unknown("session", "only who may list managedclusters is told"),
                Hop::broken("connection", "no endpoint is ready", None),
            ],
        };
        assert_eq!(
            diagnosis.table(),
            "hub         ok      hub:8443 answers\n\
             session     ?       only who may list managedclusters is told\n\
             connection  BROKEN  no endpoint is ready\n"
        );
        assert_eq!(
            serde_json::to_value(&diagnosis).unwrap()["hops"][2],
            serde_json::json!({ "hop": "connection", "verdict": "broken", "found": "no endpoint is ready" })
        );
    }
}
