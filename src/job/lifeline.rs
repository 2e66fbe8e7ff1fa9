//! The socket between a rank and its supervisor, seen from the rank. The rank writes its exit code to it; the supervisor writes
//! nothing. When the supervisor is gone, however that happened, the kernel sends a signal that ends the rank, also while it computes.
//!
//! The signal is a real-time one: before its handler is there, and after a client has reset it, its default action ends the process
//! all the same.

use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

use crate::os::{fd, process, signal};

/// Exit status of a rank whose supervisor is gone. Nobody is left to look at it.
const ORPHANED: i32 = 1;

static OWN_END: AtomicI32 = AtomicI32::new(-1);

/// The signal that says that the other end is closed.
pub fn signal_number() -> i32 {
    signal::last() - 3
}

/// Arms this end in a new rank, whose signals are still held back.
pub fn attach(own_end: BorrowedFd<'_>) {
    use std::os::fd::AsRawFd;
    OWN_END.store(own_end.as_raw_fd(), Ordering::Relaxed);
    signal::handle(signal_number(), on_change, &[]);
    if let Err(e) = fd::signal_on_change(own_end, signal_number()) {
        eprintln!("gasnet: a rank cannot watch its supervisor: {e}");
        process::end(ORPHANED);
    }
}

/// Ends this rank if its supervisor is gone already. Changes before [`attach`] raised no signal. Async-signal-safe.
pub fn check(own_end: RawFd) {
    if fd::peer_is_gone(own_end) {
        process::end(ORPHANED);
    }
}

/// The state of the socket has changed; only its end matters.
extern "C" fn on_change(_signal: i32, _info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    check(OWN_END.load(Ordering::Relaxed));
}

/// The one message: "this rank is in exit, with this code". Async-signal-safe.
pub fn encode_exit(code: i32) -> [u8; 5] {
    let c = code.to_le_bytes();
    [b'E', c[0], c[1], c[2], c[3]]
}

/// The code in such a message.
pub fn decode_exit(message: &[u8]) -> Option<i32> {
    match message {
        [b'E', code @ ..] => code.try_into().ok().map(i32::from_le_bytes),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_travel() {
        for code in [0, 1, -1, 255, 256, i32::MAX, i32::MIN] {
            assert_eq!(decode_exit(&encode_exit(code)), Some(code));
        }
        for bad in [&b""[..], b"E", b"E1234567", b"X1234"] {
            assert_eq!(decode_exit(bad), None);
        }
    }
}
