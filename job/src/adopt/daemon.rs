//! Which process is the part of a process manager that has started a rank.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::fs;

use gasnet_sys::process::{self, Pid};

/// What a process manager says to each process. Scripts and shells between the two inherit it.
const MARKS: [&str; 5] = ["PMI_FD", "PMI_RANK", "PMI_ID", "PMIX_NAMESPACE", "PMIX_RANK"];
/// Scripts and shells between the two, at most.
const DEPTH: usize = 32;

/// The one that has started this process: the nearest forefather that was not told the same. None: it cannot be found, or does not end.
pub fn of_this() -> Option<Pid> {
    let own = marks(&fs::read("/proc/self/environ").ok()?);
    let mut pid = process::parent();
    for _ in 0..DEPTH {
        if own.is_empty() || pid <= 1 {
            return None;
        }
        // Another user's cannot be read.
        match fs::read(format!("/proc/{pid}/environ")) {
            Ok(environment) if marks(&environment) == own => pid = process::parent_of(pid)?,
            _ => return Some(pid),
        }
    }
    None
}

fn marks(environment: &[u8]) -> BTreeSet<Vec<u8>> {
    let is_mark = |entry: &&[u8]| {
        MARKS
            .iter()
            .any(|name| entry.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"=")))
    };
    environment
        .split(|&byte| byte == 0)
        .filter(is_mark)
        .map(<[u8]>::to_vec)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_whole_names() {
        let found = marks(b"PMI_RANK=3\0PMI_RANKS=4\0HOME=/\0PMI_RANK\0PMIX_RANK=\0");
        assert_eq!(found, BTreeSet::from([b"PMI_RANK=3".to_vec(), b"PMIX_RANK=".to_vec()]));
    }

    #[test]
    fn parents() {
        assert_eq!(process::parent_of(process::pid()), Some(process::parent()));
        assert_eq!(process::parent_of(0), None);
    }
}
