//! Joining with a token, and renewing.

use jiff::SignedDuration;
use strait_pki::{AgentKey, Identity, TrustDomain, peer_agent};
use strait_tunnel::Open;
use strait_types::{
    JOIN_PATH, JoinAnswer, JoinCredential, JoinRefusal, JoinRequest, RenewAnswer, RenewRequest,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{
    agent::{self, Agent},
    answer::Answer,
    caller::Caller,
    world::{self, World, soon},
};

const HOUR: SignedDuration = SignedDuration::from_hours(1);

async fn post(world: &World, body: &str) -> Answer {
    let mut caller = Caller::new(world).await;
    let len = body.len();
    let head = format!("POST {JOIN_PATH} HTTP/1.1\r\nhost: hub.test:8443\r\n");
    caller
        .send(&format!("{head}content-length: {len}\r\n\r\n{body}"))
        .await;
    caller.answer().await
}

async fn join(world: &World, cluster: &str, token: &JoinCredential) -> (Answer, AgentKey) {
    let key = AgentKey::generate().unwrap();
    let request = JoinRequest {
        cluster: cluster.parse().unwrap(),
        token: token.clone(),
        csr: key.csr_pem.clone(),
    };
    (
        post(world, &serde_json::to_string(&request).unwrap()).await,
        key,
    )
}

#[tokio::test]
async fn a_token_joins_its_cluster_once() {
    let world = World::start().await;
    let token = world.tokens.make("cluster1", 1, HOUR);
    let (answer, key) = join(&world, "cluster1", &token).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let issued: JoinAnswer = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(issued.hubs, ["hub.test:8443"]);
    assert_eq!(issued.ca_bundle, world.hub_ca.certificate_pem());
    assert!(world.members.ensured("cluster1"));
    assert!(world.tokens.used_at(token.id()).is_some());

    let identity = Identity::from_pem(
        issued.certificate.as_bytes(),
        key.key_pem.reveal().as_bytes(),
    )
    .unwrap();
    let agent = peer_agent(identity.leaf(), &TrustDomain::default()).unwrap();
    assert_eq!(agent.cluster.as_str(), "cluster1");
    assert_eq!(agent.member, world::uid("cluster1", 1));
    soon("a session", Agent::try_connect(&world, &identity))
        .await
        .unwrap();

    let (again, _) = join(&world, "cluster1", &token).await;
    assert_eq!((again.status, again.code().as_str()), (410, "token-used"));
    assert_eq!(again.json()["detail"], JoinRefusal::TokenUsed.to_string());
}

#[tokio::test]
async fn who_lost_the_answer_may_ask_again_with_the_same_key() {
    let world = World::start().await;
    let token = world.tokens.make("cluster1", 1, HOUR);
    let (first, key) = join(&world, "cluster1", &token).await;
    assert_eq!(first.status, 200);
    let request = JoinRequest {
        cluster: "cluster1".parse().unwrap(),
        token: token.clone(),
        csr: key.csr_pem.clone(),
    };
    let again = post(&world, &serde_json::to_string(&request).unwrap()).await;
    assert_eq!(again.status, 200, "{}", again.body);
    let (other, _) = join(&world, "cluster1", &token).await;
    assert_eq!(other.code(), "token-used", "another key is another agent");
    world.member_again("cluster1", 2);
    let again = post(&world, &serde_json::to_string(&request).unwrap()).await;
    assert_eq!(again.code(), "token-used", "that member is gone");
}

#[tokio::test]
async fn of_two_at_the_same_time_one_joins() {
    let world = World::start().await;
    let token = world.tokens.make("cluster1", 1, HOUR);
    let ((one, _), (two, _)) = tokio::join!(
        join(&world, "cluster1", &token),
        join(&world, "cluster1", &token)
    );
    let mut statuses = [one.status, two.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 410]);
}

#[tokio::test]
async fn tokens_that_are_not_good_are_told_apart() {
    let world = World::start().await;
    let expired = world
        .tokens
        .make("cluster1", 1, SignedDuration::from_secs(-1));
    let foreign = JoinCredential::from_random([2; 8], [2; 32]);
    let known = world.tokens.make("cluster1", 3, HOUR);
    let guessed = JoinCredential::from_random([3; 8], [9; 32]);
    for (cluster, token, status, code) in [
        ("cluster1", &expired, 410, "token-expired"),
        ("cluster1", &foreign, 403, "token-foreign"),
        ("cluster1", &guessed, 403, "token-foreign"),
        ("cluster2", &known, 403, "other-cluster"),
    ] {
        let (answer, _) = join(&world, cluster, token).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code));
    }
    let (good, _) = join(&world, "cluster1", &known).await;
    assert_eq!(good.status, 200, "none of this has spent the token");
}

#[tokio::test]
async fn a_bad_request_spends_no_token() {
    let world = World::start().await;
    let token = world.tokens.make("cluster1", 1, HOUR);
    let request = JoinRequest {
        cluster: "cluster1".parse().unwrap(),
        token: token.clone(),
        csr: "nonsense".to_owned(),
    };
    let bad_csr = serde_json::to_string(&request).unwrap();
    let bad_name = bad_csr.replace("cluster1", "Cluster.1");
    for (body, code, says) in [
        (bad_csr, "bad-request", "the certificate request"),
        (bad_name, "malformed", "`C` is not allowed"),
        (String::new(), "malformed", "EOF"),
        ("{}".to_owned(), "malformed", "missing field `cluster`"),
        ("x".repeat(20_000), "malformed", "more than 16384 bytes"),
        ("x".repeat(900_000), "malformed", "more than 16384 bytes"),
    ] {
        let answer = post(&world, &body).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, code));
        let detail = answer.json()["detail"].to_string();
        assert!(detail.contains(says), "{detail}");
    }
    assert_eq!(world.tokens.used_at(token.id()), None);
}

#[tokio::test]
async fn guessing_is_slow() {
    let world = World::start_with(|config| config.limits.joins_per_minute = 2).await;
    let foreign = JoinCredential::from_random([2; 8], [2; 32]);
    let mut codes = vec![];
    for _ in 0..3 {
        codes.push(join(&world, "cluster1", &foreign).await.0.status);
    }
    assert_eq!(codes, [403, 403, 429]);
}

#[tokio::test]
async fn an_agent_renews_inside_its_session() {
    let world = World::start().await;
    let agent = Agent::connect(&world, "cluster1").await;
    let key = AgentKey::generate().unwrap();
    let answer = renew(&agent, &key.csr_pem).await;
    let RenewAnswer::Issued(issued) = answer else {
        panic!("{answer:?}")
    };
    let identity = Identity::from_pem(
        issued.certificate.as_bytes(),
        key.key_pem.reveal().as_bytes(),
    )
    .unwrap();
    soon("a session", Agent::try_connect(&world, &identity))
        .await
        .unwrap();
    let refused = renew(&agent, "nonsense").await;
    assert_eq!(refused, RenewAnswer::Refused(JoinRefusal::BadRequest));
}

#[tokio::test]
async fn a_certificate_ends_with_the_member_that_it_was_issued_to() {
    let world = World::start().await;
    let stolen = agent::identity(&world.agent_ca, "cluster1");
    let thief = soon("a session", Agent::try_connect(&world, &stolen))
        .await
        .unwrap();
    world.member_again("cluster1", 2);
    soon("the end", thief.session.closed()).await;

    let token = world.tokens.make("cluster1", 1, HOUR);
    let (answer, key) = join(&world, "cluster1", &token).await;
    let issued: JoinAnswer = serde_json::from_str(&answer.body).unwrap();
    let own = Identity::from_pem(
        issued.certificate.as_bytes(),
        key.key_pem.reveal().as_bytes(),
    )
    .unwrap();
    let owner = soon("a session", Agent::try_connect(&world, &own))
        .await
        .unwrap();
    let thief = Agent::try_connect(&world, &stolen).await.unwrap();
    let end = soon("the end", thief.session.closed()).await.to_string();
    assert!(end.contains("an earlier cluster1"), "{end}");
    let key = AgentKey::generate().unwrap();
    let RenewAnswer::Issued(next) = renew(&owner, &key.csr_pem).await else {
        panic!("the owner renews")
    };
    let next = Identity::from_pem(next.certificate.as_bytes(), key.key_pem.reveal().as_bytes());
    let next = peer_agent(next.unwrap().leaf(), &TrustDomain::default()).unwrap();
    assert_eq!(next.member, world::uid("cluster1", 2));
}

#[tokio::test]
async fn an_agent_opens_nothing_else() {
    let world = World::start().await;
    let agent = Agent::connect(&world, "cluster1").await;
    for target in [
        "tcp:search.default:443",
        "probe:",
        "control:table",
        "unix:/x",
    ] {
        assert!(
            agent.session.open(Open::target(target)).await.is_err(),
            "{target}"
        );
    }
}

async fn renew(agent: &Agent, csr: &str) -> RenewAnswer {
    let (mut stream, _) = soon(
        "an answer",
        agent.session.open(Open::target("control:renew")),
    )
    .await
    .unwrap();
    let request = serde_json::to_vec(&RenewRequest {
        csr: csr.to_owned(),
    })
    .unwrap();
    stream
        .write_u32(u32::try_from(request.len()).unwrap())
        .await
        .unwrap();
    stream.write_all(&request).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = vec![];
    soon("an answer", stream.read_to_end(&mut answer))
        .await
        .unwrap();
    serde_json::from_slice(&answer[4..]).unwrap()
}
