//! The mailboxes and staging areas of this process that no team has.
//!
//! Every process gives of its own memory, so that nothing about it is agreed upon: a member takes what it needs before a team is made, and tells
//! the others in the exchange that makes the team.

use crate::shm::coll_buffers;
use crate::shm::memory::LaneMemory;
use crate::shm::Comm;
use gasnet_sys::atomic::{Mutex, MutexGuard};

/// What a member gives to a team: a mailbox and perhaps a staging area, by numbers from 1 on; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lane {
    mailbox: u16,
    staging: u16,
}

/// The primordial team's, everywhere.
const FIRST: Lane = Lane { mailbox: 1, staging: 1 };

struct Free {
    mailboxes: Vec<u16>,
    stagings: Vec<u16>,
}

static FREE: Mutex<Option<Free>> = Mutex::new(None);

fn free() -> MutexGuard<'static, Option<Free>> {
    gasnet_sys::lock(&FREE)
}

impl Lane {
    /// The lane of the primordial team, the same in all processes; all others become free.
    pub fn first(comm: &Comm) -> Self {
        let layout = comm.memory().layout();
        if layout.mailboxes == 0 {
            return Self::default();
        }
        // The highest first, since the last is taken first.
        let numbers = |count: usize| (2..=count as u16).rev().collect();
        *free() = Some(Free {
            mailboxes: numbers(layout.mailboxes),
            stagings: numbers(layout.stagings()),
        });
        FIRST
    }

    /// One that no team has, as a new team needs it; none if there is none.
    pub fn take(comm: &Comm) -> Self {
        let mut free = free();
        let Some(free) = free.as_mut() else { return Self::default() };
        let Some(mailbox) = free.mailboxes.pop() else {
            return Self::default();
        };
        let staging = free.stagings.pop().unwrap_or(0);
        let lane = Self { mailbox, staging };
        coll_buffers::clear(&lane.memory(comm, comm.me()));
        lane
    }

    /// Gives it back. Nobody looks at it any more.
    pub fn give_back(self) {
        let mut free = free();
        let Some(free) = free.as_mut() else { return };
        free.mailboxes.extend((self.mailbox != 0).then_some(self.mailbox));
        free.stagings.extend((self.staging != 0).then_some(self.staging));
    }

    /// As a word of a message.
    pub const fn pack(self) -> u32 {
        (self.mailbox as u32) << 16 | self.staging as u32
    }

    /// From such a word.
    pub const fn unpack(word: u32) -> Self {
        Self {
            mailbox: (word >> 16) as u16,
            staging: word as u16,
        }
    }

    /// Whether there is one.
    pub const fn is_some(self) -> bool {
        self.mailbox != 0
    }

    /// Whether it has a staging area.
    pub const fn is_staged(self) -> bool {
        self.staging != 0
    }

    /// Where it lies in what the neighbour at `place` gives. There must be one.
    pub fn memory(self, comm: &Comm, place: usize) -> LaneMemory {
        let layout = comm.memory().layout();
        let (mailbox, staging) = (usize::from(self.mailbox), usize::from(self.staging));
        if !(1..=layout.mailboxes).contains(&mailbox) || staging > layout.stagings() {
            fatal!(
                "neighbour {place} offers mailbox {mailbox} and staging area {staging}, which do not exist: its memory is corrupt"
            );
        }
        comm.memory().lane(place, mailbox - 1, staging.checked_sub(1))
    }
}
