use tokio::net::TcpListener;

use super::*;
use crate::world::{World, closed_port, dialer, service};

#[tokio::test]
async fn every_reason_has_its_code() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let open = listener.local_addr().unwrap().port();
    let closed = closed_port().await;
    for (service, code) in [
        ("missing", RefusalCode::ServiceNotFound),
        ("broken", RefusalCode::Unavailable),
        ("external", RefusalCode::AgentRefused),
        ("empty", RefusalCode::NoEndpoints),
        ("loopback", RefusalCode::AgentRefused),
        ("metadata", RefusalCode::AgentRefused),
    ] {
        let refusal = dial(service, &["*/*"], open).await.unwrap_err();
        assert_eq!(refusal.code, code, "{service}: {refusal}");
    }
    let code = async |allow: &[&str], port| dial("good", allow, port).await.unwrap_err().code;
    assert_eq!(code(&["other/*"], open).await, RefusalCode::AgentRefused);
    assert_eq!(code(&["*/*"], closed).await, RefusalCode::ConnectionRefused);
    assert_eq!(dial("good", &["*/*"], open).await.unwrap().port.number, 80);
}

#[tokio::test]
async fn the_next_endpoint_is_tried_when_one_refuses() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (open, closed) = (listener.local_addr().unwrap().port(), closed_port().await);
    let mut both = service(&["127.0.0.1"], closed);
    both.endpoints
        .extend(service(&["127.0.0.1"], open).endpoints);
    for _ in 0..10 {
        let dialer = dialer(&["*/*"], World::new([("s", vec![both.clone()])]));
        assert!(dialer.dial(&exposed("s"), &any()).await.is_ok());
    }
}

#[tokio::test]
async fn a_service_that_has_moved_is_looked_up_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (open, closed) = (listener.local_addr().unwrap().port(), closed_port().await);
    let moved = vec![
        service(&["127.0.0.1"], closed),
        service(&["127.0.0.1"], open),
    ];
    let dialer = dialer(&["*/*"], World::new([("s", moved)]));
    let refusal = dialer.dial(&exposed("s"), &any()).await.unwrap_err();
    assert_eq!(refusal.code, RefusalCode::ConnectionRefused);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(1)).await;
    tokio::time::resume();
    assert!(dialer.dial(&exposed("s"), &any()).await.is_ok());
}

#[tokio::test]
async fn an_endpoint_that_does_not_answer_times_out() {
    // A listener whose backlog is full takes no more connections and refuses none.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut filling = vec![];
    while let Ok(Ok(tcp)) = timeout_at(
        Instant::now() + Duration::from_millis(20),
        TcpStream::connect(("127.0.0.1", port)),
    )
    .await
    {
        filling.push(tcp);
    }
    tokio::time::pause();
    let dialer = dialer(
        &["*/*"],
        World::new([("s", vec![service(&["127.0.0.1"], port)])]),
    );
    let before = Instant::now();
    let code = dialer.dial(&exposed("s"), &any()).await.unwrap_err().code;
    assert_eq!(code, RefusalCode::DialTimeout);
    assert!(before.elapsed() >= BUDGET);
}

/// Dials a service of a fixed world.
async fn dial(name: &str, allow: &[&str], port: u16) -> Result<Dialed, Refusal> {
    let world = World::new([
        ("good", vec![service(&["127.0.0.1"], port)]),
        ("empty", vec![service(&[], port)]),
        ("loopback", vec![service(&["127.0.0.9"], port)]),
        ("metadata", vec![service(&["169.254.169.254"], port)]),
        (
            "external",
            vec![Service {
                external_name: true,
                ..service(&["127.0.0.1"], port)
            }],
        ),
    ]);
    dialer(allow, world).dial(&exposed(name), &any()).await
}

fn exposed(service: &str) -> ExposedService {
    ExposedService {
        namespace: "default".to_owned(),
        service: service.to_owned(),
        ports: vec![],
    }
}

fn any() -> PortChoice {
    PortChoice::Default
}
