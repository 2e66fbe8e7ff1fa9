//! "Did you mean": the declared name nearest to an unknown one.
#![forbid(unsafe_code)]

/// Most edits of a name that a misspelling has.
const MISSPELT: usize = 2;

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

/// The declared name that is misspelt: nearest, with at most two edits after an equal first word.
/// Clients have names of their own, but few that begin with such a word.
pub fn misspelt<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word = first_word(name)?;
    let found = nearest(name, candidates.filter(|c| first_word(c) == Some(word)))?;
    (edits(name, found) <= MISSPELT).then_some(found)
}

/// The first of several words after `GASNET_`: mostly a conduit or a subject.
pub fn first_word(name: &str) -> Option<&str> {
    let (word, _) = name.strip_prefix("GASNET_")?.split_once('_')?;
    Some(word)
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

    #[test]
    fn misspellings() {
        let names = [
            "GASNET_IBV_PORTS",
            "GASNET_IBV_PORTS_TYPE",
            "GASNET_OFI_MAX_MEDIUM",
            "GASNET_SPAWNER",
        ];
        let misspelt = |name| misspelt(name, names.into_iter());
        assert_eq!(misspelt("GASNET_IBV_PORT"), Some("GASNET_IBV_PORTS"));
        assert_eq!(misspelt("GASNET_IBV_PORTTYPE"), Some("GASNET_IBV_PORTS_TYPE"));
        for other in [
            "GASNET_GNI_MAX_MEDIUM",
            "GASNET_IBV_PORTS_TIMES",
            "GASNET_IBV_POINTER",
            "GASNET_SPAWNE",
        ] {
            assert_eq!(misspelt(other), None, "{other}");
        }
    }
}
