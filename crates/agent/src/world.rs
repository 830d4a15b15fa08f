//! A small member for tests: Services with endpoints on loopback.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures::future::BoxFuture;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::{
    address::forbidden,
    dial::Dialer,
    services::{Cache, Endpoint, LookupError, Service, ServicePort, Services},
};

/// Services that change each time they are asked for, until the last version.
#[derive(Debug)]
pub(crate) struct World {
    services: BTreeMap<&'static str, Vec<Service>>,
    asked: AtomicUsize,
}

// === impl World ===

impl World {
    pub(crate) fn new<const N: usize>(services: [(&'static str, Vec<Service>); N]) -> Self {
        Self {
            services: BTreeMap::from(services),
            asked: AtomicUsize::new(0),
        }
    }
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
                Some(versions) => Ok(versions.get(nth).or_else(|| versions.last()).cloned()),
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

/// A Service with port 80 at these addresses, under this port each.
pub(crate) fn service(addresses: &[&str], port: u16) -> Service {
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

pub(crate) fn dialer(allow: &[&str], world: World) -> Dialer {
    let allow = allow.iter().map(|a| a.parse().unwrap()).collect();
    Dialer::new(Cache::new(Arc::new(world)), allow, Arc::from([]), but_one)
}

/// The policy but for 127.0.0.1, where the tests' services are.
pub(crate) fn but_one(address: IpAddr, own: &[IpAddr]) -> Option<&'static str> {
    match address.to_string().as_str() {
        "127.0.0.1" => None,
        _ => forbidden(address, own),
    }
}

/// A port of 127.0.0.1 that nobody listens on.
pub(crate) async fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// A server that greets and then echoes; returns its port. It lives as long as the runtime.
#[expect(
    clippy::disallowed_methods,
    reason = "the server of a test ends with its runtime"
)]
pub(crate) async fn echo_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            tokio::spawn(async move {
                tcp.write_all(b"hello ").await.unwrap();
                let mut buffer = [0; 1024];
                while let Ok(n @ 1..) = tcp.read(&mut buffer).await {
                    tcp.write_all(&buffer[..n]).await.unwrap();
                }
            });
        }
    });
    port
}
