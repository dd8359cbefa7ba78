//! Suggestions: the known word that is nearest to a misspelled one.

/// Finds the candidate that `word` was probably meant to be.
pub fn find_nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = normalize(word);
    if word.is_empty() || word.len() > 64 {
        return None;
    }
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= 64)
        .map(|candidate| (edit_distance(&word, &normalize(candidate)), candidate))
        .filter(|(distance, candidate)| *distance <= max_distance(candidate.len()))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns ``did you mean `x`?``, or lists the candidates if none is near.
pub(crate) fn hint_for_word<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str> + Clone,
) -> Option<String> {
    if let Some(candidate) = find_nearest(word, candidates.clone()) {
        return Some(format!("did you mean `{candidate}`?"));
    }
    let all: Vec<&str> = candidates.into_iter().collect();
    match all.len() {
        0 => None,
        1 => Some(format!("there is {}", join_words(&all, "and"))),
        2..=12 => Some(format!("there are {}", join_words(&all, "and"))),
        _ => None,
    }
}

/// Joins words as in `` `a`, `b` and `c` ``, with `last` before the last one.
pub(crate) fn join_words(words: &[&str], last: &str) -> String {
    match words {
        [] => String::new(),
        [word] => format!("`{word}`"),
        [head @ .., word] => {
            let head: Vec<String> = head.iter().map(|word| format!("`{word}`")).collect();
            format!("{} {last} `{word}`", head.join(", "))
        }
    }
}

/// Returns how many edits still count as near for a word of this length.
fn max_distance(length: usize) -> usize {
    if length == 1 { 0 } else { (length / 3).clamp(1, 4) }
}

/// Removes case and word separators: the most common mistakes cost nothing.
fn normalize(word: &str) -> Vec<char> {
    word.chars().filter(|c| !matches!(c, '-' | '_' | ' ')).flat_map(char::to_lowercase).collect()
}

/// Counts the letters that must be added, removed, replaced or swapped with their neighbour.
fn edit_distance(a: &[char], b: &[char]) -> usize {
    let mut rows = [vec![0; b.len() + 1], (0..=b.len()).collect::<Vec<_>>(), vec![0; b.len() + 1]];
    for i in 1..=a.len() {
        rows[2][0] = i;
        for j in 1..=b.len() {
            let replaced = rows[1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(rows[1][j] + 1).min(rows[2][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[0][j - 2] + 1);
            }
            rows[2][j] = best;
        }
        rows.rotate_left(1);
    }
    rows[1][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_found_and_nothing_far_away() {
        let words = ["y", "timeout", "startTimeout", "needs", "retryStrategy", "if"];
        let cases = [
            ("timout", Some("timeout")),
            ("tiemout", Some("timeout")),
            ("start_timeout", Some("startTimeout")),
            ("RETRY-STRATEGY", Some("retryStrategy")),
            ("need", Some("needs")),
            ("fi", Some("if")),
            ("banana", None),
            ("x", None),
            ("", None),
        ];
        for (word, expected) in cases {
            assert_eq!(find_nearest(word, words), expected, "{word}");
        }
    }
}
