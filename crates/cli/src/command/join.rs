//! `strait join`.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use kube::ResourceExt;
use serde::Serialize;
use strait_api::wire_names::{AGENT_NAMESPACE, AGENT_STATUS_CONFIG_MAP, CLUSTER_LABEL};
use strait_install::{AgentInstall, AgentState, AgentStatus};
use strait_runtime::clock;
use strait_types::{JoinRefusal, JoinToken};

use crate::{
    age,
    args::{GlobalArgs, JoinArgs},
    cluster::Cluster,
    command::{
        install::{Applied, apply},
        version::{IMAGE, VERSION},
    },
    failure::Failure,
    printer::{Printer, Report},
    rollout, token_file,
    wait::{Seen, Waited, seconds, wait},
};

/// The agent's Deployment.
const AGENT: &str = "strait-agent";

#[derive(Debug, Serialize)]
struct Joined {
    cluster: String,
    state: AgentState,
    hubs: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    objects: Vec<Applied>,
}

pub(crate) async fn run(
    global: &GlobalArgs,
    args: &JoinArgs,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    let mut token = token_file::read(&args.token_file)?;
    if !args.hubs.is_empty() {
        token.hubs.clone_from(&args.hubs);
    }
    check(&token, clock::timestamp())?;
    let started = clock::now();
    let cluster = Cluster::connect(global).await?;
    let present = cluster
        .get(cluster.namespaced::<Deployment>(AGENT_NAMESPACE), AGENT)
        .await?;
    if let Some(other) = present.as_ref().and_then(|agent| member_of(agent, &token)) {
        return Err(other);
    }
    let allow = match (&present, args.allow.as_slice()) {
        // Who says nothing about it leaves it as it is.
        (Some(agent), []) => allow_list(agent),
        _ => args.allow.clone(),
    };
    let install = AgentInstall {
        image: args.image.clone().unwrap_or_else(|| IMAGE.to_owned()),
        version: VERSION.to_owned(),
        cluster: token.cluster.to_string(),
        replicas: args.replicas,
        allow,
    };
    let mut objects = install.objects();
    let secret = install.join_secret(&token_file::to_yaml(&token)?);
    let before_pods = objects
        .iter()
        .take_while(|o| o.kind() <= secret.kind())
        .count();
    objects.insert(before_pods, secret);
    let objects = apply(&cluster, objects, printer).await?;
    let mut joined = Joined {
        cluster: token.cluster.to_string(),
        state: AgentState::Waiting,
        hubs: token.hubs.clone(),
        seconds: None,
        objects,
    };
    if !args.no_wait {
        let status = connected(&cluster, &token, args.timeout, printer).await?;
        joined.state = status.state;
        joined.hubs = status.hubs;
        joined.seconds = Some(seconds(clock::now() - started));
    }
    printer.report(args.format.output, &joined)
}

/// The refusal to make a member another one: its sessions would be those of two clusters.
fn member_of(agent: &Deployment, token: &JoinToken) -> Option<Failure> {
    let now = agent.labels().get(CLUSTER_LABEL)?;
    (now != token.cluster.as_str()).then(|| {
        Failure::new(format!(
            "this cluster is a member as {now}, and the token is for {}",
            token.cluster
        ))
        .with_hint(
            "is this the right context? `strait uninstall agent` ends the present membership",
        )
    })
}

/// What an agent that runs already lets the hub reach.
fn allow_list(agent: &Deployment) -> Vec<String> {
    let pod = agent
        .spec
        .as_ref()
        .and_then(|spec| spec.template.spec.as_ref());
    let containers = pod.map(|pod| pod.containers.as_slice()).unwrap_or_default();
    let args = containers
        .iter()
        .flat_map(|container| container.args.iter().flatten());
    args.filter_map(|arg| arg.strip_prefix("--allow=").map(str::to_owned))
        .collect()
}

/// Refuses what the hub would refuse, before anything is changed.
fn check(token: &JoinToken, now: Timestamp) -> Result<(), Failure> {
    if token.expires <= now {
        let ago = age::age(token.expires, now);
        return Err(
            Failure::new(format!("this join token expired {ago} ago")).with_hint(new_token(token))
        );
    }
    if token.hubs.is_empty() {
        return Err(Failure::new("the token names no hub").with_hint("`--hub HOST:PORT` names one"));
    }
    Ok(())
}

/// Waits until the agent says that it is connected with this token, or why it is not.
async fn connected(
    cluster: &Cluster,
    token: &JoinToken,
    timeout: u64,
    printer: &mut Printer<'_>,
) -> Result<AgentStatus, Failure> {
    let maps = cluster.namespaced::<ConfigMap>(AGENT_NAMESPACE);
    let mut last = AgentStatus::default();
    let agents = cluster.namespaced::<Deployment>(AGENT_NAMESPACE);
    let look = async || {
        let map = cluster.get(maps.clone(), AGENT_STATUS_CONFIG_MAP).await?;
        let data = map.and_then(|map| map.data).unwrap_or_default();
        last = AgentStatus::from_data(&data);
        let seen = progress(&last, token)?;
        if matches!(seen, Seen::Waiting(_)) {
            return Ok(seen);
        }
        // An agent of before may be connected, which lets through what it was told then.
        let agent = cluster.get(agents.clone(), AGENT).await?;
        Ok(rollout::missing(agent.as_ref()).map_or(seen, Seen::Waiting))
    };
    let end = wait(printer, Duration::from_secs(timeout), look).await?;
    match end {
        Waited::Done(status, _) => Ok(status),
        Waited::TooLong(waited_for) => {
            let trouble = rollout::trouble(cluster, AGENT_NAMESPACE)
                .await
                .unwrap_or_default();
            let trouble = if last.message.is_empty() {
                trouble
            } else {
                last.message
            };
            let what = format!("{} did not join in time", token.cluster);
            Err(rollout::too_long(
                &what,
                &waited_for,
                &trouble,
                AGENT_NAMESPACE,
            ))
        }
    }
}

/// What an agent's status means for whoever waits for this token.
fn progress(status: &AgentStatus, token: &JoinToken) -> Result<Seen<AgentStatus>, Failure> {
    if status.token != token.token.id().as_str() {
        return Ok(Seen::Waiting("waiting for the agent to start".to_owned()));
    }
    let waiting = |text: &str| match status.message.as_str() {
        "" => Ok(Seen::Waiting(text.to_owned())),
        why => Ok(Seen::Waiting(format!("{text}: {why}"))),
    };
    match status.state {
        AgentState::Connected => Ok(Seen::Done(status.clone())),
        AgentState::Refused => Err(refused(status, token)),
        AgentState::Waiting | AgentState::Joining => {
            waiting("waiting for the hub to accept the token")
        }
        AgentState::Connecting => waiting("waiting for a session with the hub"),
        AgentState::Stopping => waiting("waiting for the agent to start again"),
    }
}

fn refused(status: &AgentStatus, token: &JoinToken) -> Failure {
    let cause = anyhow::anyhow!("{}", status.message);
    let failure = Failure::from(cause.context(format!("{} did not join", token.cluster)));
    let code: Option<JoinRefusal> = serde_json::from_value(status.reason.clone().into()).ok();
    match code {
        Some(JoinRefusal::TokenForeign) => failure.with_hint(format!(
            "it was tried at {}; is that the hub that made it? {}",
            token.hubs.join(", "),
            new_token(token)
        )),
        _ => failure.with_hint(new_token(token)),
    }
}

fn new_token(token: &JoinToken) -> String {
    format!(
        "`strait token create --cluster {}`, at the hub, makes a new one",
        token.cluster
    )
}

impl Report for Joined {
    fn table(&self) -> String {
        let Self { cluster, state, .. } = self;
        match (state, self.seconds) {
            (AgentState::Connected, Some(seconds)) => format!("{cluster} joined in {seconds} s\n"),
            _ => format!("{cluster} is about to join; its agent has been installed\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use strait_install::Kind;
    use strait_types::JoinCredential;

    use super::*;

    fn agent() -> Deployment {
        let install = AgentInstall {
            image: "i".to_owned(),
            version: "1".to_owned(),
            cluster: "cluster1".to_owned(),
            replicas: 1,
            allow: vec!["default/*".to_owned(), "search/web:443".to_owned()],
        };
        let objects = install.objects();
        let deployment = objects.iter().find(|o| o.kind() == Kind::Deployment);
        serde_json::from_value(deployment.unwrap().value().clone()).unwrap()
    }

    #[test]
    fn a_member_is_not_made_another_one() {
        let token = |cluster: &str| JoinToken {
            cluster: cluster.parse().unwrap(),
            expires: Timestamp::UNIX_EPOCH,
            hubs: vec![],
            ca_bundle: String::new(),
            token: JoinCredential::from_random([1; 8], [2; 32]),
        };
        assert!(member_of(&agent(), &token("cluster1")).is_none());
        let refused = member_of(&agent(), &token("cluster2")).unwrap().render();
        assert!(refused.contains("a member as cluster1"), "{refused}");
    }

    #[test]
    fn the_allow_list_is_read_back_as_it_was_written() {
        assert_eq!(allow_list(&agent()), ["default/*", "search/web:443"]);
        assert_eq!(allow_list(&Deployment::default()), Vec::<String>::new());
    }

    #[test]
    fn the_agents_own_reason_is_told() {
        for (refusal, hint) in [
            (JoinRefusal::TokenUsed, "makes a new one"),
            (JoinRefusal::TokenExpired, "makes a new one"),
            (JoinRefusal::TokenForeign, "is that the hub that made it?"),
        ] {
            let status = AgentStatus {
                state: AgentState::Refused,
                reason: serde_json::to_value(refusal)
                    .unwrap()
                    .as_str()
                    .unwrap()
                    .to_owned(),
                message: refusal.to_string(),
                token: "0101010101010101".to_owned(),
                ..AgentStatus::default()
            };
            let failure = progress(&status, &token()).err().unwrap().render();
            let expected =
                format!("error: cluster1 did not join\n  caused by: {refusal}\n\nhint: ");
            assert!(failure.starts_with(&expected), "{failure}");
            assert!(failure.contains(hint), "{failure}");
        }
    }

    #[test]
    fn what_an_agent_said_about_another_token_does_not_count() {
        let status = AgentStatus {
            state: AgentState::Refused,
            token: "other".to_owned(),
            ..AgentStatus::default()
        };
        assert!(matches!(progress(&status, &token()), Ok(Seen::Waiting(_))));
    }

    #[test]
    fn an_expired_token_is_refused_before_anything_is_changed() {
        let token = token();
        let late = token.expires + SignedDuration::from_hours(3);
        assert_eq!(
            check(&token, late).unwrap_err().render(),
            "error: this join token expired 3h ago\n\n\
             hint: `strait token create --cluster cluster1`, at the hub, makes a new one\n"
        );
        assert!(check(&token, Timestamp::UNIX_EPOCH).is_ok());
    }

    fn token() -> JoinToken {
        JoinToken {
            cluster: "cluster1".parse().unwrap(),
            expires: Timestamp::from_second(1_800_000_000).unwrap(),
            hubs: vec!["hub:8443".to_owned()],
            ca_bundle: String::new(),
            token: JoinCredential::from_random([1; 8], [2; 32]),
        }
    }
}
