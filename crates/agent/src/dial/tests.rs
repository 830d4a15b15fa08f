use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
};

use futures::future::BoxFuture;
use tokio::net::TcpListener;

use super::*;
use crate::address::forbidden;
use crate::services::{Endpoint, LookupError, Services};

#[tokio::test]
async fn every_reason_has_its_code() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let open = listener.local_addr().unwrap().port();
    let closed = free_port().await;
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
    assert_eq!(
        dial("good", &["other/*"], open).await.unwrap_err().code,
        RefusalCode::AgentRefused
    );
    assert_eq!(dial("good", &["*/*"], open).await.unwrap().port.number, 80);
    assert_eq!(
        dial("good", &["*/*"], closed).await.unwrap_err().code,
        RefusalCode::ConnectionRefused
    );
}

#[tokio::test]
async fn the_next_endpoint_is_tried_when_one_refuses() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (open, closed) = (listener.local_addr().unwrap().port(), free_port().await);
    let mut service = service(&["127.0.0.1"], closed);
    service
        .endpoints
        .extend(self::service(&["127.0.0.1"], open).endpoints);
    for _ in 0..10 {
        assert!(
            dialer(&["*/*"], [("s", vec![service.clone()])])
                .dial(&exposed("s"), &any())
                .await
                .is_ok()
        );
    }
}

#[tokio::test]
async fn a_service_that_has_moved_is_looked_up_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (open, closed) = (listener.local_addr().unwrap().port(), free_port().await);
    let moved = vec![
        service(&["127.0.0.1"], closed),
        service(&["127.0.0.1"], open),
    ];
    let dialer = dialer(&["*/*"], [("s", moved)]);
    assert!(dialer.dial(&exposed("s"), &any()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_does_not_answer_times_out() {
    // TEST-NET-1 leads nowhere; where it fails at once instead, that is a failed dial.
    let dialer = dialer(&["*/*"], [("s", vec![service(&["192.0.2.1"], 9)])]);
    let before = Instant::now();
    let code = dialer.dial(&exposed("s"), &any()).await.unwrap_err().code;
    assert!(
        matches!(code, RefusalCode::DialTimeout | RefusalCode::DialFailed),
        "{code}"
    );
    assert!(before.elapsed() <= BUDGET + Duration::from_millis(10));
}

/// Dials a service of a fixed world; loopback counts as an ordinary address but for `loopback`.
async fn dial(name: &str, allow: &[&str], port: u16) -> Result<Dialed, Refusal> {
    let world = [
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
    ];
    dialer(allow, world).dial(&exposed(name), &any()).await
}

fn dialer<const N: usize>(allow: &[&str], world: [(&'static str, Vec<Service>); N]) -> Dialer {
    let world = World {
        services: BTreeMap::from(world),
        asked: AtomicUsize::new(0),
    };
    let allow = allow.iter().map(|a| a.parse().unwrap()).collect();
    Dialer::new(
        Cache::new(Arc::new(world)),
        allow,
        Arc::from([]),
        |address, own| match address.to_string().as_str() {
            "127.0.0.1" => None,
            _ => forbidden(address, own),
        },
    )
}

/// Services that change each time they are asked for, until the last version.
#[derive(Debug)]
struct World {
    services: BTreeMap<&'static str, Vec<Service>>,
    asked: AtomicUsize,
}

impl Services for World {
    fn look_up<'a>(
        &'a self,
        namespace: &'a str,
        service: &'a str,
    ) -> BoxFuture<'a, Result<Option<Service>, LookupError>> {
        Box::pin(async move {
            let nth = self.asked.fetch_add(1, Ordering::SeqCst);
            match self.services.get(service) {
                Some(versions) => Ok(versions.get(nth).or(versions.last()).cloned()),
                None if service == "broken" => Err(LookupError {
                    namespace: namespace.to_owned(),
                    service: service.to_owned(),
                    source: Arc::new(std::fmt::Error),
                }),
                None => Ok(None),
            }
        })
    }
}

fn service(addresses: &[&str], port: u16) -> Service {
    let endpoint = |address: &&str| Endpoint {
        address: address.parse().unwrap(),
        ports: vec![(String::new(), port)],
    };
    Service {
        external_name: false,
        ports: vec![ServicePort {
            number: 80,
            ..ServicePort::default()
        }],
        endpoints: addresses.iter().map(endpoint).collect(),
    }
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

async fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}
