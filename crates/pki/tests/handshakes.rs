//! The TLS configurations, against each other, in memory.
#![expect(clippy::unwrap_used, reason = "a helper of a test may fail the test")]

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rustls_pki_types::ServerName;
use strait_pki::{
    AgentKey, AgentName, AgentRequest, Bundle, Ca, ClientVerifier, Identity, PkiError, Reloadable,
    ServerTrust, ServingCerts, ServingConfig, TrustDomain, agent_server_config,
    caller_server_config, client_config, peer_agent, session_client_config,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

const DAY: SignedDuration = SignedDuration::from_hours(24);

struct World {
    hub: Ca,
    agents: Ca,
}

impl World {
    fn new() -> Self {
        let make = |name| Ca::generate(name, DAY, now()).unwrap();
        Self {
            hub: make("hub"),
            agents: make("agents"),
        }
    }

    fn certs(&self, files: Vec<Identity>) -> Arc<ServingCerts> {
        let ca = Ca::from_pem(self.hub.certificate_pem(), &self.hub.key_pem()).unwrap();
        Arc::new(
            ServingCerts::new(ServingConfig {
                files: Reloadable::new(files),
                ca: Some(Reloadable::new(ca)),
                own_names: vec!["hub.test".to_owned(), "127.0.0.1".to_owned()],
                serves: Arc::new(|name| name == "search.default.cluster1"),
                clock: Arc::new(now),
            })
            .unwrap(),
        )
    }

    fn hub_roots(&self) -> Arc<rustls::RootCertStore> {
        Bundle::from_pem(self.hub.certificate_pem().as_bytes())
            .unwrap()
            .roots()
            .clone()
    }

    fn agent(&self, by: &Ca) -> Identity {
        let key = AgentKey::generate().unwrap();
        let request = AgentRequest::from_pem(&key.csr_pem).unwrap();
        let name = AgentName {
            cluster: "cluster1".parse().unwrap(),
            member: "1".to_owned(),
        };
        let issued = by
            .issue_agent(&request, &name, &TrustDomain::default(), DAY, now())
            .unwrap();
        Identity::from_pem(issued.chain_pem.as_bytes(), key.key_pem.reveal().as_bytes()).unwrap()
    }

    fn agent_verifier(&self) -> ClientVerifier {
        let bundle = Bundle::from_pem(self.agents.certificate_pem().as_bytes()).unwrap();
        ClientVerifier::new(bundle.roots().clone()).unwrap()
    }
}

#[tokio::test]
async fn an_agent_is_known_by_its_certificate() {
    let world = World::new();
    let server = agent_server_config(world.certs(vec![]), &world.agent_verifier()).unwrap();
    let client = session_client_config(world.hub_roots(), &world.agent(&world.agents)).unwrap();
    let chain = handshake(server, client, "hub.test").await.unwrap();
    let agent = peer_agent(&chain[0], &TrustDomain::default()).unwrap();
    assert_eq!(agent.cluster.as_str(), "cluster1");
}

#[tokio::test]
async fn a_certificate_of_another_authority_opens_no_session() {
    let world = World::new();
    let server = agent_server_config(world.certs(vec![]), &world.agent_verifier()).unwrap();
    let client = session_client_config(world.hub_roots(), &world.agent(&world.hub)).unwrap();
    assert!(handshake(server, client, "hub.test").await.is_err());
}

#[tokio::test]
async fn a_caller_may_come_without_a_certificate() {
    let world = World::new();
    let server = caller_server_config(world.certs(vec![]), Some(&world.agent_verifier())).unwrap();
    let trust = ServerTrust::Roots(world.hub_roots());
    let client = client_config(&trust, None).unwrap();
    assert!(
        handshake(server, client, "search.default.cluster1")
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn names_that_nobody_serves_get_the_default_certificate() {
    let world = World::new();
    let certs = world.certs(vec![]);
    let default = certs.choose(None).unwrap();
    for name in ["random.example", "hub.test", "x.default.cluster1"] {
        assert_eq!(
            certs.choose(Some(name)).unwrap().cert,
            default.cert,
            "{name}"
        );
    }
    let own = certs.choose(Some("Search.Default.Cluster1")).unwrap();
    assert_ne!(own.cert, default.cert);
    assert_eq!(
        certs.choose(Some("search.default.cluster1")).unwrap().cert,
        own.cert,
        "cached"
    );
}

#[tokio::test]
async fn a_file_wins_where_it_covers_the_name() {
    let world = World::new();
    let public = Ca::generate("public", DAY, now()).unwrap();
    let file = public
        .server_identity(&["*.demo.test".to_owned()], DAY, now())
        .unwrap();
    let certs = world.certs(vec![file.clone()]);
    let chosen = certs
        .choose(Some("search--default--cluster1.demo.test"))
        .unwrap();
    assert_eq!(chosen.cert, file.certified_key().cert);
    assert_ne!(
        certs.choose(Some("a.b.demo.test")).unwrap().cert,
        chosen.cert
    );
}

#[tokio::test]
async fn a_new_authority_signs_from_its_first_second() {
    let world = World::new();
    let ca = Reloadable::new(Ca::generate("one", DAY, now()).unwrap());
    let certs = ServingCerts::new(ServingConfig {
        files: Reloadable::new(vec![]),
        ca: Some(ca.clone()),
        own_names: vec!["hub.test".to_owned()],
        serves: Arc::new(|_| true),
        clock: Arc::new(now),
    })
    .unwrap();
    let before = certs.choose(Some("a.b.c")).unwrap();
    let two = Ca::from_pem(world.hub.certificate_pem(), &world.hub.key_pem());
    ca.offer::<PkiError>(two);
    assert_ne!(certs.choose(Some("a.b.c")).unwrap().cert, before.cert);
    ca.offer(Err::<Ca, _>(PkiError::NotCa));
    let after = certs.choose(Some("a.b.c")).unwrap();
    assert_ne!(after.cert, before.cert, "the last good one stays");
}

#[tokio::test]
async fn verification_can_be_left_out_and_only_then() {
    let world = World::new();
    let stranger = Arc::new(rustls::RootCertStore {
        roots: Bundle::from_pem(world.agents.certificate_pem().as_bytes())
            .unwrap()
            .roots()
            .roots
            .clone(),
    });
    for (trust, good) in [
        (ServerTrust::Anyone, true),
        (ServerTrust::Roots(stranger), false),
    ] {
        let server = caller_server_config(world.certs(vec![]), None).unwrap();
        let client = client_config(&trust, None).unwrap();
        assert_eq!(
            handshake(server, client, "whatever.test").await.is_ok(),
            good
        );
    }
}

/// Returns the client's chain as the server saw it.
async fn handshake(
    server: rustls::ServerConfig,
    client: rustls::ClientConfig,
    name: &'static str,
) -> std::io::Result<Vec<rustls_pki_types::CertificateDer<'static>>> {
    let (near, far) = tokio::io::duplex(64 << 10);
    let connector = TlsConnector::from(Arc::new(client));
    let acceptor = TlsAcceptor::from(Arc::new(server));
    let (client, server) = tokio::join!(
        connector.connect(ServerName::try_from(name).unwrap(), near),
        acceptor.accept(far),
    );
    client?;
    let server = server?;
    Ok(server
        .get_ref()
        .1
        .peer_certificates()
        .unwrap_or_default()
        .to_vec())
}

// rustls checks validity against the system's clock, so these tests need the present.
#[expect(
    clippy::disallowed_methods,
    reason = "rustls reads the system's clock itself"
)]
fn now() -> Timestamp {
    Timestamp::now()
}
