//! What an agent tells about itself in its ConfigMap, and `strait join` waits for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How far an agent has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentState {
    /// It has neither a certificate nor a token.
    #[default]
    Waiting,
    /// It shows its token to the hubs.
    Joining,
    /// A hub refused the token; it waits for another one.
    Refused,
    /// It has a certificate and no session.
    Connecting,
    /// It has a session with one hub at least.
    Connected,
    /// It has been asked to stop.
    Stopping,
}

/// How an agent is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentStatus {
    /// The cluster that the certificate names; empty before there is one.
    pub cluster: String,
    /// How far it has come.
    pub state: AgentState,
    /// A word for programs: the code of a refusal, or empty.
    pub reason: String,
    /// A sentence for people: the last thing that went wrong, or empty.
    pub message: String,
    /// The id of the token that all this is about; empty when there is none.
    pub token: String,
    /// The hubs that it has a session with, sorted.
    pub hubs: Vec<String>,
    /// When the certificate ends, RFC 3339; empty before there is one.
    pub certificate_expires: String,
    /// The agent's version.
    pub version: String,
}

// === impl AgentStatus ===

impl AgentStatus {
    /// The ConfigMap's data. Every key is always there, so that applying it leaves nothing old.
    #[must_use]
    pub fn to_data(&self) -> BTreeMap<String, String> {
        let state = serde_json::to_value(self.state).unwrap_or_default();
        BTreeMap::from(
            [
                ("cluster", self.cluster.clone()),
                ("state", state.as_str().unwrap_or_default().to_owned()),
                ("reason", self.reason.clone()),
                ("message", self.message.clone()),
                ("token", self.token.clone()),
                ("hubs", self.hubs.join("\n")),
                ("certificateExpires", self.certificate_expires.clone()),
                ("version", self.version.clone()),
            ]
            .map(|(key, value)| (key.to_owned(), value)),
        )
    }

    /// Reads what [`to_data`](Self::to_data) wrote; what is missing or unknown is as if the agent
    /// had not said anything.
    #[must_use]
    pub fn from_data(data: &BTreeMap<String, String>) -> Self {
        let text = |key: &str| data.get(key).cloned().unwrap_or_default();
        Self {
            cluster: text("cluster"),
            state: serde_json::from_value(text("state").into()).unwrap_or_default(),
            reason: text("reason"),
            message: text("message"),
            token: text("token"),
            hubs: text("hubs").lines().map(str::to_owned).collect(),
            certificate_expires: text("certificateExpires"),
            version: text("version"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_survives_its_config_map() {
        let status = AgentStatus {
            cluster: "cluster1".to_owned(),
            state: AgentState::Connected,
            reason: "token-used".to_owned(),
            message: "this join token has been used".to_owned(),
            token: "ab".to_owned(),
            hubs: vec!["hub-0:8443".to_owned(), "hub-1:8443".to_owned()],
            certificate_expires: "2026-01-01T00:00:00Z".to_owned(),
            version: "1.2.3".to_owned(),
        };
        assert_eq!(AgentStatus::from_data(&status.to_data()), status);
        assert_eq!(status.to_data()["state"], "connected");
    }

    #[test]
    fn an_empty_or_foreign_config_map_says_nothing() {
        assert_eq!(
            AgentStatus::from_data(&BTreeMap::new()),
            AgentStatus::default()
        );
        let foreign = BTreeMap::from([("state".to_owned(), "dancing".to_owned())]);
        assert_eq!(AgentStatus::from_data(&foreign).state, AgentState::Waiting);
    }
}
