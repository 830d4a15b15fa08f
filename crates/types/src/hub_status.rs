//! How a hub is: its sessions with agents, as it tells those who may know.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ClusterName;

/// The path at the hub that answers a GET with a [`HubStatus`] as JSON, to callers who may list
/// `ManagedCluster`s.
pub const STATUS_PATH: &str = "/.strait/v1/status";

/// How one hub is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HubStatus {
    /// Which hub this is: its pod's name, where it has one.
    pub hub: String,
    /// Its version.
    pub version: String,
    /// Its sessions with agents, by cluster, older ones first.
    pub sessions: Vec<SessionStatus>,
}

/// One session with an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionStatus {
    /// Whose agent it is.
    pub cluster: ClusterName,
    /// Names the agent's process: two sessions with the same name lead to the same one.
    pub instance: String,
    /// What the agent calls its software, `strait/<version>`; may be empty.
    pub software: String,
    /// Where it comes from, `address:port`.
    pub source: String,
    /// How it is carried.
    pub carrier: String,
    /// Since when it stands.
    pub since: Timestamp,
    /// The shortest of the last round trips, in microseconds; absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_micros: Option<u64>,
    /// How long nothing has come from the agent, in milliseconds; it is asked every ten seconds.
    #[serde(default)]
    pub silent_millis: u64,
    /// Streams that are open, without the one by which the hub tells what is exposed.
    pub streams: usize,
    /// Bytes that came from the agent in all streams.
    pub bytes_from_agent: u64,
    /// Bytes that went to the agent in all streams.
    pub bytes_to_agent: u64,
    /// Whether it takes no more streams and ends soon.
    pub draining: bool,
    /// Whether the last probe came back from the member's API server; absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reachable: Option<bool>,
    /// When the certificate ends that it rests on.
    pub certificate_ends: Timestamp,
}
