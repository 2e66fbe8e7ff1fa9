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
        let _ = fd::send(own_end, &message.encode());
    } else if let RankMessage::Exit { code, signal } = message {
        let word = ANNOUNCED | u64::from(signal as u8) << 32 | u64::from(code as u32);
        status.announcement.store(word, Ordering::Release);
    }
}

/// The bit that distinguishes an announcement in the status line from none.
const ANNOUNCED: u64 = 1 << 63;

/// The announcement in a rank's status line, once.
pub fn announcement(status: &RankStatus) -> Option<RankMessage> {
    let word = status.announcement.swap(0, Ordering::Acquire);
    (word & ANNOUNCED != 0).then(|| RankMessage::Exit {
        code: word as u32 as i32,
        signal: i32::from((word >> 32) as u8),
    })
}

/// The state of the socket has changed; only end-of-file matters.
extern "C" fn on_change(_signal: i32, _info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    check(OWN_END.load(Ordering::Relaxed));
}

/// A message of a rank to its node agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankMessage {
    /// The rank is in exit.
    Exit {
        code: i32,
        /// The signal that ended it; 0 if none.
        signal: i32,
    },
    /// A signal asked this rank to end while it was in exit.
    Asked {
        /// The signal.
        signal: i32,
    },
    /// All ranks of this host have written their part of an exchange with other hosts.
    Exchange {
        round: u32,
        /// Bytes of each rank.
        length: u32,
    },
}

impl RankMessage {
    /// The bytes of the message. Async-signal-safe.
    pub fn encode(self) -> [u8; 12] {
        let (kind, a, b) = match self {
            Self::Exit { code, signal } => (1, code as u32, signal as u32),
            Self::Asked { signal } => (2, signal as u32, 0),
            Self::Exchange { round, length } => (3, round, length),
        };
        let mut bytes = [0; 12];
        for (bytes, word) in bytes.chunks_exact_mut(4).zip([kind, a, b]) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The message in these bytes, if they are one.
    pub fn decode(message: &[u8]) -> Option<Self> {
        let message: &[u8; 12] = message.try_into().ok()?;
        let word = |i: usize| Some(u32::from_le_bytes(message.get(4 * i..4 * i + 4)?.try_into().ok()?));
        let (kind, a, b) = (word(0)?, word(1)?, word(2)?);
        match kind {
            1 => Some(Self::Exit {
                code: a as i32,
                signal: b as i32,
            }),
            2 => Some(Self::Asked { signal: a as i32 }),
            3 => Some(Self::Exchange { round: a, length: b }),
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
        assert_eq!(fd::receive(ours.as_raw_fd(), &mut bytes).ok(), Some(12));
        assert_eq!(RankMessage::decode(&bytes[..12]), Some(message));
    }

    #[test]
    fn messages_are_decoded() {
        let exit = [0, -1, 256, i32::MIN].map(|code| RankMessage::Exit { code, signal: 15 });
        let exchange = RankMessage::Exchange {
            round: u32::MAX,
            length: 4096,
        };
        for word in exit.into_iter().chain([RankMessage::Asked { signal: 15 }, exchange]) {
            let bytes = word.encode();
            assert_eq!(RankMessage::decode(&bytes), Some(word));
            assert_eq!(RankMessage::decode(&bytes[..11]), None);
        }
        assert_eq!(RankMessage::decode(&[9; 12]), None);
    }
}
