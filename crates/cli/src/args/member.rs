//! Arguments of `token` and `join`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use jiff::SignedDuration;
use strait_types::ClusterName;

use super::{FormatArgs, install::host_port};

/// The shortest and the longest life of a join token.
const TTL: (SignedDuration, SignedDuration) = (
    SignedDuration::from_mins(1),
    SignedDuration::from_hours(24 * 7),
);

/// A file's path. Elsewhere `-o` chooses a format, so a format is not what is meant here.
fn token_path(text: &str) -> Result<PathBuf, String> {
    if matches!(text, "json" | "yaml" | "table") {
        return Err(format!(
            "`-o` names the file to write here, and token files are YAML; `./{text}` if the file is to be called so"
        ));
    }
    Ok(text.into())
}

/// What can be done with join tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenVerb {
    /// Make a token with which one cluster can join once
    Create(TokenCreateArgs),
}

/// Arguments of `token create`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  strait token create --cluster cluster1 -o token.yaml
  strait token create --cluster cluster1 --ttl 15m | ssh admin@cluster1 strait join --token-file -
  strait token create --cluster vm1 --config /etc/strait/hub.yaml -o token.yaml

Run it against the hub's cluster, or with `--config` on the machine of a hub without one. Whoever
has the file can join under this name, once, until it expires; the hub stores only a hash of the
secret in it.")]
pub(crate) struct TokenCreateArgs {
    /// The cluster that may join
    #[arg(long, value_name = "NAME")]
    pub(crate) cluster: ClusterName,
    /// How long the token can be used, from 1m to 7d
    #[arg(long, default_value = "1h", value_name = "DURATION", value_parser = ttl)]
    pub(crate) ttl: SignedDuration,
    /// File to write, readable by you alone [default: standard output]
    #[arg(short, long, value_name = "FILE", value_parser = token_path)]
    pub(crate) output: Option<PathBuf>,
    /// Where the member reaches the hub; may be given more than once [default: as installed]
    #[arg(long = "hub", value_name = "HOST:PORT", value_parser = host_port)]
    pub(crate) hubs: Vec<String>,
    /// The file that a hub without Kubernetes runs from
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// Arguments of `join`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  strait join --token-file token.yaml
  strait join --token-file token.yaml --hub 203.0.113.7:8443 --allow 'default/*' --allow search/web:443
  cat token.yaml | strait join --token-file -

Run it against the member's cluster. Joining again with the same token changes nothing; with a
new one the cluster gets a new identity while its streams go on.")]
pub(crate) struct JoinArgs {
    /// The file that `strait token create` wrote; `-` reads standard input
    #[arg(long, alias = "token", value_name = "FILE")]
    pub(crate) token_file: PathBuf,
    /// Where the hub listens; may be given more than once [default: as the token says]
    #[arg(long = "hub", value_name = "HOST:PORT", value_parser = host_port)]
    pub(crate) hubs: Vec<String>,
    /// What the hub may reach here, NAMESPACE/SERVICE[:PORT], `*` stands for anything; may be
    /// given more than once [default: as it is, at first */*]
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    pub(crate) allow: Vec<String>,
    /// Image of the agent [default: that of this version]
    #[arg(long)]
    pub(crate) image: Option<String>,
    /// How many agents run
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10))]
    pub(crate) replicas: u32,
    /// Do not wait until the agent is connected
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Seconds to wait at most
    #[arg(long, default_value_t = 120, value_name = "SECONDS")]
    pub(crate) timeout: u64,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

fn ttl(text: &str) -> Result<SignedDuration, String> {
    let ttl = match text.strip_suffix('d').map(str::parse::<i64>) {
        Some(Ok(days)) if days <= 7 => SignedDuration::from_hours(24 * days),
        Some(_) => return Err("it must be a time from 1m to 7d".to_owned()),
        None => text
            .parse()
            .map_err(|error: jiff::Error| error.to_string())?,
    };
    if (TTL.0..=TTL.1).contains(&ttl) {
        Ok(ttl)
    } else {
        Err("it must be a time from 1m to 7d".to_owned())
    }
}

fn pattern(text: &str) -> Result<String, String> {
    match text.parse::<strait_types::AllowPattern>() {
        Ok(pattern) => Ok(pattern.to_string()),
        Err(wrong) => Err(wrong.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_lives_for_a_minute_to_a_week() {
        assert_eq!(ttl("1h"), Ok(SignedDuration::from_hours(1)));
        assert_eq!(ttl("90m"), Ok(SignedDuration::from_mins(90)));
        assert_eq!(ttl("7d"), Ok(SignedDuration::from_hours(168)));
        for bad in ["", "0", "59s", "8d", "-1h", "169h", "xd", "99999999999999d"] {
            assert!(ttl(bad).is_err(), "{bad}");
        }
    }
}
