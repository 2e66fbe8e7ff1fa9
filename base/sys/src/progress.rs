//! Whether a process can run: what `/proc` shows of its threads.

use std::ffi::{CStr, CString};
use std::fs::DirEntry;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};

use super::process::{self, Pid};

/// Times of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunTimes {
    /// Time on a processor, of all threads that it has had.
    pub ran: Duration,
    /// Time in which its present threads waited for one, up to the last time that they got it.
    pub queued: Duration,
    /// Whether one of them runs or waits for a processor now.
    pub is_runnable: bool,
}

fn threads(pid: Pid) -> impl Iterator<Item = DirEntry> {
    let folder = std::fs::read_dir(format!("/proc/{pid}/task"));
    folder.into_iter().flatten().flatten()
}

/// Reads the beginning of a file of `/proc`; empty if there is none. Async-signal-safe.
fn beginning<'a>(path: &CStr, text: &'a mut [u8]) -> &'a [u8] {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let length = file.and_then(|file| rustix::io::read(&file, &mut *text));
    &text[..length.unwrap_or(0)]
}

/// The times of a process; zero if the kernel does not count them.
pub fn run_times(pid: Pid) -> RunTimes {
    let numbers = threads(pid).filter_map(|thread| thread.file_name().to_str()?.parse::<Pid>().ok());
    let own = RunTimes {
        ran: processor_time(pid),
        ..RunTimes::default()
    };
    numbers.fold(own, |sum, thread| {
        let text = std::fs::read_to_string(format!("/proc/{thread}/schedstat")).unwrap_or_default();
        let queued = text.split_whitespace().nth(1).and_then(|word| word.parse().ok());
        RunTimes {
            queued: sum.queued + Duration::from_nanos(queued.unwrap_or(0)),
            is_runnable: sum.is_runnable || state_of(thread) == Some('R'),
            ..sum
        }
    })
}

/// Whether a process has children.
pub fn has_children(pid: Pid) -> bool {
    threads(pid)
        .map(|thread| std::fs::read(thread.path().join("children")))
        .any(|children| children.is_ok_and(|children| !children.is_empty()))
}

/// Time on a processor of all threads that a process has had: user and system time, in ticks.
fn processor_time(pid: Pid) -> Duration {
    /// Fields 14 and 15 of `/proc/PID/stat`; the state is field 3.
    const USER: usize = 11;
    let stat = process::stat(pid);
    let times = stat.get(USER..USER + 2).unwrap_or_default();
    let ticks: u64 = times.iter().filter_map(|word| word.parse::<u64>().ok()).sum();
    Duration::from_nanos(ticks * (1_000_000_000 / rustix::param::clock_ticks_per_second()))
}

/// Time in nanoseconds in which the main thread of this process waited for a processor; 0 if the
/// kernel does not count it. Async-signal-safe.
pub fn own_queued_ns() -> u64 {
    let mut room = [0; 64];
    let text = beginning(c"/proc/self/schedstat", &mut room);
    let mut numbers = text.split(|&byte| byte == b' ');
    let digits = numbers.nth(1).unwrap_or_default();
    digits.iter().fold(0, |sum: u64, digit| {
        sum.wrapping_mul(10).wrapping_add(u64::from(digit.wrapping_sub(b'0')))
    })
}

fn state_of(thread: Pid) -> Option<char> {
    process::stat(thread).first()?.chars().next()
}

/// Whether the main thread of a process waits uninterruptibly: for a disk, a file server, or memory
/// that was swapped out.
pub fn waits_for_device(pid: Pid) -> bool {
    state_of(pid) == Some('D')
}

/// Whether a debugger is attached to a process.
pub fn is_traced(pid: Pid) -> bool {
    CString::new(format!("/proc/{pid}/status")).is_ok_and(|path| has_tracer(&path))
}

/// Whether a debugger is attached to this process. Async-signal-safe.
pub fn is_own_traced() -> bool {
    has_tracer(c"/proc/self/status")
}

/// Whether this file of `/proc` names a tracer.
fn has_tracer(path: &CStr) -> bool {
    const FIELD: &[u8] = b"TracerPid:\t";
    // The field is the eighth line, and names are short.
    let mut room = [0; 1024];
    let text = beginning(path, &mut room);
    let at = text.windows(FIELD.len()).position(|part| part == FIELD);
    at.and_then(|at| text.get(at + FIELD.len()))
        .is_some_and(|&digit| digit != b'0')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_that_computes_has_run() {
        let mut child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let pid = child.id() as Pid;
        while run_times(pid).ran.is_zero() {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(run_times(pid), RunTimes::default());
    }

    #[test]
    fn nobody_traces_a_plain_process() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id() as Pid;
        // The program may still be read from the disk.
        while waits_for_device(pid) {
            std::thread::yield_now();
        }
        assert!(!is_traced(pid) && !is_traced(0));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!waits_for_device(pid));
    }
}
