//! Why a caller does not get what was asked for: one closed set of codes for every front end.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Whose side a refusal is on, and so who can do something about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The caller: another request would be answered.
    Caller,
    /// The hub itself.
    Hub,
    /// The member's agent, or the way to it.
    Agent,
    /// The service that was asked for.
    Target,
}

macro_rules! refusal_codes {
    ($($(#[$doc:meta])* $variant:ident = $wire:literal, $text:literal, $status:literal, $side:ident;)*) => {
        /// A stable code for a refusal. Its text is the same in every protocol, in the audit log
        /// and in the metrics, and names a page of `docs/errors/`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        #[non_exhaustive]
        pub enum RefusalCode {
            $($(#[$doc])* $variant,)*
        }

        impl RefusalCode {
            /// Every code there is, in the order of their wire numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The stable text, for instance `entrypoint-not-found`.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// The number that a REJECT frame carries. Numbers are never used again.
            #[must_use]
            pub fn wire(self) -> u16 {
                match self { $(Self::$variant => $wire,)* }
            }

            /// The code of a wire number; `None` for one that a newer peer may know.
            #[must_use]
            pub fn from_wire(number: u16) -> Option<Self> {
                match number { $($wire => Some(Self::$variant),)* _ => None }
            }

            /// The HTTP status that goes with the code. A front end turns 401 into 407 where the
            /// caller speaks to it as to a proxy.
            #[must_use]
            pub fn status(self) -> u16 {
                match self { $(Self::$variant => $status,)* }
            }

            /// Whose side it is on.
            #[must_use]
            pub fn side(self) -> Side {
                match self { $(Self::$variant => Side::$side,)* }
            }
        }
    };
}

refusal_codes! {
    /// The request is not one that the front end understands.
    BadRequest = 1, "bad-request", 400, Caller;
    /// No credential, or one that is not valid.
    Unauthenticated = 2, "unauthenticated", 401, Caller;
    /// The caller is known and may not connect to this entrypoint.
    NotAllowed = 3, "not-allowed", 403, Caller;
    /// No member of this name is in the inventory.
    ClusterNotFound = 4, "cluster-not-found", 404, Caller;
    /// The service is not exposed: the cluster has no entrypoint for it.
    EntrypointNotFound = 5, "entrypoint-not-found", 404, Caller;
    /// The entrypoint does not list this port.
    PortNotExposed = 6, "port-not-exposed", 404, Caller;
    /// The member has no Service of this name, or the Service has no such port.
    ServiceNotFound = 7, "service-not-found", 404, Target;
    /// Two entrypoints claim the name.
    AmbiguousName = 8, "ambiguous-name", 409, Caller;
    /// No agent of the cluster is connected.
    AgentNotConnected = 9, "agent-not-connected", 503, Agent;
    /// The agent's own policy forbids the target.
    AgentRefused = 10, "agent-refused", 403, Agent;
    /// The Service has no endpoint that is ready.
    NoEndpoints = 11, "no-endpoints", 503, Target;
    /// The service's endpoint refused the connection.
    ConnectionRefused = 12, "connection-refused", 502, Target;
    /// The endpoint did not answer in time.
    DialTimeout = 13, "dial-timeout", 504, Target;
    /// The endpoint could not be dialled for another reason.
    DialFailed = 14, "dial-failed", 502, Target;
    /// The service's TLS could not be verified or did not come about.
    TlsFailed = 15, "tls-failed", 502, Target;
    /// The session to the agent broke while the answer was awaited.
    TunnelLost = 16, "tunnel-lost", 502, Agent;
    /// The hub or the agent is shutting down.
    Draining = 17, "draining", 503, Hub;
    /// A limit of the hub or the agent is reached.
    Overloaded = 18, "overloaded", 503, Hub;
    /// The hub cannot decide, for instance because its API server does not answer.
    Unavailable = 19, "unavailable", 503, Hub;
    /// A defect.
    Internal = 20, "internal", 500, Hub;
    /// The stream was open and its permission or its entrypoint went away.
    Revoked = 21, "revoked", 403, Caller;
}

/// A refusal as every front end renders it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The stable code.
    pub code: RefusalCode,
    /// One line for a person: what was refused and why. No secrets, no full stop.
    pub message: String,
    /// What to try next, when there is something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

// === impl RefusalCode ===

impl fmt::Display for RefusalCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl Refusal ===

impl Refusal {
    /// A refusal without a hint.
    #[must_use]
    pub fn new(code: RefusalCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: None,
        }
    }

    /// The same with a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_code_has_its_page() {
        let pages = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors/");
        for code in RefusalCode::ALL {
            let page = std::fs::read_to_string(format!("{pages}{code}.md")).unwrap();
            assert!(page.starts_with(&format!("# {code}\n")), "{code}");
        }
    }

    #[test]
    fn codes_are_distinct_and_survive_the_wire() {
        let texts: BTreeSet<_> = RefusalCode::ALL.iter().map(|c| c.as_str()).collect();
        assert_eq!(texts.len(), RefusalCode::ALL.len());
        for code in RefusalCode::ALL {
            assert_eq!(RefusalCode::from_wire(code.wire()), Some(*code));
            let json = serde_json::to_string(code).unwrap();
            assert_eq!(json, format!("\"{code}\""));
        }
        assert_eq!(RefusalCode::from_wire(0), None);
    }
}
