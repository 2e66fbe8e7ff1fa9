//! "Did you mean": the declared name nearest to an unknown one.
#![forbid(unsafe_code)]

/// The candidate with the fewest edits: at most one per four letters after `GASNET_`, and three in
/// all.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (name.len().saturating_sub("GASNET_".len()) / 4).clamp(1, 3);
    candidates
        .map(|c| (edits(name, c), c))
        .filter(|&(d, _)| d <= allowed)
        .min_by_key(|&(d, _)| d)
        .map(|(_, c)| c)
}

/// Damerau-Levenshtein distance: insertions, deletions, replacements and swaps of adjacent letters.
fn edits(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut before = Vec::new();
    let mut previous: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = previous[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(previous[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                let swapped: &Vec<usize> = &before;
                best = best.min(swapped[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut previous, row);
    }
    previous[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("abc", "abc"), 0);
        assert_eq!(edits("abcd", "abdc"), 1);
        assert_eq!(edits("ab", "ba"), 1);
        assert_eq!(edits("kitten", "sitting"), 3);
    }

    #[test]
    fn suggestions() {
        let names = ["GASNET_FREEZE", "GASNET_PSHM_NODES", "GASNET_MAX_SEGSIZE"];
        let suggest = |name| nearest(name, names.into_iter());
        assert_eq!(suggest("GASNET_PSHM_NODE"), Some("GASNET_PSHM_NODES"));
        assert_eq!(suggest("GASNET_MAXSEGSIZE"), Some("GASNET_MAX_SEGSIZE"));
        assert_eq!(suggest("GASNET_FREZE"), Some("GASNET_FREEZE"));
        assert_eq!(suggest("GASNET_CLIENT_SETTING"), None);
        // Six letters may have one edit.
        assert_eq!(suggest("GASNET_FREXZY"), None);
    }
}
