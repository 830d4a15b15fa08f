//! What the hub says of a member in the inventory. Pure.

use jiff::Timestamp;
use strait_api::{
    Condition, ConditionStatus, set_condition,
    wire_names::{AVAILABLE, HUB_ACCEPTED, JOINED, TUNNEL_REACHABLE},
};

/// What the reasons of our conditions begin with where the condition's name is another system's.
/// One with another reason is that system's, and is left alone.
const OURS: &str = "Strait";

/// How a member is, as the hub sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberReport {
    /// A probe went through the tunnel to the member's API server and came back.
    Reachable,
    /// An agent is connected, and no probe has come back yet.
    Connecting,
    /// An agent is connected, and the last probe failed; says how.
    ProbeFailed(String),
    /// No agent is connected; says since when or why, when that is known.
    NotConnected(String),
}

// === impl MemberReport ===

impl MemberReport {
    /// The conditions that a member should have, given those that it has and whether the hub's
    /// administrator accepts it; `None` when it has them.
    #[must_use]
    pub fn conditions(
        &self,
        existing: &[Condition],
        accepted: bool,
        now: Timestamp,
    ) -> Option<Vec<Condition>> {
        let mut wanted = vec![hub_accepted(accepted, now)];
        let connected = !matches!(self, Self::NotConnected(_));
        if connected {
            wanted.push(joined(now));
        }
        // Of a cluster that never joined there is nothing to say.
        if connected || existing.iter().any(|condition| condition.r#type == JOINED) {
            wanted.push(self.available(now));
        }
        let mut conditions = existing.to_vec();
        let mut changed = set_condition(&mut conditions, self.tunnel_reachable(now));
        for condition in wanted {
            let foreign = existing
                .iter()
                .any(|c| c.r#type == condition.r#type && !c.reason.starts_with(OURS));
            if !foreign {
                changed |= set_condition(&mut conditions, condition);
            }
        }
        changed.then_some(conditions)
    }

    fn tunnel_reachable(&self, now: Timestamp) -> Condition {
        let (status, reason, message) = match self {
            Self::Reachable => (
                ConditionStatus::True,
                "ProbeAnswered",
                "A probe went through the tunnel to the cluster's API server and came back",
            ),
            Self::Connecting => (
                ConditionStatus::Unknown,
                "ProbeUnderWay",
                "An agent is connected, and no probe has come back yet",
            ),
            Self::ProbeFailed(why) => (ConditionStatus::False, "ProbeFailed", why.as_str()),
            Self::NotConnected(why) => (ConditionStatus::False, "AgentNotConnected", why.as_str()),
        };
        Condition::new(TUNNEL_REACHABLE, status, reason, message, now)
    }

    /// Without a session nobody knows how the member is; with one that cannot reach the member's
    /// API server, it is not available.
    fn available(&self, now: Timestamp) -> Condition {
        let (status, reason, message) = match self {
            Self::Reachable => (
                ConditionStatus::True,
                "StraitProbeAnswered",
                "The cluster's API server answers",
            ),
            Self::Connecting => (
                ConditionStatus::Unknown,
                "StraitProbeUnderWay",
                "An agent is connected, and no probe has come back yet",
            ),
            Self::ProbeFailed(why) => (ConditionStatus::False, "StraitProbeFailed", why.as_str()),
            Self::NotConnected(why) => (
                ConditionStatus::Unknown,
                "StraitAgentNotConnected",
                why.as_str(),
            ),
        };
        Condition::new(AVAILABLE, status, reason, message, now)
    }
}

fn hub_accepted(accepted: bool, now: Timestamp) -> Condition {
    let (status, reason, message) = if accepted {
        (
            ConditionStatus::True,
            "StraitHubAccepts",
            "The hub's administrator accepts the cluster",
        )
    } else {
        let message = "spec.hubAcceptsClient is false, so the hub gives its agent no session";
        (ConditionStatus::False, "StraitHubDenies", message)
    };
    Condition::new(HUB_ACCEPTED, status, reason, message, now)
}

fn joined(now: Timestamp) -> Condition {
    let message = "The cluster's agent has a certificate of the hub";
    Condition::new(
        JOINED,
        ConditionStatus::True,
        "StraitAgentJoined",
        message,
        now,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn status(conditions: &[Condition], name: &str) -> ConditionStatus {
        conditions.iter().find(|c| c.r#type == name).unwrap().status
    }

    #[test]
    fn only_a_probe_that_came_back_makes_a_member_reachable() {
        let after = |report: MemberReport| report.conditions(&[], true, at(1)).unwrap();
        let reachable = after(MemberReport::Reachable);
        assert_eq!(status(&reachable, TUNNEL_REACHABLE), ConditionStatus::True);
        assert_eq!(status(&reachable, AVAILABLE), ConditionStatus::True);
        let connecting = after(MemberReport::Connecting);
        assert_eq!(
            status(&connecting, TUNNEL_REACHABLE),
            ConditionStatus::Unknown
        );
        let failed = after(MemberReport::ProbeFailed("timed out".to_owned()));
        assert_eq!(status(&failed, TUNNEL_REACHABLE), ConditionStatus::False);
        assert_eq!(status(&failed, AVAILABLE), ConditionStatus::False);
        let lost = MemberReport::NotConnected("no answer".to_owned());
        let lost = lost.conditions(&reachable, true, at(2)).unwrap();
        assert_eq!(status(&lost, TUNNEL_REACHABLE), ConditionStatus::False);
        assert_eq!(status(&lost, AVAILABLE), ConditionStatus::Unknown);
        assert_eq!(
            status(&lost, JOINED),
            ConditionStatus::True,
            "it stays joined"
        );
    }

    #[test]
    fn a_cluster_that_never_joined_is_not_said_to_have() {
        let report = MemberReport::NotConnected("never".to_owned());
        let conditions = report.conditions(&[], false, at(1)).unwrap();
        assert_eq!(conditions.len(), 2);
        assert_eq!(status(&conditions, HUB_ACCEPTED), ConditionStatus::False);
        assert_eq!(
            status(&conditions, TUNNEL_REACHABLE),
            ConditionStatus::False
        );
    }

    #[test]
    fn nothing_is_written_that_is_there_already() {
        let before = MemberReport::Reachable
            .conditions(&[], true, at(1))
            .unwrap();
        assert_eq!(
            MemberReport::Reachable.conditions(&before, true, at(2)),
            None
        );
    }

    #[test]
    fn conditions_of_a_klusterlet_are_left_alone() {
        let theirs = vec![
            Condition::new(
                AVAILABLE,
                ConditionStatus::True,
                "ManagedClusterAvailable",
                "",
                at(1),
            ),
            Condition::new(
                JOINED,
                ConditionStatus::True,
                "ManagedClusterJoined",
                "",
                at(1),
            ),
        ];
        let after = MemberReport::NotConnected(String::new())
            .conditions(&theirs, true, at(2))
            .unwrap();
        assert_eq!(after[..2], theirs[..]);
        assert_eq!(status(&after, TUNNEL_REACHABLE), ConditionStatus::False);
    }
}
