//! An exchange between hosts: the bytes of all ranks go up the tree, and come down put together.
#![forbid(unsafe_code)]

use super::super::map::Map;

/// The bytes of some hosts' ranks: host by host, and in each in the order of ranks.
pub type Parts = Vec<(u32, Vec<u8>)>;

/// The exchange that is under way in this part of the job.
#[derive(Debug, Default)]
pub struct Relay {
    round: Option<(u32, u32)>,
    parts: Parts,
}

/// An exchange of which all of this part of the job is there.
#[derive(Debug, PartialEq, Eq)]
pub struct Complete {
    /// Its number.
    pub round: u32,
    /// Bytes of each rank.
    pub length: u32,
    /// All of them.
    pub parts: Parts,
}

impl Relay {
    /// Some more hosts of `expected`. The error says that somebody does another exchange than the others.
    pub fn add(&mut self, round: u32, length: u32, parts: Parts, expected: usize) -> Result<Option<Complete>, String> {
        let (known_round, known_length) = *self.round.get_or_insert((round, length));
        if (known_round, known_length) != (round, length) {
            return Err(format!(
                "hosts do not agree: exchange {round} of {length} bytes met exchange {known_round} of {known_length}"
            ));
        }
        self.parts.extend(parts);
        if self.parts.len() < expected {
            return Ok(None);
        }
        self.round = None;
        let parts = std::mem::take(&mut self.parts);
        Ok(Some(Complete { round, length, parts }))
    }
}

/// What all ranks get: all bytes in the order of ranks. None unless each host is there once, with as many bytes as it has ranks.
pub fn assemble(map: &Map, length: usize, parts: &Parts) -> Option<Vec<u8>> {
    let mut by_host: Vec<Option<&[u8]>> = vec![None; map.hosts() as usize];
    for (host, bytes) in parts {
        let place = by_host.get_mut(*host as usize)?;
        if place.replace(bytes).is_some() {
            return None;
        }
    }
    let mut all = Vec::with_capacity(map.size() as usize * length);
    for run in map.runs() {
        let place = by_host[run.host as usize].as_mut()?;
        let (front, rest) = place.split_at_checked(run.count as usize * length)?;
        all.extend(front);
        *place = rest;
    }
    by_host.iter().all(|rest| rest.is_some_and(<[u8]>::is_empty)).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_in_any_order() {
        let map = Map::from_hosts(&[0, 0, 1, 0, 2], 0).unwrap();
        let mut relay = Relay::default();
        assert_eq!(relay.add(5, 2, vec![(2, vec![4, 4])], 3), Ok(None));
        assert_eq!(relay.add(5, 2, vec![(0, vec![0, 0, 1, 1, 3, 3])], 3), Ok(None));
        let complete = relay.add(5, 2, vec![(1, vec![2, 2])], 3).unwrap().unwrap();
        assert_eq!(assemble(&map, 2, &complete.parts).unwrap(), [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]);
        // The next may begin.
        assert!(relay.add(6, 0, vec![(0, vec![])], 3).unwrap().is_none());
        assert!(relay.add(7, 0, vec![(1, vec![])], 3).unwrap_err().contains("exchange 7"));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let map = Map::from_hosts(&[0, 1], 0).unwrap();
        for bad in [
            vec![(0, vec![1])],
            vec![(0, vec![1]), (0, vec![1])],
            vec![(0, vec![1]), (0, vec![1]), (1, vec![1])],
            vec![(0, vec![1]), (2, vec![1])],
            vec![(0, vec![1]), (1, vec![1, 1])],
            vec![(0, vec![1]), (1, vec![])],
        ] {
            assert_eq!(assemble(&map, 1, &bad), None, "{bad:?}");
        }
    }
}
