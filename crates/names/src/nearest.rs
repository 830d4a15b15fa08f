//! The nearest right word to a wrong one.

/// How far apart two words may be: one edit for each three characters, one at least, three at most.
fn reach(asked: &str) -> usize {
    (asked.chars().count() / 3).clamp(1, 3)
}

/// The one of `known` that `asked` was most likely meant to be: the fewest edits, the first of
/// several. `None` when nothing is near. Costs one comparison per known word.
#[must_use]
pub fn nearest<'a>(asked: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .filter_map(|word| distance(asked, word).map(|edits| (edits, word)))
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, word)| word)
}

/// Edits from `asked` to `word` when it is near, and they are not equal.
pub(crate) fn distance(asked: &str, word: &str) -> Option<usize> {
    let reach = reach(asked);
    // Lengths first: most words are ruled out without a matrix.
    if word == asked || asked.len().abs_diff(word.len()) > reach * 4 {
        return None;
    }
    let edits = strsim::osa_distance(&asked.to_ascii_lowercase(), word);
    (edits <= reach).then_some(edits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_finds_its_word_and_a_stranger_finds_none() {
        let known = ["name", "namespace", "cluster"];
        assert_eq!(nearest("nmae", known), Some("name"));
        assert_eq!(nearest("namespce", known), Some("namespace"));
        assert_eq!(nearest("Cluster", known), Some("cluster"));
        assert_eq!(nearest("port", known), None);
    }
}
