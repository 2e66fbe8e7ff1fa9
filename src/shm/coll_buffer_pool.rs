//! The mailboxes and staging areas of this process that no team has.
//!
//! Every process gives of its own memory, so that nothing about it is agreed upon: a member takes what it needs before a team is made, and tells
//! the others in the exchange that makes the team.

use crate::shm::coll_buffers;
use crate::shm::memory::CollBufferMemory;
use crate::shm::Comm;
use gasnet_sys::atomic::{Mutex, MutexGuard};

/// What a member gives to a team: a mailbox and perhaps a staging area, by numbers from 1 on; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollBufferId {
    inline: u16,
    staging: u16,
}

/// The primordial team's, everywhere.
const PRIMORDIAL: CollBufferId = CollBufferId { inline: 1, staging: 1 };

struct Free {
    inline_buffers: Vec<u16>,
    staging_buffers: Vec<u16>,
}

static FREE: Mutex<Option<Free>> = Mutex::new(None);

fn free() -> MutexGuard<'static, Option<Free>> {
    gasnet_sys::lock(&FREE)
}

impl CollBufferId {
    /// The lane of the primordial team, the same in all processes; all others become free.
    pub fn primordial(comm: &Comm) -> Self {
        let layout = comm.memory().layout();
        if layout.coll_buffers == 0 {
            return Self::default();
        }
        // The highest first, since the last is taken first.
        let numbers = |count: usize| (2..=count as u16).rev().collect();
        *free() = Some(Free {
            inline_buffers: numbers(layout.coll_buffers),
            staging_buffers: numbers(layout.staging_buffers()),
        });
        PRIMORDIAL
    }

    /// One that no team has, as a new team needs it; none if there is none.
    pub fn take(comm: &Comm) -> Self {
        let mut free = free();
        let Some(free) = free.as_mut() else { return Self::default() };
        let Some(inline) = free.inline_buffers.pop() else {
            return Self::default();
        };
        let staging = free.staging_buffers.pop().unwrap_or(0);
        let coll_buffer = Self { inline, staging };
        coll_buffers::clear(&coll_buffer.memory(comm, comm.me()));
        coll_buffer
    }

    /// Gives it back. Nobody looks at it any more.
    pub fn give_back(self) {
        let mut free = free();
        let Some(free) = free.as_mut() else { return };
        free.inline_buffers.extend((self.inline != 0).then_some(self.inline));
        free.staging_buffers.extend((self.staging != 0).then_some(self.staging));
    }

    /// As a word of a message.
    pub const fn pack(self) -> u32 {
        (self.inline as u32) << 16 | self.staging as u32
    }

    /// From such a word.
    pub const fn unpack(word: u32) -> Self {
        Self {
            inline: (word >> 16) as u16,
            staging: word as u16,
        }
    }

    /// Whether there is one.
    pub const fn is_some(self) -> bool {
        self.inline != 0
    }

    /// Whether it has a staging area.
    pub const fn has_staging(self) -> bool {
        self.staging != 0
    }

    /// Where it lies in what the neighbour at `place` gives. There must be one.
    pub fn memory(self, comm: &Comm, place: usize) -> CollBufferMemory {
        let layout = comm.memory().layout();
        let (inline, staging) = (usize::from(self.inline), usize::from(self.staging));
        if !(1..=layout.coll_buffers).contains(&inline) || staging > layout.staging_buffers() {
            fatal!(
                "neighbour {place} offers mailbox {inline} and staging area {staging}, which do not exist: its memory is corrupt"
            );
        }
        comm.memory().coll_buffer(place, inline - 1, staging.checked_sub(1))
    }
}
