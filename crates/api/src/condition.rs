//! Sets, compares and reads conditions.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The state of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not.
    False,
    /// Nobody knows.
    Unknown,
}

/// One condition, with the fields of `metav1.Condition`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What is said to hold or not.
    pub r#type: String,
    /// Whether it does.
    pub status: ConditionStatus,
    /// The generation of the object that this was said about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When the status last changed, RFC 3339.
    pub last_transition_time: String,
    /// A word for programs.
    pub reason: String,
    /// A sentence for people.
    pub message: String,
}

// === impl Condition ===

impl Condition {
    /// A condition that became so at `now`.
    #[must_use]
    pub fn new(
        r#type: &str,
        status: ConditionStatus,
        reason: &str,
        message: impl Into<String>,
        now: Timestamp,
    ) -> Self {
        Self {
            r#type: r#type.to_owned(),
            status,
            observed_generation: None,
            last_transition_time: now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            reason: reason.to_owned(),
            message: message.into(),
        }
    }

    /// The same, said about this generation of the object.
    #[must_use]
    pub fn observed(mut self, generation: Option<i64>) -> Self {
        self.observed_generation = generation;
        self
    }
}

/// Puts `new` into `conditions`, in place of one of its type. The transition time moves only when
/// the status does; returns whether anything changed.
pub fn set_condition(conditions: &mut Vec<Condition>, mut new: Condition) -> bool {
    let Some(old) = conditions.iter_mut().find(|c| c.r#type == new.r#type) else {
        conditions.push(new);
        return true;
    };
    if old.status == new.status {
        new.last_transition_time
            .clone_from(&old.last_transition_time);
    }
    let changed = *old != new;
    *old = new;
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64, status: ConditionStatus) -> Condition {
        Condition::new(
            "Ready",
            status,
            "Why",
            "because",
            Timestamp::from_second(seconds).unwrap(),
        )
    }

    #[test]
    fn the_transition_time_moves_with_the_status_alone() {
        let mut conditions = vec![];
        assert!(set_condition(&mut conditions, at(1, ConditionStatus::True)));
        assert!(!set_condition(
            &mut conditions,
            at(2, ConditionStatus::True)
        ));
        assert_eq!(conditions[0].last_transition_time, "1970-01-01T00:00:01Z");
        assert!(set_condition(
            &mut conditions,
            at(3, ConditionStatus::False)
        ));
        assert_eq!(conditions[0].last_transition_time, "1970-01-01T00:00:03Z");
        assert_eq!(conditions.len(), 1);
    }
}
