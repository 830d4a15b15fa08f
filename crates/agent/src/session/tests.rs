use prometheus_client::registry::Registry;
use strait_tunnel::{Config, Open, OpenError, Session, Side, StreamReset, write_value};
use tokio::io::{AsyncReadExt, duplex};

use super::*;
use crate::world::{World, closed_port, dialer, echo_server, service};

#[tokio::test]
async fn a_service_is_reached_by_name_and_the_stream_carries_both_ways() {
    let hub = hub(echo_server().await).await;
    hub.expose(1, &["good"]).await;
    let (mut stream, detail) = hub.open("tcp:good.default:*", 1).await.unwrap();
    assert_eq!(AcceptDetail::decode(&detail).port, 80);
    stream.write_all(b"world").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut heard = String::new();
    stream.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "hello world");
}

#[tokio::test]
async fn every_refusal_reaches_the_hub_with_its_code() {
    let port = echo_server().await;
    let hub = hub(port).await;
    hub.expose(
        1,
        &[
            "good", "missing", "empty", "external", "loopback", "closed", "secret",
        ],
    )
    .await;
    for (target, code) in [
        ("tcp:good.default:81", RefusalCode::ServiceNotFound),
        ("tcp:missing.default:80", RefusalCode::ServiceNotFound),
        ("tcp:hidden.default:80", RefusalCode::EntrypointNotFound),
        ("tcp:good.other:80", RefusalCode::EntrypointNotFound),
        ("tcp:empty.default:80", RefusalCode::NoEndpoints),
        ("tcp:external.default:80", RefusalCode::AgentRefused),
        ("tcp:loopback.default:80", RefusalCode::AgentRefused),
        ("tcp:secret.default:80", RefusalCode::AgentRefused),
        ("tcp:closed.default:80", RefusalCode::ConnectionRefused),
        ("unix:/var/run/docker.sock", RefusalCode::AgentRefused),
        ("udp:dns.kube-system:53", RefusalCode::AgentRefused),
        ("tcp:127.0.0.1:80", RefusalCode::AgentRefused),
        ("control:renew", RefusalCode::AgentRefused),
    ] {
        assert_eq!(hub.refused(target, 1).await, Some(code), "{target}");
    }
}

#[tokio::test]
async fn an_open_that_overtakes_its_table_waits_for_it() {
    let hub = hub(echo_server().await).await;
    hub.expose(1, &[]).await;
    let opening = hub.open("tcp:good.default:80", 2);
    let (opened, ()) = tokio::join!(opening, hub.expose(2, &["good"]));
    assert!(opened.is_ok());
}

#[tokio::test]
async fn a_service_that_is_taken_away_is_cut_for_open_streams_and_closed_for_new_ones() {
    let hub = hub(echo_server().await).await;
    hub.expose(1, &["good", "empty"]).await;
    let (mut stream, _) = hub.open("tcp:good.default:80", 1).await.unwrap();
    let mut greeting = [0; 6];
    stream.read_exact(&mut greeting).await.unwrap();
    hub.expose(2, &["empty"]).await;
    let cut = stream.read_u8().await.unwrap_err();
    let reset = cut
        .get_ref()
        .and_then(|e| e.downcast_ref::<StreamReset>())
        .unwrap();
    assert_eq!(
        *reset,
        StreamReset {
            code: reset_code::REVOKED,
            by_peer: true
        }
    );
    assert_eq!(
        hub.refused("tcp:good.default:80", 2).await,
        Some(RefusalCode::EntrypointNotFound)
    );
}

#[tokio::test]
async fn a_stream_that_is_cut_is_cut_for_the_service_as_well() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hub = hub(listener.local_addr().unwrap().port()).await;
    hub.expose(1, &["good"]).await;
    for finished in [true, false] {
        let (opened, accepted) =
            tokio::join!(hub.open("tcp:good.default:80", 1), listener.accept());
        let ((mut stream, _), (mut service, _)) = (opened.unwrap(), accepted.unwrap());
        stream.write_all(b"half of it").await.unwrap();
        let mut heard = [0; 10];
        service.read_exact(&mut heard).await.unwrap();
        if finished {
            stream.shutdown().await.unwrap();
        }
        stream.reset(reset_code::IO);
        let end = service.read_to_end(&mut vec![]).await;
        assert_eq!(end.is_ok(), finished, "{end:?}");
    }
}

#[tokio::test]
async fn a_probe_says_whether_the_api_server_takes_connections() {
    let open = echo_server().await;
    assert!(hub(open).await.open("probe:", 0).await.is_ok());
    let closed = hub(closed_port().await).await;
    assert_eq!(
        closed.refused("probe:", 0).await,
        Some(RefusalCode::ConnectionRefused)
    );
}

/// The hub's side of a session with the agent's service.
struct Hub {
    session: Session,
    table: tokio::sync::Mutex<Stream>,
    _tasks: Tasks,
}

impl Hub {
    async fn open(&self, target: &str, generation: u64) -> Result<(Stream, String), OpenError> {
        let open = Open {
            policy_generation: generation,
            ..Open::target(target)
        };
        self.session.open(open).await
    }

    async fn refused(&self, target: &str, generation: u64) -> Option<RefusalCode> {
        match self.open(target, generation).await {
            Err(OpenError::Rejected { code, .. }) => RefusalCode::from_wire(code),
            other => panic!("{target}: {other:?}"),
        }
    }

    async fn expose(&self, generation: u64, services: &[&str]) {
        let exposed = |service: &&str| ExposedService {
            namespace: "default".to_owned(),
            service: (*service).to_owned(),
            ports: vec![],
        };
        let services = services.iter().map(exposed).collect();
        let table = ExposureTable {
            generation,
            services,
        };
        write_value(&mut *self.table.lock().await, &table, u32::MAX)
            .await
            .unwrap();
    }
}

/// A hub with a session to an agent whose `good` service and API server are at this port.
async fn hub(port: u16) -> Hub {
    let closed = closed_port().await;
    let world = World::new([
        ("good", vec![service(&["127.0.0.1"], port)]),
        ("hidden", vec![service(&["127.0.0.1"], port)]),
        ("secret", vec![service(&["127.0.0.1"], port)]),
        ("empty", vec![service(&[], port)]),
        ("loopback", vec![service(&["127.0.0.9"], port)]),
        ("closed", vec![service(&["127.0.0.1"], closed)]),
        (
            "external",
            vec![crate::services::Service {
                external_name: true,
                ..service(&["127.0.0.1"], port)
            }],
        ),
    ]);
    let allow = ["good", "missing", "empty", "loopback", "closed", "external"];
    let allow = allow.map(|service| format!("default/{service}"));
    let allow: Vec<&str> = allow.iter().map(String::as_str).collect();
    let metrics = Metrics::new(&mut Registry::default());
    let agent = Service::new(
        dialer(&allow, world),
        Some(&format!("127.0.0.1:{port}")),
        metrics,
    );
    let (near, far) = duplex(64 << 10);
    let (theirs, ours) = tokio::join!(
        Session::establish(far, Side::Dialer, Config::default()),
        Session::establish(near, Side::Acceptor, Config::default()),
    );
    let ((_, incoming, driver), (session, none, ours)) = (theirs.unwrap(), ours.unwrap());
    let tasks = Tasks::default();
    tasks.spawn_one(async move {
        driver.run().await;
    });
    tasks.spawn_one(async move {
        let _none = none;
        ours.run().await;
    });
    tasks.spawn_one(agent.serve(incoming, Table::new(), tasks.clone()));
    let (table, _) = session.open(Open::target("control:table")).await.unwrap();
    Hub {
        session,
        table: tokio::sync::Mutex::new(table),
        _tasks: tasks,
    }
}
