//! Runs a command from a signal handler and captures its output.

use std::ffi::{c_char, CStr, CString};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;

use super::process::{self, Ended, Fork};
use super::{clock, fd, mem, process_vm};

/// Output of a child process, in a memory object: the child can write while this process is
/// stopped.
#[derive(Debug)]
pub struct Captured {
    fd: OwnedFd,
}

impl Captured {
    /// An empty one, which `/proc` shows as `name`.
    pub fn new(name: &CStr) -> Option<Self> {
        Some(Self {
            fd: mem::memfd(name).ok()?,
        })
    }

    /// The descriptor to write to.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Calls `each` with successive chunks until it returns true; returns whether it did. The last
    /// `overlap` bytes of each chunk are repeated at the start of the next.
    fn chunks(&self, overlap: usize, mut each: impl FnMut(&[u8]) -> bool) -> bool {
        let mut chunk = [0_u8; 4096];
        let mut offset = 0;
        loop {
            let count = rustix::io::pread(&self.fd, &mut chunk, offset).unwrap_or(0);
            if count == 0 || (offset > 0 && count <= overlap) {
                return false;
            }
            if each(&chunk[..count]) {
                return true;
            }
            offset += (count - overlap.min(count - 1)) as u64;
        }
    }

    /// Whether the output contains `text`.
    pub fn contains(&self, text: &[u8]) -> bool {
        self.chunks(text.len() - 1, |chunk| chunk.windows(text.len()).any(|w| w == text))
    }

    /// Writes the output to `fd`. Errors are ignored.
    pub fn copy_to(&self, fd: RawFd) {
        self.chunks(0, |chunk| {
            let _ = fd::write_all_now(fd, chunk);
            false
        });
    }

    /// Calls `each` with every line of the output. A line of more than 1000 bytes is split.
    pub fn each_line(&self, each: impl Fn(&[u8])) {
        let mut line = [0_u8; 1000];
        let mut used = 0;
        self.chunks(0, |chunk| {
            for &byte in chunk {
                if byte == b'\n' || used == line.len() {
                    each(&line[..used]);
                    used = 0;
                }
                if byte != b'\n' {
                    line[used] = byte;
                    used += 1;
                }
            }
            false
        });
        if used > 0 {
            each(&line[..used]);
        }
    }
}

/// Most words of a command, the last argument included.
const MAX_WORDS: usize = 15;

/// Runs `command` (with one more argument), which may trace this process, and captures its output
/// as `name`. None if it could not be started, failed, or ran longer than `limit_ms`.
/// Async-signal-safe.
pub fn run_captured(name: &CStr, command: &[CString], last: Option<&CStr>, limit_ms: u64) -> Option<Captured> {
    if command.len() >= MAX_WORDS {
        return None;
    }
    let mut words = [ptr::null::<c_char>(); MAX_WORDS + 1];
    let all = command.iter().map(CString::as_c_str).chain(last);
    for (slot, word) in words.iter_mut().zip(all) {
        *slot = word.as_ptr();
    }
    let output = Captured::new(name)?;
    process_vm::admit_any();
    // SAFETY: until exec, the child calls async-signal-safe functions only.
    match unsafe { process::fork() }.ok()? {
        Fork::Child => exec(&words, output.fd()),
        Fork::Parent(child) => succeeds(child, limit_ms).then_some(output),
    }
}

/// Replaces the child by the command, with its output in `fd`.
fn exec(words: &[*const c_char; MAX_WORDS + 1], fd: RawFd) -> ! {
    // SAFETY: a terminated path.
    let null = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) };
    for (from, to) in [(null, 0), (fd, 1), (null, 2)] {
        let _ = fd::replace(from, to);
    }
    // SAFETY: the array ends with a null pointer, and its strings outlive the call.
    unsafe { libc::execv(words[0], words.as_ptr()) };
    process::end(127)
}

/// Waits for a child; whether it exited with status 0 in time. A late child is killed.
fn succeeds(child: process::Pid, limit_ms: u64) -> bool {
    const STEP_MS: u64 = 10;
    let mut waited_ms = 0;
    loop {
        if let Some(ended) = process::reap(child) {
            return ended == Ended::Exited(0);
        }
        if waited_ms >= limit_ms {
            process::kill(child, libc::SIGKILL);
        }
        clock::sleep_ns(STEP_MS * 1_000_000);
        waited_ms += STEP_MS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: &[&str], last: Option<&CStr>, limit_ms: u64) -> Option<Captured> {
        let command: Vec<CString> = command.iter().map(|word| CString::new(*word).unwrap()).collect();
        run_captured(c"sys-test", &command, last, limit_ms)
    }

    #[test]
    fn captured_output() {
        let output = run(&["/bin/sh", "-c", "echo one two"], None, 20_000).unwrap();
        assert!(output.contains(b"one two"));
        assert!(!output.contains(b"three"));
        assert!(run(&["/bin/false"], None, 20_000).is_none());
        assert!(run(&["/bin/sleep"], Some(c"100"), 100).is_none());
    }

    #[test]
    fn long_lines_are_split() {
        let output = Captured::new(c"sys-test").unwrap();
        fd::write_all(output.fd(), &[b'x'; 5000]).unwrap();
        let lengths = std::cell::RefCell::new(Vec::new());
        output.each_line(|line| lengths.borrow_mut().push(line.len()));
        assert_eq!(lengths.into_inner(), [1000; 5]);
    }
}
