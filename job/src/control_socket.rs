//! The control socket between a rank and its node agent, as the rank sees it. The rank sends
//! messages; the agent sends nothing. When the agent dies for any reason, the kernel sends the rank
//! a signal that ends it, even while it computes.
//!
//! It is a real-time signal: before its handler is installed, and after a client has reset it, its
//! default action also ends the process.
//!
//! A client may close all descriptors, as daemons do, and open files that get their numbers. Then
//! the rank announces its exit in its status line, and only its parent's signals can end it.

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::OnceLock;

use super::control_block::RankStatus;
use gasnet_sys::{fd, process, signal};

/// Exit status of a rank whose node agent is dead. Nobody reads it.
const ORPHANED: i32 = 1;

static OWN_END: AtomicI32 = AtomicI32::new(-1);
/// The socket behind that number.
static SOCKET: OnceLock<Option<(u64, u64)>> = OnceLock::new();

/// The signal sent when the other end is closed.
pub fn signal_number() -> i32 {
    signal::last() - 3
}

/// Watches this end in a new rank, whose signals are still blocked.
pub fn attach(own_end: BorrowedFd<'_>) {
    SOCKET.get_or_init(|| fd::file_id(own_end.as_raw_fd()));
    OWN_END.store(own_end.as_raw_fd(), Ordering::Relaxed);
    signal::handle(signal_number(), on_change, &[]);
    if let Err(e) = fd::signal_on_change(own_end, signal_number()) {
        eprintln!("gasnet: a rank cannot watch its node agent: {e}");
        process::end(ORPHANED);
    }
}

/// Ends this rank if its node agent is already dead: changes before [`attach`] raised no signal.
/// Async-signal-safe.
pub fn check(own_end: RawFd) {
    if is_open(own_end) && fd::peer_is_gone(own_end) {
        process::end(ORPHANED);
    }
}

/// Whether the client has left this rank its end.
fn is_open(own_end: RawFd) -> bool {
    SOCKET.get().is_some_and(|socket| fd::file_id(own_end) == *socket)
}

/// Sends the node agent a message. A failure means that the agent has died, and that ends this
/// process by signal. Async-signal-safe.
pub fn send(own_end: RawFd, status: &RankStatus, message: RankMessage) {
    if is_open(own_end) {
        let _ = fd::send(own_end, &message.encode().to_ne_bytes());
    } else if matches!(message, RankMessage::Exit { .. }) {
        status.announcement.store(message.encode(), Ordering::Release);
    }
}

/// The announcement in a rank's status line, once.
pub fn announcement(status: &RankStatus) -> Option<RankMessage> {
    RankMessage::decode(status.announcement.swap(0, Ordering::Acquire))
}

/// The state of the socket has changed; only end-of-file matters.
extern "C" fn on_change(_signal: i32, _info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    check(OWN_END.load(Ordering::Relaxed));
}

/// Bits of a signal, or of the length of a part of an exchange, in the number of a message.
const HIGH: u32 = 0xff_ffff;

/// A message of a rank to its node agent: eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankMessage {
    /// The rank is in exit.
    Exit {
        code: i32,
        /// The signal that ended it; 0 if none.
        signal: i32,
    },
    /// A signal asked this rank to end while it was in exit.
    Asked { signal: i32 },
    /// All ranks of this host have written their part of an exchange with other hosts.
    Exchange {
        round: u32,
        /// Bytes of each rank.
        length: u32,
    },
}

impl RankMessage {
    /// The message as a number, which is not 0. Async-signal-safe.
    pub fn encode(self) -> u64 {
        let (kind, high, low) = match self {
            Self::Exit { code, signal } => (1_u64, signal as u32, code as u32),
            Self::Asked { signal } => (2, signal as u32, 0),
            Self::Exchange { round, length } => (3, length, round),
        };
        kind << 56 | u64::from(high & HIGH) << 32 | u64::from(low)
    }

    /// The message of a number, if it is one.
    pub fn decode(number: u64) -> Option<Self> {
        let (high, low) = ((number >> 32) as u32 & HIGH, number as u32);
        match number >> 56 {
            1 => Some(Self::Exit {
                code: low as i32,
                signal: high as i32,
            }),
            2 => Some(Self::Asked { signal: high as i32 }),
            3 => Some(Self::Exchange {
                round: low,
                length: high,
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::control_block::ControlBlock;
    use super::*;

    #[test]
    fn an_exit_without_socket_is_in_the_status_line() {
        let control = ControlBlock::create(1, 1, false).unwrap();
        let (ours, theirs) = fd::seqpacket_pair().unwrap();
        SOCKET.get_or_init(|| fd::file_id(theirs.as_raw_fd()));
        let message = RankMessage::Exit { code: -3, signal: 15 };
        send(theirs.as_raw_fd(), control.status(0), message);
        assert_eq!(announcement(control.status(0)), None);
        // Another file has its number.
        send(ours.as_raw_fd(), control.status(0), message);
        check(ours.as_raw_fd());
        assert_eq!(announcement(control.status(0)), Some(message));
        assert_eq!(announcement(control.status(0)), None);
        let mut bytes = [0; 16];
        assert_eq!(fd::receive(ours.as_raw_fd(), &mut bytes).ok(), Some(8));
        let number = u64::from_ne_bytes(bytes[..8].try_into().unwrap());
        assert_eq!(RankMessage::decode(number), Some(message));
    }

    #[test]
    fn messages_are_decoded() {
        let exit = [0, -1, 256, i32::MIN].map(|code| RankMessage::Exit { code, signal: 15 });
        let exchange = RankMessage::Exchange {
            round: u32::MAX,
            length: 4096,
        };
        for word in exit.into_iter().chain([RankMessage::Asked { signal: 15 }, exchange]) {
            assert_eq!(RankMessage::decode(word.encode()), Some(word));
        }
        for number in [0, 9, 4 << 56, u64::MAX] {
            assert_eq!(RankMessage::decode(number), None, "{number:x}");
        }
    }
}
