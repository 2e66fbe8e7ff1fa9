//! Connect files: which processes are connected, as `GASNET_CONNECTFILE_IN` reads it and
//! `GASNET_CONNECTFILE_OUT` writes it. The manual of the ibv conduit has the format, under the
//! former.
#![forbid(unsafe_code)]

use gasnet_conduit::JobRank;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::ops::RangeInclusive;

/// The peers of a process by a file for a job of `size` processes: those in its own lines, and
/// those whose lines name it. The error names the line.
pub fn parse(text: &str, own: JobRank, size: u32) -> Result<BTreeSet<JobRank>, String> {
    let (mut base, mut peers) = (10, BTreeSet::new());
    for (line, number) in text.lines().zip(1..) {
        let wrong = |what: String| format!("line {number}: {what}");
        if line.trim().is_empty() {
            continue;
        }
        let (key, list) = line
            .split_once(':')
            .ok_or_else(|| wrong("a colon is expected after the first rank".to_owned()))?;
        let value = || list.trim().parse::<u32>();
        match key.trim() {
            "size" if value() == Ok(size) => {}
            "size" => {
                return Err(wrong(format!(
                    "the file is for {} processes, but the job has {size}",
                    list.trim()
                )))
            }
            "base" => match value() {
                Ok(value) if (2..=36).contains(&value) => base = value,
                _ => return Err(wrong("a base from 2 to 36 is expected".to_owned())),
            },
            node => {
                let node = rank(node, base, size).map_err(wrong)?;
                for word in list.split_whitespace() {
                    let mut named = range(word, base, size).map_err(wrong)?;
                    if node == own {
                        peers.extend(named);
                    } else if named.any(|named| named == own) {
                        peers.insert(node);
                    }
                }
            }
        }
    }
    peers.remove(&own);
    Ok(peers)
}

fn rank(text: &str, base: u32, size: u32) -> Result<JobRank, String> {
    match u32::from_str_radix(text, base) {
        Ok(rank) if rank < size => Ok(JobRank(rank)),
        Ok(rank) => Err(format!("there is no rank {rank} in a job of {size} processes")),
        Err(_) => Err(format!("\"{text}\" is no number in base {base}")),
    }
}

/// A rank, or a range of them.
fn range(text: &str, base: u32, size: u32) -> Result<impl Iterator<Item = JobRank>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let ranks: RangeInclusive<u32> = rank(first, base, size)?.0..=rank(last, base, size)?.0;
    if ranks.is_empty() {
        return Err(format!("\"{text}\" is an empty range"));
    }
    Ok(ranks.map(JobRank))
}

/// The text that a process writes: its line, and what is needed to read it. `peers` ascend.
pub fn format(own: JobRank, peers: &[JobRank], size: u32, base: u32) -> String {
    let digits = |rank: JobRank| in_base(rank.0, base);
    let mut text = format!("size: {size}\nbase: {base}\n");
    if peers.is_empty() {
        return text;
    }
    text += &digits(own);
    let mut separator = ':';
    for run in peers.chunk_by(|a, b| a.0 + 1 == b.0) {
        // Writing to a string does not fail.
        let _ = match run {
            [first, _, .., last] => write!(text, "{separator}{}-{}", digits(*first), digits(*last)),
            _ => run
                .iter()
                .zip([separator, ' '])
                .try_for_each(|(rank, before)| write!(text, "{before}{}", digits(*rank))),
        };
        separator = ' ';
    }
    text.push('\n');
    text
}

fn in_base(mut number: u32, base: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.extend(char::from_digit(number % base, base));
        number /= base;
        if number == 0 {
            return digits.into_iter().rev().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(text: &str, own: u32) -> Result<Vec<u32>, String> {
        let peers = parse(text, JobRank(own), 64)?;
        Ok(peers.into_iter().map(|rank| rank.0).collect())
    }

    #[test]
    fn the_examples_of_the_manual() {
        for text in [
            "7: 0 4 6\n",
            "7:0 4\n7:6\n",
            "7:6\n\n7:4 0",
            "base: 2\n111: 0 100 110\r\n",
        ] {
            assert_eq!(peers(text, 7), Ok(vec![0, 4, 6]), "{text}");
            assert_eq!(peers(text, 4), Ok(vec![7]), "{text}");
            assert_eq!(peers(text, 5), Ok(vec![]), "{text}");
        }
        assert_eq!(peers("6:9-12", 6), Ok(vec![9, 10, 11, 12]));
        assert_eq!(peers("6:9-12", 11), Ok(vec![6]));
        assert_eq!(peers("1:0\n0:1", 0), Ok(vec![1]));
        assert_eq!(peers("size: 64\nbase: 36\nz: 10 a-c", 35), Ok(vec![10, 11, 12, 36]));
        assert_eq!(peers("3: 0-5", 3), Ok(vec![0, 1, 2, 4, 5]));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, what) in [
            (
                "1: 2\nsize: 8",
                "line 2: the file is for 8 processes, but the job has 64",
            ),
            ("size: many", "for many processes"),
            ("base: 37", "from 2 to 36"),
            ("base:", "from 2 to 36"),
            ("base: 8\n1: 8", "line 2: \"8\" is no number in base 8"),
            ("1 2", "a colon"),
            ("1: 64", "no rank 64"),
            ("64: 1", "no rank 64"),
            ("1: 5-4", "an empty range"),
            ("1: 5-", "\"\" is no number"),
            ("1: -5", "\"\" is no number"),
            (": 5", "\"\" is no number"),
        ] {
            let why = peers(text, 0).unwrap_err();
            assert!(why.contains(what), "{text}: {why}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let ranks = |numbers: &[u32]| numbers.iter().copied().map(JobRank).collect::<Vec<_>>();
        assert_eq!(
            format(JobRank(35), &ranks(&[0, 1, 3, 4, 5, 10, 63]), 64, 36),
            "size: 64\nbase: 36\nz:0 1 3-5 a 1r\n"
        );
        assert_eq!(format(JobRank(5), &[], 64, 10), "size: 64\nbase: 10\n");
        for base in 2..=36 {
            let all = ranks(&[0, 2, 3, 5, 6, 7, 9, 40, 41, 42, 43, 63]);
            let text = format(JobRank(8), &all, 64, base);
            assert_eq!(
                parse(&text, JobRank(8), 64),
                Ok(all.iter().copied().collect()),
                "{text}"
            );
        }
    }
}
