//! What the hub is told to do.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::Args;
use jiff::SignedDuration;
use serde::{Serialize, Serializer};
use strait_pki::{InvalidTrustDomain, TrustDomain};
use thiserror::Error;

/// The bounds of the life of an agent's certificate.
const MIN_AGENT_VALIDITY: SignedDuration = SignedDuration::from_secs(10);
const MAX_AGENT_VALIDITY: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);

/// The flags of `strait hub`.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Hub")]
pub struct HubArgs {
    /// Where agents and callers are accepted, both over TLS
    #[arg(
        long,
        env = "STRAIT_LISTEN",
        default_value = "[::]:8443",
        value_name = "ADDRESS"
    )]
    listen: SocketAddr,
    /// Where agents and callers reach this hub, `host:port`; may be given more than once
    #[arg(
        long = "address",
        env = "STRAIT_ADDRESSES",
        value_delimiter = ',',
        value_name = "HOST:PORT"
    )]
    addresses: Vec<String>,
    /// The DNS domain below which services are served by HTTPS
    #[arg(long, env = "STRAIT_DOMAIN", default_value = "", value_name = "DOMAIN")]
    domain: String,
    /// The trust domain in the names of agents
    #[arg(
        long,
        env = "STRAIT_TRUST_DOMAIN",
        default_value = strait_pki::DEFAULT_TRUST_DOMAIN,
        value_name = "DOMAIN"
    )]
    trust_domain: String,
    /// A certificate for callers, PEM, shown wherever it covers the name; with --tls-key
    #[arg(
        long,
        env = "STRAIT_TLS_CERT",
        requires = "tls_key",
        value_name = "FILE"
    )]
    tls_cert: Option<PathBuf>,
    /// The key of --tls-cert, PEM
    #[arg(
        long,
        env = "STRAIT_TLS_KEY",
        requires = "tls_cert",
        value_name = "FILE"
    )]
    tls_key: Option<PathBuf>,
    /// Authorities of callers' certificates, PEM, besides the API server's
    #[arg(long, env = "STRAIT_CALLERS_CA", value_name = "FILE")]
    callers_ca: Option<PathBuf>,
    /// Unix socket that takes HTTP in clear from programs on this machine; whoever may open it is
    /// --local-user
    #[arg(long, env = "STRAIT_LOCAL_SOCKET", value_name = "PATH")]
    local_socket: Option<PathBuf>,
    /// The user that callers at --local-socket are; its rights are those of any user
    #[arg(
        long,
        env = "STRAIT_LOCAL_USER",
        default_value = "strait:local",
        value_name = "NAME"
    )]
    local_user: String,
    /// Audience that callers' tokens must have; the API server's own when not given
    #[arg(
        long = "token-audience",
        env = "STRAIT_TOKEN_AUDIENCES",
        value_delimiter = ','
    )]
    token_audiences: Vec<String>,
    /// How long an agent's certificate is valid, e.g. 720h; agents renew after two thirds
    #[arg(long, env = "STRAIT_AGENT_CERTIFICATE_LIFETIME", value_name = "TIME")]
    agent_certificate_lifetime: Option<SignedDuration>,
    /// Seconds that an agent may take to connect to a service
    #[arg(long, env = "STRAIT_DIAL_SECONDS", default_value_t = 10, value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(1..=300))]
    dial_seconds: u64,
    /// What this hub is called among its replicas
    #[arg(
        long,
        env = "STRAIT_POD_NAME",
        default_value = "",
        hide_default_value = true,
        value_name = "NAME"
    )]
    pod_name: String,
    /// Seconds that open streams get to finish when the hub is asked to stop
    #[arg(
        long,
        env = "STRAIT_DRAIN_SECONDS",
        default_value_t = 30,
        value_name = "SECONDS"
    )]
    drain_seconds: u64,
    /// Streams that all callers together may have open
    #[arg(
        long,
        env = "STRAIT_MAX_STREAMS",
        default_value_t = 100_000,
        value_name = "COUNT"
    )]
    max_streams: usize,
    /// Streams that one caller may have open
    #[arg(
        long,
        env = "STRAIT_MAX_STREAMS_PER_CALLER",
        default_value_t = 10_000,
        value_name = "COUNT"
    )]
    max_streams_per_caller: usize,
}

/// What the hub does.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HubConfig {
    /// What this hub is called among its replicas; may be empty.
    pub name: String,
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where agents and callers reach it, `host:port`.
    pub addresses: Vec<String>,
    /// The domain below which services are served by HTTPS; empty for none.
    pub domain: String,
    /// The trust domain in agents' names.
    #[serde(serialize_with = "as_text")]
    pub trust_domain: TrustDomain,
    /// Certificate and key of `--tls-cert`, `--tls-key`.
    pub serving_files: Option<(PathBuf, PathBuf)>,
    /// Authorities of callers besides the API server's.
    pub callers_ca: Option<PathBuf>,
    /// A socket for programs on the same machine.
    pub local_socket: Option<PathBuf>,
    /// Who they are.
    pub local_user: String,
    /// Audiences that tokens must have.
    pub token_audiences: Vec<String>,
    /// How long agents' certificates are valid.
    pub agent_validity: SignedDuration,
    /// What it takes in at most.
    pub limits: Limits,
    /// How long things may take.
    pub times: Times,
}

/// What a hub takes in at most.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Connections whose TLS handshake is not over; one source address gets a quarter of them.
    /// Those beyond are closed.
    pub handshakes: usize,
    /// Callers' connections that are in a request or between two; one source address gets a quarter.
    /// A stream does not count as one any more.
    pub connections: usize,
    /// Sessions of one cluster; agents and their replicas have one each, two while they change over.
    pub sessions_per_cluster: usize,
    /// Streams of all callers.
    pub streams: usize,
    /// Streams of one caller, by user name.
    pub streams_per_caller: usize,
    /// Joins from one source address in a minute.
    pub joins_per_minute: u32,
    /// Bytes of a join's body.
    pub join_bytes: usize,
    /// Bytes of the head of a request.
    pub head_bytes: usize,
}

/// How long things of a hub may take.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Times {
    /// TLS handshake.
    pub handshake: Duration,
    /// Head of a request; also an idle connection between two requests.
    pub head: Duration,
    /// From OPEN to ACCEPT.
    pub dial: Duration,
    /// How long a caller waits for an agent that went just now, while it is likely to come back: a
    /// pod that is replaced, a connection that broke.
    pub comeback: Duration,
    /// TLS between hub and service.
    pub upstream_tls: Duration,
    /// For how long a decision about a caller holds without being asked for again.
    pub decision: Duration,
    /// How often the callers of open streams are checked again.
    pub recheck: Duration,
    /// How often a probe goes through each session.
    pub probe: Duration,
    /// How long a probe may take.
    pub probe_answer: Duration,
    /// How often the certificates' sources are looked at, to tell how they are.
    pub certificates: Duration,
    /// How long a new session waits until its cluster is in the inventory.
    pub admission: Duration,
    /// From being asked to stop until open streams are cut.
    pub drain: Duration,
}

/// Flags that do not make a configuration.
#[derive(Debug, Error)]
pub enum InvalidHubConfig {
    /// The trust domain is none.
    #[error("--trust-domain is not valid")]
    TrustDomain(#[source] InvalidTrustDomain),
    /// Agents' certificates would end too soon or too late.
    #[error("--agent-certificate-lifetime must be between 10 s and 10 years")]
    AgentValidity,
    /// The local user is nobody, or one whom API servers know as their own.
    #[error("--local-user must be a name that does not begin with `system:`")]
    LocalUser,
    /// An address has no port.
    #[error("the address `{0}` is not of the form `host:port`")]
    Address(String),
}

// === impl HubConfig ===

impl HubConfig {
    /// A hub with defaults that listens here.
    #[must_use]
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            name: String::new(),
            listen,
            addresses: vec![],
            domain: String::new(),
            trust_domain: TrustDomain::default(),
            serving_files: None,
            callers_ca: None,
            local_socket: None,
            local_user: "strait:local".to_owned(),
            token_audiences: vec![],
            agent_validity: SignedDuration::from_hours(30 * 24),
            limits: Limits::default(),
            times: Times::default(),
        }
    }

    /// The same, its domain as it is compared.
    ///
    /// # Errors
    /// Names an address that is none.
    pub fn checked(mut self) -> Result<Self, InvalidHubConfig> {
        if self.local_user.is_empty() || self.local_user.starts_with("system:") {
            return Err(InvalidHubConfig::LocalUser);
        }
        if let Some(wrong) = self.addresses.iter().find(|a| split_address(a).is_none()) {
            return Err(InvalidHubConfig::Address(wrong.clone()));
        }
        self.domain = self.domain.trim_matches('.').to_ascii_lowercase();
        Ok(self)
    }

    /// The host names and addresses under which the hub itself is reached, for its certificate.
    #[must_use]
    pub fn own_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .addresses
            .iter()
            .filter_map(|address| split_address(address))
            .map(|(host, _)| host.to_ascii_lowercase())
            .collect();
        names.extend((!self.domain.is_empty()).then(|| self.domain.clone()));
        names.extend(["localhost", "127.0.0.1", "::1"].map(str::to_owned));
        // Its Service, for callers in its own cluster.
        let service = [
            "strait-hub",
            "strait-hub.strait-system",
            "strait-hub.strait-system.svc",
        ];
        names.extend(service.map(str::to_owned));
        names.sort();
        names.dedup();
        names
    }
}

impl TryFrom<HubArgs> for HubConfig {
    type Error = InvalidHubConfig;

    fn try_from(args: HubArgs) -> Result<Self, InvalidHubConfig> {
        let defaults = Self::new(args.listen);
        let agent_validity = args
            .agent_certificate_lifetime
            .unwrap_or(defaults.agent_validity);
        if !(MIN_AGENT_VALIDITY..=MAX_AGENT_VALIDITY).contains(&agent_validity) {
            return Err(InvalidHubConfig::AgentValidity);
        }
        let config = Self {
            name: args.pod_name,
            addresses: args.addresses,
            domain: args.domain,
            trust_domain: args
                .trust_domain
                .parse()
                .map_err(InvalidHubConfig::TrustDomain)?,
            serving_files: args.tls_cert.zip(args.tls_key),
            callers_ca: args.callers_ca,
            local_socket: args.local_socket,
            local_user: args.local_user,
            token_audiences: args.token_audiences,
            agent_validity,
            limits: Limits {
                streams: args.max_streams,
                streams_per_caller: args.max_streams_per_caller,
                ..defaults.limits
            },
            times: Times {
                dial: Duration::from_secs(args.dial_seconds),
                drain: Duration::from_secs(args.drain_seconds),
                ..defaults.times
            },
            ..defaults
        };
        config.checked()
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshakes: 1024,
            connections: 20_000,
            sessions_per_cluster: 32,
            streams: 100_000,
            streams_per_caller: 10_000,
            joins_per_minute: 30,
            join_bytes: 16 << 10,
            head_bytes: 64 << 10,
        }
    }
}

impl Default for Times {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(60),
            dial: Duration::from_secs(10),
            comeback: Duration::from_secs(5),
            upstream_tls: Duration::from_secs(10),
            decision: Duration::from_secs(5),
            recheck: Duration::from_secs(5),
            probe: Duration::from_secs(10),
            probe_answer: Duration::from_secs(5),
            certificates: Duration::from_secs(5),
            admission: Duration::from_secs(5),
            drain: Duration::from_secs(30),
        }
    }
}

/// Host and port of `host:port`; an IPv6 address stands in brackets.
fn split_address(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let inner = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    let host = match inner {
        Some(inner) => inner,
        None if host.contains(':') => return None,
        None => host,
    };
    Some((host, port.parse().ok()?)).filter(|(host, port)| !host.is_empty() && *port != 0)
}

fn as_text<S: Serializer>(value: &TrustDomain, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_need_a_host_and_a_port() {
        assert_eq!(
            split_address("hub.example.com:8443"),
            Some(("hub.example.com", 8443))
        );
        assert_eq!(split_address("[fd00::1]:8443"), Some(("fd00::1", 8443)));
        for wrong in ["hub", "hub:", ":1", "fd00::1:8443", "hub:0", "hub:99999"] {
            assert_eq!(split_address(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_hubs_own_names_come_from_its_addresses() {
        let mut config = HubConfig::new(SocketAddr::from(([127, 0, 0, 1], 0)));
        config.addresses = vec!["Hub.test:8443".to_owned(), "[fd00::1]:8443".to_owned()];
        config.domain = "demo.localhost".to_owned();
        let names = config.own_names();
        for name in [
            "::1",
            "demo.localhost",
            "fd00::1",
            "hub.test",
            "strait-hub.strait-system.svc",
        ] {
            assert!(names.iter().any(|own| own == name), "{name}");
        }
    }

    #[derive(Debug, clap::Parser)]
    struct Command {
        #[command(flatten)]
        hub: HubArgs,
    }

    fn parse(args: &[&str]) -> HubConfig {
        let args = ["hub"].iter().chain(args);
        let command = <Command as clap::Parser>::try_parse_from(args).unwrap();
        command.hub.try_into().unwrap()
    }

    #[test]
    fn what_is_typed_becomes_what_is_meant() {
        let config = parse(&["--address=a:1", "--address=b:2", "--domain=.Hub.Test."]);
        assert_eq!(
            (config.addresses.len(), config.domain.as_str()),
            (2, "hub.test")
        );
        assert_eq!(config.listen.port(), 8443);
        assert_eq!(config.agent_validity, SignedDuration::from_hours(720));
        let config = parse(&["--agent-certificate-lifetime=15s"]);
        assert_eq!(config.agent_validity, SignedDuration::from_secs(15));
        let config = parse(&["--drain-seconds=1", "--tls-cert=a", "--tls-key=b"]);
        assert_eq!(config.times.drain, Duration::from_secs(1));
        assert!(config.serving_files.is_some());
    }
}
