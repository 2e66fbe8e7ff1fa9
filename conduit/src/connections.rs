//! Connections of this process, for `gasnet_info --attach`: conduits that connect peers note here
//! when a connection begins, and when it is up, and those that repair losses what they send again.
//! [`show`] gives the memory that tools read.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;

use crate::JobRank;
use gasnet_sys::atomic::Mutex;
use gasnet_sys::{clock, lock};

/// Words that tools read, zero at first.
#[repr(C)]
#[derive(Debug)]
pub struct ConnectionWords {
    /// Connections that are up.
    pub up: AtomicU32,
    /// The peer of the oldest one that is being made.
    pub peer: AtomicU32,
    /// Its begin, in nanoseconds of the monotonic clock; 0: none is being made.
    pub since: AtomicU64,
    /// Datagrams that were sent again.
    pub retransmissions: AtomicU64,
}

impl ConnectionWords {
    /// All zero.
    pub const fn new() -> Self {
        Self {
            up: AtomicU32::new(0),
            peer: AtomicU32::new(0),
            since: AtomicU64::new(0),
            retransmissions: AtomicU64::new(0),
        }
    }
}

impl Default for ConnectionWords {
    fn default() -> Self {
        Self::new()
    }
}

static WORDS: OnceLock<&ConnectionWords> = OnceLock::new();
/// Peers to which connections are being made, and since when; the oldest first.
static MAKING: Mutex<Vec<(JobRank, u64)>> = Mutex::new(Vec::new());

/// Shows the connections that are made from now on.
pub fn show(words: &'static ConnectionWords) {
    let _ = WORDS.set(words);
}

/// Begins a connection to a peer. No effect if that is being made.
#[cold]
pub fn begin(peer: JobRank) {
    change(|making| {
        if making.iter().all(|(other, _)| *other != peer) {
            making.push((peer, clock::monotonic_ns()));
        }
    });
}

/// Notes that the connection to a peer is no longer being made: it is up, or the peer is lost.
#[cold]
pub fn end(peer: JobRank) {
    change(|making| making.retain(|(other, _)| *other != peer));
}

/// Counts a connection that is up.
#[cold]
pub fn count() {
    if let Some(words) = WORDS.get() {
        words.up.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts datagrams that are sent again.
#[cold]
pub fn retransmit(datagrams: usize) {
    if let Some(words) = WORDS.get() {
        words.retransmissions.fetch_add(datagrams as u64, Ordering::Relaxed);
    }
}

fn change(edit: impl FnOnce(&mut Vec<(JobRank, u64)>)) {
    let Some(words) = WORDS.get() else { return };
    let mut making = lock(&MAKING);
    edit(&mut making);
    let (peer, since) = making.first().map_or((0, 0), |(peer, since)| (peer.0, *since));
    words.peer.store(peer, Ordering::Relaxed);
    words.since.store(since, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_connection_is_shown() {
        static SHOWN: ConnectionWords = ConnectionWords::new();
        let shown = || {
            let since = SHOWN.since.load(Ordering::Relaxed);
            (since != 0).then(|| (SHOWN.peer.load(Ordering::Relaxed), since))
        };
        begin(JobRank(9));
        show(&SHOWN);
        begin(JobRank(2));
        let first = shown();
        assert_eq!(first.map(|(peer, _)| peer), Some(2));
        begin(JobRank(1));
        begin(JobRank(2));
        assert_eq!(shown(), first);
        end(JobRank(2));
        assert_eq!(shown().map(|(peer, _)| peer), Some(1));
        end(JobRank(1));
        count();
        retransmit(3);
        let counts = (
            SHOWN.up.load(Ordering::Relaxed),
            SHOWN.retransmissions.load(Ordering::Relaxed),
        );
        assert_eq!((shown(), counts), (None, (1, 3)));
    }
}
