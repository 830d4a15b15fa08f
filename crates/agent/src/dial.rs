//! Connects to a Service: the port, the endpoints, the policy of addresses, then the dial.

use std::{io, net::SocketAddr, time::Duration};

use rand::seq::SliceRandom;
use strait_types::{AcceptDetail, PortChoice, Refusal, RefusalCode};
use tokio::net::TcpStream;

use crate::{
    address,
    lookup::{Found, Lookup},
    port,
};

/// How long one OPEN may take from its arrival to ACCEPT.
pub(crate) const BUDGET: Duration = Duration::from_secs(10);

/// How many endpoints of a Service are tried: two may be gone without anyone noticing.
const TRIES: usize = 3;

/// Connects to a Service's port within [`BUDGET`]. Endpoints are tried in random order; when none
/// takes the connection, they are looked up anew and tried once more, as they may have moved.
pub(crate) async fn dial(
    lookup: &Lookup,
    namespace: &str,
    service: &str,
    choice: &PortChoice,
) -> Result<(TcpStream, AcceptDetail), Refusal> {
    let name = format!("{namespace}/{service}");
    let work = async {
        match attempt(lookup, namespace, service, choice, &name).await {
            Err(refusal) if may_have_moved(refusal.code) => {
                lookup.forget(namespace, service).await;
                attempt(lookup, namespace, service, choice, &name).await
            }
            outcome => outcome,
        }
    };
    tokio::time::timeout(BUDGET, work)
        .await
        .unwrap_or_else(|_elapsed| Err(timed_out(&name)))
}

fn may_have_moved(code: RefusalCode) -> bool {
    use RefusalCode as Code;
    matches!(
        code,
        Code::ConnectionRefused | Code::DialFailed | Code::NoEndpoints
    )
}

async fn attempt(
    lookup: &Lookup,
    namespace: &str,
    service: &str,
    choice: &PortChoice,
    name: &str,
) -> Result<(TcpStream, AcceptDetail), Refusal> {
    let found = lookup.find(namespace, service).await?;
    if found.is_external_name() {
        return Err(Refusal::new(
            RefusalCode::AgentRefused,
            format!("service {name} is an alias for a host outside (ExternalName)"),
        ));
    }
    let port = port::choose(&found.service, choice, name)?;
    let mut endpoints = allowed(&found, port, name)?;
    endpoints.shuffle(&mut rand::rng());
    let tcp = first(&endpoints, name).await?;
    let detail = AcceptDetail {
        port: u16::try_from(port.port).unwrap_or_default(),
        name: port.name.clone().unwrap_or_default(),
        app_protocol: port.app_protocol.clone().unwrap_or_default(),
    };
    Ok((tcp, detail))
}

/// The ready endpoints. One forbidden address is enough to refuse the Service: whoever put it
/// there has no good reason.
fn allowed(
    found: &Found,
    port: &k8s_openapi::api::core::v1::ServicePort,
    name: &str,
) -> Result<Vec<SocketAddr>, Refusal> {
    let endpoints = found.ready(port);
    if endpoints.is_empty() {
        return Err(Refusal::new(
            RefusalCode::NoEndpoints,
            format!("service {name} has no ready endpoint"),
        ));
    }
    for endpoint in &endpoints {
        if let Some(what) = address::forbidden(endpoint.ip()) {
            return Err(Refusal::new(
                RefusalCode::AgentRefused,
                format!("service {name} leads to {}, which is {what}", endpoint.ip()),
            ));
        }
    }
    Ok(endpoints)
}

async fn first(endpoints: &[SocketAddr], name: &str) -> Result<TcpStream, Refusal> {
    let tried = endpoints.len().clamp(1, TRIES);
    let each = BUDGET / u32::try_from(tried).unwrap_or(1);
    let mut last = timed_out(name);
    for endpoint in endpoints.iter().take(TRIES) {
        match tokio::time::timeout(each, TcpStream::connect(endpoint)).await {
            Ok(Ok(tcp)) => {
                // Frames are written whole; waiting for more to send would only add delay.
                let _ = tcp.set_nodelay(true);
                return Ok(tcp);
            }
            Ok(Err(error)) => last = failed(&error, name),
            Err(_elapsed) => last = timed_out(name),
        }
    }
    Err(last)
}

fn failed(error: &io::Error, name: &str) -> Refusal {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Refusal::new(
            RefusalCode::ConnectionRefused,
            format!("service {name} refused the connection"),
        ),
        io::ErrorKind::TimedOut => timed_out(name),
        _ => Refusal::new(
            RefusalCode::DialFailed,
            format!("service {name} could not be dialled: {error}"),
        ),
    }
}

fn timed_out(name: &str) -> Refusal {
    Refusal::new(
        RefusalCode::DialTimeout,
        format!(
            "service {name} did not answer within {} s",
            BUDGET.as_secs()
        ),
    )
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
    use serde_json::json;

    use super::*;

    fn service(value: serde_json::Value) -> Service {
        serde_json::from_value(json!({ "spec": value })).unwrap()
    }

    fn slice(addresses: &[&str], port: u16) -> EndpointSlice {
        serde_json::from_value(json!({
            "addressType": "IPv4",
            "ports": [{"port": port}],
            "endpoints": [{"addresses": addresses}]
        }))
        .unwrap()
    }

    async fn code(lookup: &Lookup, choice: PortChoice) -> RefusalCode {
        dial(lookup, "default", "search", &choice)
            .await
            .unwrap_err()
            .code
    }

    fn one_port(addresses: &'static [&'static str]) -> Lookup {
        Lookup::fixed(move |_, _| {
            let ports = json!({"ports": [{"port": 80}]});
            Some(Found::new(service(ports), vec![slice(addresses, 8080)]))
        })
    }

    #[tokio::test]
    async fn each_obstacle_has_its_code() {
        use RefusalCode as Code;
        let external = Lookup::fixed(|_, _| {
            let alias = json!({"type": "ExternalName", "externalName": "metadata.internal"});
            Some(Found::new(service(alias), vec![]))
        });
        let other_port = PortChoice::Port("81".parse().unwrap());
        assert_eq!(
            code(&Lookup::fixed(|_, _| None), PortChoice::Default).await,
            Code::ServiceNotFound
        );
        assert_eq!(
            code(&external, PortChoice::Default).await,
            Code::AgentRefused
        );
        assert_eq!(
            code(&one_port(&[]), PortChoice::Default).await,
            Code::NoEndpoints
        );
        assert_eq!(
            code(&one_port(&["10.0.0.1"]), other_port).await,
            Code::ServiceNotFound
        );
        assert_eq!(
            code(&one_port(&["127.0.0.1"]), PortChoice::Default).await,
            Code::AgentRefused
        );
        let one_bad = one_port(&["10.0.0.1", "169.254.169.254"]);
        assert_eq!(
            code(&one_bad, PortChoice::Default).await,
            Code::AgentRefused
        );
    }

    #[test]
    fn a_refused_connection_is_told_from_other_failures() {
        let code = |kind| failed(&io::Error::from(kind), "default/search").code;
        assert_eq!(
            code(io::ErrorKind::ConnectionRefused),
            RefusalCode::ConnectionRefused
        );
        assert_eq!(code(io::ErrorKind::TimedOut), RefusalCode::DialTimeout);
        assert_eq!(
            code(io::ErrorKind::NetworkUnreachable),
            RefusalCode::DialFailed
        );
    }

    #[tokio::test]
    async fn a_dead_endpoint_is_passed_over_for_a_live_one() {
        let live = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let live = live.local_addr().map(|addr| (addr, live)).unwrap();
        let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let dead = gone.local_addr().unwrap();
        drop(gone);
        assert!(first(&[dead, live.0], "default/search").await.is_ok());
        let refused = first(&[dead], "default/search").await.unwrap_err();
        assert_eq!(refused.code, RefusalCode::ConnectionRefused);
    }
}
