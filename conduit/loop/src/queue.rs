//! The work queue: posted by the client, taken by the NIC, with limits small enough to be reached.
#![forbid(unsafe_code)]

use gasnet_conduit::{Busy, Class, Cookie, JobRank};

/// Most operations under way: posted, and their last completion not delivered yet.
const OPERATIONS: usize = 64;
/// Most packets of a class that the NIC has not sent.
const SENDS: usize = 32;
/// Most packets of a class that a peer has not delivered.
const CREDITS: u32 = 8;

/// Posted work.
#[derive(Debug)]
pub enum Work {
    Packet(JobRank, Class, Content),
    Operation(Operation),
    /// Enters a round of the barrier with these words.
    Barrier([u64; 2]),
    /// Writes the word of a peer with this index.
    Word(JobRank, usize, u64),
}

/// The bytes of a packet.
#[derive(Debug)]
pub enum Content {
    /// They were copied.
    Copied(Vec<u8>),
    /// Number of bytes that the NIC reads from the send buffer at this address.
    Reserved(usize, usize),
    /// A front that was copied, then address and number of the bytes that the NIC reads from the
    /// client's memory.
    Gathered(Vec<u8>, (usize, usize), Cookie),
}

/// Kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Put,
    Get,
    Atomic { dt: u32, op: u32, operands: [u64; 2] },
}

/// State of the source of a put.
#[derive(Debug)]
pub enum Source {
    /// It was copied.
    Copied(Vec<u8>),
    /// The NIC reads the client's memory.
    InUse,
    /// The NIC reads the send buffer at this address.
    Reserved(usize),
    /// The NIC has read it, and reports that after this number of passes.
    Due(usize),
    /// Local completion was reported.
    Reported,
}

/// An operation, at its initiator.
#[derive(Debug)]
pub struct Operation {
    pub kind: Kind,
    pub peer: JobRank,
    /// Names the remote memory to its NIC.
    pub key: u64,
    pub remote: usize,
    /// The NIC's address of the local side.
    pub local: usize,
    pub bytes: usize,
    pub cookie: Cookie,
    pub source: Source,
    /// The packet of a put with notification.
    pub notice: Option<(Class, Vec<u8>)>,
}

/// The work queue, and its limits.
#[derive(Debug)]
pub struct Queue {
    posted: Vec<Work>,
    operations: usize,
    /// By class.
    sends: [usize; 2],
    /// By peer and class.
    credits: Vec<[u32; 2]>,
    /// Packets that were delivered here, by peer and class, for which the peer has no credit yet.
    delivered: Vec<[u32; 2]>,
}

impl Queue {
    /// The queue of a process in a job of this size.
    pub fn new(size: usize) -> Self {
        Self {
            posted: Vec::new(),
            operations: 0,
            sends: [0; 2],
            credits: vec![[CREDITS; 2]; size],
            delivered: vec![[0; 2]; size],
        }
    }

    /// Posts a packet.
    pub fn send(&mut self, peer: JobRank, class: Class, content: impl FnOnce() -> Content) -> Result<(), Busy> {
        let index = class as usize;
        let credits = &mut self.credits[peer.index()][index];
        if *credits == 0 || self.sends[index] == SENDS {
            return Err(Busy);
        }
        *credits -= 1;
        self.sends[index] += 1;
        self.posted.push(Work::Packet(peer, class, content()));
        Ok(())
    }

    /// Posts an operation; with notification in a class.
    pub fn start(
        &mut self,
        peer: JobRank,
        class: Option<Class>,
        operation: impl FnOnce() -> Operation,
    ) -> Result<(), Busy> {
        let credits = &mut self.credits[peer.index()];
        if self.operations == OPERATIONS || class.is_some_and(|class| credits[class as usize] == 0) {
            return Err(Busy);
        }
        if let Some(class) = class {
            credits[class as usize] -= 1;
        }
        self.operations += 1;
        self.posted.push(Work::Operation(operation()));
        Ok(())
    }

    /// Posts work that needs no room.
    pub fn post(&mut self, work: Work) {
        self.posted.push(work);
    }

    /// Whether there is work for the NIC.
    pub fn has_work(&self) -> bool {
        !self.posted.is_empty() || self.delivered.iter().any(|counts| *counts != [0; 2])
    }

    /// NIC: takes the posted work.
    pub fn take(&mut self) -> Vec<Work> {
        std::mem::take(&mut self.posted)
    }

    /// NIC: a packet of this class is on its way.
    pub fn sent(&mut self, class: Class) {
        self.sends[class as usize] -= 1;
    }

    /// An operation is complete in every part.
    pub fn ended(&mut self) {
        self.operations -= 1;
    }

    /// A packet of the peer was delivered.
    pub fn delivered(&mut self, peer: JobRank, class: Class) {
        self.delivered[peer.index()][class as usize] += 1;
    }

    /// NIC: takes the credit that peers are due: peer, class, packets.
    pub fn take_credit(&mut self) -> Vec<(JobRank, Class, u32)> {
        let mut due = Vec::new();
        for (peer, counts) in self.delivered.iter_mut().enumerate() {
            for class in [Class::Request, Class::Reply] {
                let count = std::mem::take(&mut counts[class as usize]);
                if count > 0 {
                    due.push((JobRank(peer as u32), class, count));
                }
            }
        }
        due
    }

    /// NIC: a peer has delivered packets.
    pub fn credit(&mut self, peer: JobRank, class: Class, count: u32) {
        let credits = &mut self.credits[peer.index()][class as usize];
        *credits = (*credits + count).min(CREDITS);
    }
}
