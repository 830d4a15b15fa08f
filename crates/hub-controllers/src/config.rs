//! What the controller is told to do.

use clap::Args;
use jiff::SignedDuration;
use serde::Serialize;
use strait_pki::{InvalidTrustDomain, TrustDomain};
use thiserror::Error;

/// How long the hub's authorities are valid when nobody says otherwise: ten years.
const CA_HOURS: i64 = 10 * 365 * 24;
/// How long a new authority is only trusted before it signs, when nobody says otherwise. Agents'
/// certificates are valid for 30 days and renewed after 20, and each renewal brings the bundle.
const CA_OVERLAP_HOURS: i64 = 30 * 24;
/// The shortest life of an authority.
const MIN_CA_LIFETIME: SignedDuration = SignedDuration::from_mins(1);

/// The flags of `strait controller`.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Controller")]
pub struct ControllerArgs {
    /// Where agents and callers reach the hub, `host:port`; may be given more than once
    #[arg(
        long = "address",
        env = "STRAIT_ADDRESSES",
        value_delimiter = ',',
        value_name = "HOST:PORT"
    )]
    addresses: Vec<String>,
    /// The DNS domain below which the hub serves names by HTTPS
    #[arg(long, env = "STRAIT_DOMAIN", default_value = "", value_name = "DOMAIN")]
    domain: String,
    /// The trust domain in the names of agents, as the hub has it
    #[arg(
        long,
        env = "STRAIT_TRUST_DOMAIN",
        default_value = strait_pki::DEFAULT_TRUST_DOMAIN,
        value_name = "DOMAIN"
    )]
    trust_domain: String,
    /// What this replica is called in the election of a leader; its own for each replica
    #[arg(long, env = "STRAIT_POD_NAME", value_name = "NAME")]
    identity: Option<String>,
    /// How long a new authority of agents' or of the hub's certificates is valid, e.g. 87600h
    #[arg(long, env = "STRAIT_CA_LIFETIME", value_name = "TIME")]
    ca_lifetime: Option<SignedDuration>,
    /// How long a new authority is trusted everywhere before it signs, e.g. 720h
    #[arg(long, env = "STRAIT_CA_OVERLAP", value_name = "TIME")]
    ca_overlap: Option<SignedDuration>,
}

/// What the controller does.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerConfig {
    /// Where agents and callers reach the hub, `host:port`.
    pub addresses: Vec<String>,
    /// The domain below which names are served by HTTPS; empty for none.
    pub domain: String,
    /// The replica's name in the election; no other may have it.
    pub identity: String,
    /// The lives of the hub's authorities.
    pub authorities: AuthorityTimes,
}

/// The lives of the hub's authorities.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthorityTimes {
    /// How long a new one is valid. It is replaced after two thirds of that.
    pub lifetime: SignedDuration,
    /// How long its successor is trusted before it signs; never more than a sixth of its life.
    pub overlap: SignedDuration,
}

/// Flags that do not make a configuration.
#[derive(Debug, Error)]
pub enum InvalidControllerConfig {
    /// The trust domain is none.
    #[error("--trust-domain is not valid")]
    TrustDomain(#[source] InvalidTrustDomain),
    /// Authorities would end as soon as they are made.
    #[error("--ca-lifetime must be a minute at least")]
    Lifetime,
    /// The overlap is negative.
    #[error("--ca-overlap must not be negative")]
    Overlap,
}

// === impl ControllerConfig ===

impl TryFrom<ControllerArgs> for ControllerConfig {
    type Error = InvalidControllerConfig;

    fn try_from(args: ControllerArgs) -> Result<Self, InvalidControllerConfig> {
        // Nothing here depends on it; a wrong one is told by both roles all the same.
        let _: TrustDomain = args
            .trust_domain
            .parse()
            .map_err(InvalidControllerConfig::TrustDomain)?;
        let mut authorities = AuthorityTimes::default();
        authorities.lifetime = args.ca_lifetime.unwrap_or(authorities.lifetime);
        authorities.overlap = args.ca_overlap.unwrap_or(authorities.overlap);
        if authorities.lifetime < MIN_CA_LIFETIME {
            return Err(InvalidControllerConfig::Lifetime);
        }
        if authorities.overlap.is_negative() {
            return Err(InvalidControllerConfig::Overlap);
        }
        Ok(Self {
            addresses: args.addresses,
            domain: args.domain.trim_matches('.').to_ascii_lowercase(),
            identity: args
                .identity
                // The number of a process is 1 in most containers.
                .unwrap_or_else(|| format!("strait-controller-{:016x}", rand::random::<u64>())),
            authorities,
        })
    }
}

// === impl AuthorityTimes ===

impl Default for AuthorityTimes {
    fn default() -> Self {
        Self {
            lifetime: SignedDuration::from_hours(CA_HOURS),
            overlap: SignedDuration::from_hours(CA_OVERLAP_HOURS),
        }
    }
}
