//! Reads the fields of one entry, and says everything that is wrong with it.

use serde_json::{Map, Value};
use strait_types::ClusterName;

use super::{Problem, ProblemReason};
use crate::nearest;

/// The text fields of one entry, in the order of the names asked for.
pub(super) type Texts<const N: usize> = [String; N];

/// Reads an entry that has exactly the fields `names`, all of them texts.
pub(super) fn texts<const N: usize>(
    at: &str,
    entry: &Value,
    names: [&str; N],
) -> Result<Texts<N>, Vec<Problem>> {
    let Value::Object(entry) = entry else {
        let what = format!("an entry with the fields {}", names.join(", "));
        return Err(vec![wrong_type(at, &what, entry)]);
    };
    let mut problems = unknown_fields(at, entry, &names);
    let mut found = Vec::with_capacity(N);
    for name in names {
        match text(at, entry, name) {
            Ok(text) => found.push(text),
            Err(problem) => problems.push(problem),
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    Texts::try_from(found).map_err(|found| {
        vec![Problem::new(
            at,
            ProblemReason::MissingField,
            format!("{} of {N} fields are there", found.len()),
        )]
    })
}

/// A field has another type than `wanted` describes.
pub(super) fn wrong_type(field: &str, wanted: &str, found: &Value) -> Problem {
    let found = match found {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    };
    Problem::new(
        field,
        ProblemReason::WrongType,
        format!("must be {wanted}, but is {found}"),
    )
}

/// Checks a text that names an object whose name is a label.
pub(super) fn label(field: &str, text: &str) -> Result<(), Problem> {
    // Services, namespaces and clusters have the same form, which the cluster's type checks.
    text.parse::<ClusterName>().map(|_| ()).map_err(|error| {
        Problem::new(
            field,
            ProblemReason::InvalidName,
            format!("`{}`: {error}", shortened(text)),
        )
    })
}

/// A text of a user as it may stand in a message.
pub(super) fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

fn text(at: &str, entry: &Map<String, Value>, name: &str) -> Result<String, Problem> {
    let field = format!("{at}.{name}");
    match entry.get(name) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
        None | Some(Value::Null | Value::String(_)) => Err(Problem::new(
            field,
            ProblemReason::MissingField,
            "must be given",
        )),
        Some(other) => Err(wrong_type(&field, "a text", other)),
    }
}

fn unknown_fields(at: &str, entry: &Map<String, Value>, names: &[&str]) -> Vec<Problem> {
    entry
        .keys()
        .filter(|key| !names.contains(&key.as_str()))
        .map(|key| {
            let message = nearest(key, names.iter().copied()).map_or_else(
                || format!("no such field, there are {}", names.join(", ")),
                |right| format!("no such field, did you mean `{right}`?"),
            );
            let field = format!("{at}.{}", shortened(key));
            Problem::new(field, ProblemReason::UnknownField, message)
        })
        .collect()
}
