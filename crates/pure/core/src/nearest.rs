//! Suggestions for "did you mean": the known word closest to a misspelled one.

use crate::bounds::NAMES_COMPARED_MAX;

/// The candidate nearest to `word`, if it is close enough to be a likely misspelling.
///
/// ```
/// assert_eq!(tollway_core::nearest("minit", ["second", "minute"]), Some("minute"));
/// assert_eq!(tollway_core::nearest("fortnight", ["second", "minute"]), None);
/// ```
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let candidates: Vec<&str> = candidates.into_iter().take(NAMES_COMPARED_MAX.saturating_add(1)).collect();
    if candidates.len() > NAMES_COMPARED_MAX {
        return None;
    }
    let word: Vec<char> = word.to_lowercase().chars().take(64).collect();
    let enough = word.len().div_ceil(3);
    candidates
        .into_iter()
        .map(|candidate| (distance(&word, candidate), candidate))
        .filter(|(distance, _)| *distance <= enough)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein's distance, one row at a time.
fn distance(word: &[char], candidate: &str) -> usize {
    let mut row: Vec<usize> = (0..=word.len()).collect();
    for (index, other) in candidate.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index.saturating_add(1));
        for (column, own) in word.iter().enumerate() {
            let above = row[column.saturating_add(1)];
            let changed = diagonal.saturating_add(usize::from(*own != other));
            row[column.saturating_add(1)] =
                changed.min(above.saturating_add(1)).min(row[column].saturating_add(1));
            diagonal = above;
        }
    }
    row.last().copied().unwrap_or(0)
}
