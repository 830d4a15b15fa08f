//! Which port of a Service is meant. Pure.

use k8s_openapi::api::core::v1::{Service, ServicePort};
use strait_types::{Port, PortChoice, Refusal, RefusalCode};

/// Finds the port of the Service, by number, by name, or by [`PortChoice::Default`]'s rule.
pub(crate) fn choose<'a>(
    service: &'a Service,
    choice: &PortChoice,
    name: &str,
) -> Result<&'a ServicePort, Refusal> {
    let ports = service
        .spec
        .as_ref()
        .and_then(|spec| spec.ports.as_deref())
        .unwrap_or_default();
    let ports: Vec<&ServicePort> = ports.iter().filter(|port| is_tcp(port)).collect();
    let numbered = |number: i32| ports.iter().copied().find(|port| port.port == number);
    let named = |wanted: &str| {
        ports
            .iter()
            .copied()
            .find(|port| port.name.as_deref() == Some(wanted))
    };
    let found = match choice {
        PortChoice::Port(Port::Number(number)) => numbered(i32::from(number.get())),
        PortChoice::Port(Port::Name(wanted)) => named(wanted),
        PortChoice::Default => numbered(443)
            .or_else(|| named("https"))
            .or(match ports.as_slice() {
                [only] => Some(*only),
                _ => None,
            })
            .or_else(|| numbered(80))
            .or_else(|| named("http")),
    };
    found.ok_or_else(|| missing(&ports, choice, name))
}

fn is_tcp(port: &ServicePort) -> bool {
    port.protocol
        .as_deref()
        .is_none_or(|protocol| protocol == "TCP")
}

fn missing(ports: &[&ServicePort], choice: &PortChoice, name: &str) -> Refusal {
    let has = ports
        .iter()
        .map(|port| match &port.name {
            Some(name) => format!("{} ({name})", port.port),
            None => port.port.to_string(),
        })
        .collect::<Vec<_>>()
        .join(", ");
    let (message, hint) = match choice {
        PortChoice::Port(port) => (
            format!("service {name} has no port {port}"),
            format!("its TCP ports are {has}"),
        ),
        PortChoice::Default => (
            format!("service {name} has several ports and none is the obvious one"),
            format!("name one of {has}"),
        ),
    };
    let refusal = Refusal::new(RefusalCode::ServiceNotFound, message);
    if has.is_empty() {
        refusal.with_hint("it has no TCP port at all")
    } else {
        refusal.with_hint(hint)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ServiceSpec;

    use super::*;

    fn service(ports: &[(i32, &str, &str)]) -> Service {
        let ports = ports
            .iter()
            .map(|(port, name, protocol)| ServicePort {
                port: *port,
                name: (!name.is_empty()).then(|| (*name).to_owned()),
                protocol: Some((*protocol).to_owned()),
                ..ServicePort::default()
            })
            .collect();
        Service {
            spec: Some(ServiceSpec {
                ports: Some(ports),
                ..ServiceSpec::default()
            }),
            ..Service::default()
        }
    }

    fn chosen(service: &Service, choice: &str) -> Option<i32> {
        let choice = match choice {
            "*" => PortChoice::Default,
            port => PortChoice::Port(port.parse().unwrap()),
        };
        choose(service, &choice, "default/search")
            .ok()
            .map(|port| port.port)
    }

    #[test]
    fn ports_are_found_by_number_and_by_name() {
        let service = service(&[
            (80, "http", "TCP"),
            (9000, "admin", "TCP"),
            (53, "dns", "UDP"),
        ]);
        assert_eq!(chosen(&service, "80"), Some(80));
        assert_eq!(chosen(&service, "admin"), Some(9000));
        assert_eq!(chosen(&service, "81"), None);
        assert_eq!(chosen(&service, "53"), None);
        assert_eq!(chosen(&service, "dns"), None);
    }

    #[test]
    fn the_default_port_is_the_obvious_one() {
        for (ports, expected) in [
            (&[(80, "http", "TCP"), (443, "tls", "TCP")][..], Some(443)),
            (&[(80, "http", "TCP"), (8443, "https", "TCP")], Some(8443)),
            (&[(5432, "", "TCP")], Some(5432)),
            (&[(5432, "", "TCP"), (80, "x", "TCP")], Some(80)),
            (&[(5432, "db", "TCP"), (8080, "http", "TCP")], Some(8080)),
            (&[(5432, "a", "TCP"), (5433, "b", "TCP")], None),
            (&[(53, "dns", "UDP")], None),
            (&[], None),
        ] {
            assert_eq!(chosen(&service(ports), "*"), expected, "{ports:?}");
        }
    }

    #[test]
    fn a_missing_port_is_refused_with_those_that_are_there() {
        let service = service(&[(80, "http", "TCP"), (9000, "", "TCP")]);
        let choice = PortChoice::Port("81".parse().unwrap());
        let refusal = choose(&service, &choice, "default/search").unwrap_err();
        assert_eq!(refusal.code, RefusalCode::ServiceNotFound);
        assert_eq!(refusal.message, "service default/search has no port 81");
        assert_eq!(
            refusal.hint.as_deref(),
            Some("its TCP ports are 80 (http), 9000")
        );
    }
}
