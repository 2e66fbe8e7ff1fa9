//! The rank of this process, and its messages on standard error.

use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU32, Ordering};

use gasnet_sys::fd;

const NO_RANK: u32 = u32::MAX;

// Written once at start-up; readers need no ordering.
static RANK: AtomicU32 = AtomicU32::new(NO_RANK);
static SIZE: AtomicU32 = AtomicU32::new(1);

/// Sets the rank of this process and the size of the job. Call it as soon as they are known.
pub fn set_proc(rank: u32, size: u32) {
    RANK.store(rank, Ordering::Relaxed);
    SIZE.store(size, Ordering::Relaxed);
}

/// Rank in the job, if there is a job.
pub fn rank() -> Option<u32> {
    let rank = RANK.load(Ordering::Relaxed);
    (rank != NO_RANK).then_some(rank)
}

/// Number of processes in the job; 1 without a job.
pub fn size() -> u32 {
    SIZE.load(Ordering::Relaxed)
}

/// How messages name this process: `proc R` in a job, else `pid P`.
#[derive(Clone, Copy, Debug)]
pub struct Label;

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match rank() {
            Some(rank) => write!(f, "proc {rank}"),
            None => write!(f, "pid {}", gasnet_sys::process::pid()),
        }
    }
}

/// Whether a list of ranks such as `0,2-4,6` includes this process. `*` and an empty list include
/// all.
pub fn listed(list: &str) -> bool {
    let list = list.trim();
    let me = rank().unwrap_or(0);
    list.is_empty()
        || list.split(',').map(str::trim).any(|item| {
            let mut ends = item.splitn(2, '-').map(|end| end.trim().parse::<u32>());
            match (ends.next(), ends.next()) {
                _ if item == "*" => true,
                (Some(Ok(one)), None) => one == me,
                (Some(Ok(first)), Some(Ok(last))) => (first..=last).contains(&me),
                _ => false,
            }
        })
}

/// A line in fixed memory, for places that must not allocate (fatal errors, signal handlers).
struct Line {
    bytes: [u8; 6000],
    used: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.len() - 1 - self.used;
        let take = text.len().min(room);
        self.bytes[self.used..self.used + take].copy_from_slice(&text.as_bytes()[..take]);
        self.used += take;
        Ok(())
    }
}

/// Writes one line to `fd` in one system call, so that lines of several processes do not mix.
/// Errors are ignored.
pub fn print_line_to(fd: i32, text: fmt::Arguments<'_>) {
    let mut line = Line {
        bytes: [0; 6000],
        used: 0,
    };
    // Line::write_str cannot fail; a value that fails to format leaves the text before it.
    let _ = line.write_fmt(text);
    line.bytes[line.used] = b'\n';
    let _ = fd::write_all_now(fd, &line.bytes[..=line.used]);
}

/// Writes one line to standard error.
pub fn print_line(text: fmt::Arguments<'_>) {
    print_line_to(2, text);
}

/// Writes a warning to standard error.
pub fn warn(text: fmt::Arguments<'_>) {
    print_line(format_args!("*** WARNING ({Label}): {text}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_lists() {
        // No job: the process counts as rank 0.
        assert!(listed(""));
        assert!(listed("*"));
        assert!(listed("0,2-4"));
        assert!(listed("5, 0-1"));
        assert!(!listed("1-3,7"));
        assert!(!listed("x"));
    }

    #[test]
    fn a_line_that_is_too_long_is_cut() {
        let mut line = Line {
            bytes: [0; 6000],
            used: 0,
        };
        write!(line, "{}", "x".repeat(10_000)).unwrap();
        assert_eq!(line.used, 5999);
    }
}
