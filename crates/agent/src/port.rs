//! Which port of a Service is meant, and whether it may be. Pure.

use strait_types::{AllowPattern, ExposedService, Port, PortChoice, Refusal, RefusalCode};

use crate::services::{Service, ServicePort};

/// The port that is meant, once the hub's table and the agent's own list both let it through.
pub(crate) fn choose<'a>(
    service: &'a Service,
    choice: &PortChoice,
    exposed: &ExposedService,
    allow: &[AllowPattern],
) -> Result<&'a ServicePort, Refusal> {
    let ExposedService {
        namespace,
        service: name,
        ..
    } = exposed;
    let open = |port: &&ServicePort| is_exposed(exposed, port);
    let port = match choice {
        PortChoice::Port(port) => {
            let found = service.ports.iter().find(|p| is(p, port)).ok_or_else(|| {
                no_port(
                    service,
                    &format!("Service {namespace}/{name} has no port {port}"),
                )
            })?;
            Some(found).filter(open).ok_or_else(|| {
                let message = format!("port {port} of {namespace}/{name} is not exposed");
                Refusal::new(RefusalCode::PortNotExposed, message)
            })?
        }
        PortChoice::Default | PortChoice::DefaultHttp => {
            let ports: Vec<&ServicePort> = service.ports.iter().filter(open).collect();
            let clear = (*choice == PortChoice::DefaultHttp)
                .then(|| http_of(&ports))
                .flatten();
            clear.or_else(|| default_of(&ports)).ok_or_else(|| {
                if ports.is_empty() && !service.ports.is_empty() {
                    let message = format!("no port of {namespace}/{name} is exposed");
                    return Refusal::new(RefusalCode::PortNotExposed, message)
                        .with_hint(format!("exposed are {}", exposed.ports.join(", ")));
                }
                let message =
                    format!("Service {namespace}/{name} has several ports and none to prefer");
                no_port(service, &message)
            })?
        }
    };
    let allowed = |pattern: &AllowPattern| pattern.allows(namespace, name, port.number, &port.name);
    if allow.iter().any(allowed) {
        Ok(port)
    } else {
        let message = format!(
            "the agent does not allow {namespace}/{name}:{}",
            port.number
        );
        let hint = "the agent's `--allow` lists what it lets through";
        Err(Refusal::new(RefusalCode::AgentRefused, message).with_hint(hint))
    }
}

/// Whether the table exposes this port; no ports there means every port.
pub(crate) fn is_exposed(exposed: &ExposedService, port: &ServicePort) -> bool {
    exposed.ports.is_empty()
        || exposed
            .ports
            .iter()
            .any(|text| text.parse().is_ok_and(|listed| is(port, &listed)))
}

fn is(port: &ServicePort, wanted: &Port) -> bool {
    match wanted {
        Port::Number(number) => number.get() == port.number,
        Port::Name(name) => **name == *port.name,
    }
}

/// 443, else `https`, else the only one, else 80, else `http`.
fn default_of<'a>(ports: &[&'a ServicePort]) -> Option<&'a ServicePort> {
    let number = |n: u16| ports.iter().copied().find(|p| p.number == n);
    let name = |n: &str| ports.iter().copied().find(|p| p.name == n);
    let only = || {
        if let [only] = ports {
            Some(*only)
        } else {
            None
        }
    };
    number(443)
        .or_else(|| name("https"))
        .or_else(only)
        .or_else(|| number(80))
        .or_else(|| name("http"))
}

/// 80, else `http`, else the only one.
fn http_of<'a>(ports: &[&'a ServicePort]) -> Option<&'a ServicePort> {
    let number = ports.iter().copied().find(|p| p.number == 80);
    let only = match ports {
        [only] => Some(*only),
        _ => None,
    };
    number
        .or_else(|| ports.iter().copied().find(|p| p.name == "http"))
        .or(only)
}

fn no_port(service: &Service, message: &str) -> Refusal {
    let refusal = Refusal::new(RefusalCode::ServiceNotFound, message);
    let ports: Vec<String> = service.ports.iter().map(describe).collect();
    match ports.as_slice() {
        [] => refusal.with_hint("it has no TCP port at all"),
        ports => refusal.with_hint(format!("it has {}", ports.join(", "))),
    }
}

fn describe(port: &ServicePort) -> String {
    match port.name.as_str() {
        "" => port.number.to_string(),
        name => format!("{} ({name})", port.number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_found_by_number_name_and_preference() {
        let many = service(&[(8080, "metrics"), (80, "http"), (8443, "https")]);
        for (service, choice, expected) in [
            (&many, "80", Ok(80)),
            (&many, "metrics", Ok(8080)),
            (&many, "*", Ok(8443)),
            (&many, "443", Err(RefusalCode::ServiceNotFound)),
            (&many, "grpc", Err(RefusalCode::ServiceNotFound)),
            (&service(&[(443, ""), (8443, "https")]), "*", Ok(443)),
            (&service(&[(5432, "")]), "*", Ok(5432)),
            (&service(&[(80, ""), (81, "http")]), "*", Ok(80)),
            (&service(&[(81, "http"), (82, "x")]), "*", Ok(81)),
            (
                &service(&[(1, "a"), (2, "b")]),
                "*",
                Err(RefusalCode::ServiceNotFound),
            ),
            (&service(&[]), "*", Err(RefusalCode::ServiceNotFound)),
        ] {
            assert_eq!(chosen(service, choice, &[], &["*/*"]), expected, "{choice}");
        }
    }

    #[test]
    fn the_hubs_table_bounds_the_ports() {
        let many = service(&[(80, "http"), (8443, "https")]);
        assert_eq!(
            chosen(&many, "80", &["https"], &["*/*"]),
            Err(RefusalCode::PortNotExposed)
        );
        assert_eq!(chosen(&many, "8443", &["https"], &["*/*"]), Ok(8443));
        assert_eq!(chosen(&many, "*", &["80"], &["*/*"]), Ok(80));
        assert_eq!(
            chosen(&many, "*", &["8080", "grpc"], &["*/*"]),
            Err(RefusalCode::PortNotExposed)
        );
    }

    #[test]
    fn the_agents_own_list_bounds_what_the_hub_may_reach() {
        let one = service(&[(80, "http")]);
        assert_eq!(
            chosen(&one, "80", &[], &["other/*"]),
            Err(RefusalCode::AgentRefused)
        );
        assert_eq!(
            chosen(&one, "80", &[], &["default/s:443"]),
            Err(RefusalCode::AgentRefused)
        );
        assert_eq!(
            chosen(&one, "80", &[], &["default/s:443", "default/s:http"]),
            Ok(80)
        );
        assert_eq!(chosen(&one, "80", &[], &[]), Err(RefusalCode::AgentRefused));
    }

    #[test]
    fn a_service_that_is_spoken_to_in_clear_is_reached_at_its_http_port() {
        let all = &["*/*"][..];
        let both = service(&[(443, "https"), (80, "web"), (8080, "http")]);
        assert_eq!(chosen(&both, "*http", &[], all), Ok(80));
        assert_eq!(chosen(&both, "*http", &["443", "http"], all), Ok(8080));
        assert_eq!(chosen(&both, "*", &[], all), Ok(443));
        let odd = service(&[(443, "https"), (9090, "metrics")]);
        assert_eq!(chosen(&odd, "*http", &[], all), Ok(443));
    }

    #[test]
    fn a_missing_port_names_those_there_are() {
        let many = service(&[(80, "http"), (81, "")]);
        let exposed = exposed(&[]);
        let refusal = choose(
            &many,
            &"grpc".parse().map(PortChoice::Port).unwrap(),
            &exposed,
            &[],
        );
        assert_eq!(refusal.unwrap_err().hint.unwrap(), "it has 80 (http), 81");
    }

    fn chosen(
        service: &Service,
        choice: &str,
        ports: &[&str],
        allow: &[&str],
    ) -> Result<u16, RefusalCode> {
        let choice = match choice {
            "*" => PortChoice::Default,
            "*http" => PortChoice::DefaultHttp,
            port => PortChoice::Port(port.parse().unwrap()),
        };
        let allow: Vec<AllowPattern> = allow.iter().map(|a| a.parse().unwrap()).collect();
        choose(service, &choice, &exposed(ports), &allow)
            .map(|p| p.number)
            .map_err(|r| r.code)
    }

    fn exposed(ports: &[&str]) -> ExposedService {
        ExposedService {
            namespace: "default".to_owned(),
            service: "s".to_owned(),
            ports: ports.iter().map(|p| (*p).to_owned()).collect(),
        }
    }

    fn service(ports: &[(u16, &str)]) -> Service {
        Service {
            ports: ports
                .iter()
                .map(|(number, name)| ServicePort {
                    number: *number,
                    name: (*name).to_owned(),
                    app_protocol: String::new(),
                })
                .collect(),
            ..Service::default()
        }
    }
}
