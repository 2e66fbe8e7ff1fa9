//! The statistics of a rank: a sequence of dumps, each of which counts from the last reset.

use std::collections::BTreeMap;

use super::line::Line;
use super::model::{Sums, CLASSES};

/// The contents of a dump.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// Messages and bytes by class and receiver.
    pub peers: BTreeMap<(usize, u32), [u64; 2]>,
    /// Messages by class and the lower bound of the size.
    pub sizes: BTreeMap<(usize, u64), u64>,
    /// Sums of bytes and of nanoseconds by letter of the category and kind.
    kinds: BTreeMap<(char, String), [Sums; 2]>,
}

/// The dumps of a rank: the sum of those before a reset, the last one, and whether a reset followed
/// it.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    before: Traffic,
    last: Traffic,
    reset: bool,
}

impl Traffic {
    fn merge(&mut self, other: &Self) {
        for (&key, cell) in &other.peers {
            let own = self.peers.entry(key).or_default();
            *own = [own[0] + cell[0], own[1].saturating_add(cell[1])];
        }
        for (&key, count) in &other.sizes {
            *self.sizes.entry(key).or_default() += count;
        }
        for (key, sums) in &other.kinds {
            let own = self.kinds.entry(key.clone()).or_default();
            own.iter_mut().zip(sums).for_each(|(own, sums)| own.merge(sums));
        }
    }

    /// Sections of reports, kinds of events and their sums.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, &str, &Sums)> {
        self.kinds.iter().filter_map(|((letter, kind), sums)| {
            let (section, which) = section(*letter, kind)?;
            Some((section, kind.as_str(), &sums[which]))
        })
    }
}

/// The section of a kind of event, and its unit: bytes (0) or time (1).
fn section(letter: char, kind: &str) -> Option<(&'static str, usize)> {
    Some(match letter {
        'P' => ("PUT", 0),
        'G' => ("GET", 0),
        'A' if kind.starts_with("RAN_") => ("HANDLER", 1),
        'A' => ("AM", 0),
        // COLL_DONE and BARRIER_DONE have the time.
        _ if kind.ends_with("_START") => return None,
        'R' => ("ATOMIC", 1),
        'B' => ("BARRIER", 1),
        'W' => ("COLL", 1),
        'S' => ("SYNC", 1),
        'L' => ("LOCK", 1),
        _ => return None,
    })
}

impl Statistics {
    /// Adds a line of statistics. Returns its peer, if it has one.
    pub fn take(&mut self, line: &Line<'_>) -> Result<Option<u32>, &'static str> {
        let class = || {
            CLASSES
                .iter()
                .position(|&c| Some(c) == line.get("class"))
                .ok_or("its class is unknown")
        };
        match line.name {
            "DUMP" => {
                let last = std::mem::take(&mut self.last);
                // Without a reset the next dump includes this one.
                if self.reset {
                    self.before.merge(&last);
                }
                self.reset = line.get("reset") == Some("1");
            }
            "STAT" => {
                let kind = line.get("kind").ok_or("it has no kind")?;
                let count = line.number("count").ok_or("it has no count")?;
                let sums = |key: &str| {
                    let number = |suffix: &str| line.number(&format!("{key}{suffix}")).unwrap_or(0);
                    Sums {
                        count,
                        total: number(""),
                        least: number("_min"),
                        most: number("_max"),
                    }
                };
                let key = (line.letter, kind.to_owned());
                self.last.kinds.insert(key, [sums("bytes"), sums("ns")]);
            }
            "PEER" => {
                let peer = line.peer()?;
                let cell = [line.number("count").unwrap_or(0), line.number("bytes").unwrap_or(0)];
                self.last.peers.insert((class()?, peer), cell);
                return Ok(Some(peer));
            }
            _ => {
                for pair in line.get("counts").unwrap_or("").split(',') {
                    let (from, count) = pair.split_once(':').ok_or("its sizes are not FROM:COUNT")?;
                    let from = from.parse().map_err(|_| "a size is not a number")?;
                    let count = count.parse().map_err(|_| "a count is not a number")?;
                    self.last.sizes.insert((class()?, from), count);
                }
            }
        }
        Ok(None)
    }

    /// The sum of all dumps.
    pub fn all(&self) -> Traffic {
        let mut all = self.before.clone();
        all.merge(&self.last);
        all
    }
}
