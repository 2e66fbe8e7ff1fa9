//! The locks that each thread holds, for the checks of the debug build. The list has no destructor,
//! so locks work while a thread ends.

use std::cell::Cell;

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldMode {
    /// A mutex.
    Mutex,
    /// A reader/writer lock, shared.
    Read,
    /// A reader/writer lock, exclusively.
    Write,
}

/// Most locks recorded per thread.
const ROOM: usize = 64;

struct Held {
    locks: [Cell<Option<(usize, HoldMode)>>; ROOM],
    /// Number of held locks that did not fit. While there are any, a lock that is not listed may be
    /// held.
    more: Cell<usize>,
}

thread_local! {
    static HELD: Held = const { Held { locks: [const { Cell::new(None) }; ROOM], more: Cell::new(0) } };
}

/// How the calling thread holds the lock at `address`. `Err` if the list is incomplete.
pub fn mode(address: usize) -> Result<Option<HoldMode>, ()> {
    HELD.with(|held| {
        let found = held
            .locks
            .iter()
            .filter_map(Cell::get)
            .find(|(lock, _)| *lock == address);
        match found {
            Some((_, mode)) => Ok(Some(mode)),
            None if held.more.get() > 0 => Err(()),
            None => Ok(None),
        }
    })
}

/// Records that the calling thread acquired a lock.
pub fn acquired(address: usize, mode: HoldMode) {
    HELD.with(|held| match held.locks.iter().find(|slot| slot.get().is_none()) {
        Some(slot) => slot.set(Some((address, mode))),
        None => held.more.set(held.more.get() + 1),
    });
}

/// Records that the calling thread released a lock.
pub fn released(address: usize) {
    HELD.with(|held| {
        match held
            .locks
            .iter()
            .find(|slot| slot.get().is_some_and(|(lock, _)| lock == address))
        {
            Some(slot) => slot.set(None),
            None => held.more.set(held.more.get().saturating_sub(1)),
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_recorded_per_thread() {
        assert_eq!(mode(8), Ok(None));
        acquired(8, HoldMode::Mutex);
        acquired(16, HoldMode::Read);
        assert_eq!(mode(8), Ok(Some(HoldMode::Mutex)));
        assert_eq!(mode(16), Ok(Some(HoldMode::Read)));
        std::thread::spawn(|| assert_eq!(mode(8), Ok(None))).join().unwrap();
        released(8);
        assert_eq!(mode(8), Ok(None));
        for lock in 0..ROOM {
            acquired(1000 + lock, HoldMode::Write);
        }
        assert_eq!(mode(8), Err(()));
        released(1000 + ROOM - 1);
        assert_eq!(mode(8), Ok(None));
    }
}
