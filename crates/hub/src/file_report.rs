//! What the hub says of the certificate files that it was given. Pure.

use jiff::Timestamp;
use strait_api::{Condition, ConditionStatus, set_condition, wire_names::CERTIFICATE_FILES_VALID};

/// How the hub's certificate files are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileReport {
    /// Whether the hub was given files at all; without them there is nothing to say.
    pub given: bool,
    /// What is wrong, a sentence each; empty when nothing is.
    pub problems: Vec<String>,
}

// === impl FileReport ===

impl FileReport {
    /// The conditions that the configuration should have, given those that it has; `None` when it
    /// has them.
    #[must_use]
    pub fn conditions(
        &self,
        existing: &[Condition],
        generation: Option<i64>,
        now: Timestamp,
    ) -> Option<Vec<Condition>> {
        if !self.given {
            let mut others = existing.to_vec();
            others.retain(|condition| condition.r#type != CERTIFICATE_FILES_VALID);
            return (others.len() < existing.len()).then_some(others);
        }
        let (status, reason, message) = if self.problems.is_empty() {
            let message = "The hub uses its certificate files as they are".to_owned();
            (ConditionStatus::True, "Valid", message)
        } else {
            let message = format!(
                "{}; the last good one stays in force",
                self.problems.join("; ")
            );
            (ConditionStatus::False, "Broken", message)
        };
        let condition = Condition::new(CERTIFICATE_FILES_VALID, status, reason, message, now);
        let mut conditions = existing.to_vec();
        set_condition(&mut conditions, condition.observed(generation)).then_some(conditions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_file_is_told_once_and_taken_back() {
        let now = Timestamp::UNIX_EPOCH;
        let other = Condition::new("Other", ConditionStatus::True, "Fine", "", now);
        let broken = FileReport {
            given: true,
            problems: vec!["--tls-cert /tls/tls.crt: the PEM text is wrong".to_owned()],
        };
        let told = broken.conditions(&[other], Some(1), now).unwrap();
        assert_eq!(told.len(), 2);
        assert_eq!(told[1].status, ConditionStatus::False);
        assert!(told[1].message.starts_with("--tls-cert /tls/tls.crt: "));
        assert_eq!(broken.conditions(&told, Some(1), now), None);
        let good = FileReport {
            given: true,
            problems: vec![],
        };
        let mended = good.conditions(&told, Some(1), now);
        assert_eq!(mended.unwrap()[1].status, ConditionStatus::True);
        let none = FileReport::default();
        assert_eq!(none.conditions(&told, Some(1), now).unwrap().len(), 1);
        assert_eq!(none.conditions(&[], Some(1), now), None);
    }
}
