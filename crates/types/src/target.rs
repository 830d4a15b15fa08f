//! What an agent is asked to dial, as the text that OPEN carries.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{InvalidPort, Port, label};

/// Which port of the Service to dial.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PortChoice {
    /// This one.
    Port(Port),
    /// The agent chooses: 443, else the port named `https`, else the only port, else 80, else the
    /// port named `http`. Written `*`.
    Default,
    /// The agent chooses one that speaks HTTP in clear: 80, else the port named `http`, else the
    /// only port, else what [`Default`](Self::Default) comes to. Written `*http`.
    DefaultHttp,
}

/// What one stream is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// `tcp:<service>.<namespace>:<port>`: a port of a Service of the agent's cluster.
    Tcp {
        /// The Service's name.
        service: Box<str>,
        /// Its namespace.
        namespace: Box<str>,
        /// Its port.
        port: PortChoice,
    },
    /// `control:table`: the hub sends [`ExposureTable`](crate::ExposureTable)s.
    Table,
    /// `control:renew`: the agent asks for its next certificate with a
    /// [`RenewRequest`](crate::RenewRequest). The only target that an agent opens.
    Renew,
    /// `probe:`: the agent connects to its API server and says whether that worked.
    Probe,
}

/// Why a text is not a target. The agent refuses it, whatever the hub says.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum InvalidTarget {
    /// The scheme is unknown; holds it. `unix` and `udp` are such.
    #[error("`{0}` targets are not dialled, only services over TCP are")]
    Scheme(Box<str>),
    /// The rest is not `<service>.<namespace>:<port>`.
    #[error("it is not of the form `tcp:service.namespace:port`")]
    Form,
    /// The port is wrong.
    #[error("its port is wrong")]
    Port(#[source] InvalidPort),
}

/// What the agent tells with ACCEPT about the port it connected to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AcceptDetail {
    /// The Service's port number, 0 when unknown.
    pub port: u16,
    /// The port's name, empty when it has none.
    pub name: String,
    /// `appProtocol` of the port, empty when it has none.
    pub app_protocol: String,
}

// === impl PortChoice ===

impl fmt::Display for PortChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(port) => port.fmt(f),
            Self::Default => f.write_str("*"),
            Self::DefaultHttp => f.write_str("*http"),
        }
    }
}

// === impl Target ===

impl FromStr for Target {
    type Err = InvalidTarget;

    fn from_str(text: &str) -> Result<Self, InvalidTarget> {
        let (scheme, rest) = text.split_once(':').ok_or(InvalidTarget::Form)?;
        match (scheme, rest) {
            ("control", "table") => Ok(Self::Table),
            ("control", "renew") => Ok(Self::Renew),
            ("probe", "") => Ok(Self::Probe),
            ("tcp", rest) => tcp(rest),
            (scheme, _) => Err(InvalidTarget::Scheme(
                scheme.chars().take(32).collect::<String>().into(),
            )),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp {
                service,
                namespace,
                port,
            } => write!(f, "tcp:{service}.{namespace}:{port}"),
            Self::Table => f.write_str("control:table"),
            Self::Renew => f.write_str("control:renew"),
            Self::Probe => f.write_str("probe:"),
        }
    }
}

// === impl AcceptDetail ===

impl AcceptDetail {
    /// The JSON that ACCEPT carries.
    #[must_use]
    pub fn encode(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads what an agent sent; what cannot be read is as if it had said nothing.
    #[must_use]
    pub fn decode(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }
}

fn tcp(rest: &str) -> Result<Target, InvalidTarget> {
    let (host, port) = rest.rsplit_once(':').ok_or(InvalidTarget::Form)?;
    let (service, namespace) = host.split_once('.').ok_or(InvalidTarget::Form)?;
    if label::check(service).is_err() || label::check(namespace).is_err() {
        return Err(InvalidTarget::Form);
    }
    let port = match port {
        "*" => PortChoice::Default,
        "*http" => PortChoice::DefaultHttp,
        port => PortChoice::Port(port.parse().map_err(InvalidTarget::Port)?),
    };
    Ok(Target::Tcp {
        service: service.into(),
        namespace: namespace.into(),
        port,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn targets_survive_their_text() {
        for text in [
            "tcp:search.default:443",
            "tcp:search.default:https",
            "tcp:a.b:*",
            "tcp:a.b:*http",
            "control:table",
            "control:renew",
            "probe:",
        ] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn anything_but_a_service_is_refused() {
        for text in [
            "unix:/var/run/docker.sock",
            "udp:dns.kube-system:53",
            "tcp:127.0.0.1:80",
            "tcp:169.254.169.254:80",
            "tcp:[::1]:80",
            "tcp:localhost:80",
            "tcp:a.b",
            "tcp:a.b.c:80",
            "tcp:a.b:0",
            "control:other",
            "",
        ] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in ".{0,80}") {
            let _ = text.parse::<Target>();
        }
    }
}
