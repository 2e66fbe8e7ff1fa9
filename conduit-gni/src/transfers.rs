//! Operations of several posts: longer than a post, of memory that must be registered first, or
//! gets whose ends are no whole words. Here is what the next post of each transfers;
//! [`crate::rma`] posts it.
//!
//! The posts of a transfer follow one another, each when the one before is complete. If memory
//! cannot be registered, it is copied in pieces.

use crate::buffers::{give, Bounce, Bounces};
use crate::carrier::QueuedMessage;
use crate::ffi::{Domain, Extent, Local, Remote};
use crate::memory::registrations::MemoryUse;
use crate::memory::Memory;
use gasnet_conduit::{Completion, Cookie, Get, JobRank, LocalMemory, Put};
use gasnet_conduit_util::aligned_copy::copy_out;
use gasnet_conduit_util::report::{ParentOperation, Report};
use gasnet_gni_abi as abi;
use std::sync::Arc;

/// Largest post.
pub const MOST: usize = 0xffc0_0000;
/// Alignment of gets.
pub const WORD: usize = 4;

/// Purpose of a put.
#[derive(Clone, Copy, Debug)]
pub enum PutKind {
    /// Local and remote completion are reported.
    Put,
    /// Local completion is reported. The peer gets an event for each part.
    Notify(u32),
    /// Local completion is reported. A message follows.
    Payload,
}

impl PutKind {
    /// Events of its completion.
    #[inline]
    pub fn modes(self) -> u16 {
        match self {
            Self::Notify(_) => abi::GNI_CQMODE_GLOBAL_EVENT | abi::GNI_CQMODE_REMOTE_EVENT,
            _ => abi::GNI_CQMODE_GLOBAL_EVENT,
        }
    }

    /// The event at the peer.
    #[inline]
    pub fn event(self) -> Option<u32> {
        match self {
            Self::Notify(event) => Some(event),
            _ => None,
        }
    }
}

/// An operation under way, without the parts that are complete.
#[derive(Debug)]
pub struct Transfer {
    pub is_get: bool,
    pub peer: JobRank,
    pub domain: usize,
    pub kind: PutKind,
    /// The message that follows.
    pub then: Option<QueuedMessage>,
    remote: Remote,
    local: LocalMemory,
    bytes: usize,
    access: Option<LocalAccess>,
    /// The buffer that the client has filled.
    source: Option<Bounce>,
    report: Report,
}

/// Access of posts to the local memory.
#[derive(Debug)]
enum LocalAccess {
    /// By the handle of its segment.
    InPlace(abi::gni_mem_handle_t),
    /// By a registration for this operation.
    Registered(abi::gni_mem_handle_t),
    /// In copies of pieces: the one under way.
    Copied(Option<Piece>),
}

/// A piece of a transfer in a buffer.
#[derive(Debug)]
struct Piece {
    bounce: Bounce,
    /// Bytes in front that are not wanted.
    skip: usize,
    bytes: usize,
}

/// A transfer is complete: its report, and the message that follows.
pub struct Ended {
    pub report: Option<(Cookie, Completion)>,
    pub then: Option<QueuedMessage>,
}

impl Transfer {
    /// A put.
    pub fn put(put: &Put, remote: Remote, domain: usize, report: Report) -> Box<Self> {
        Box::new(Self {
            is_get: false,
            peer: put.to.peer,
            domain,
            kind: PutKind::Put,
            then: None,
            remote,
            local: put.from,
            bytes: put.bytes,
            access: None,
            source: None,
            report,
        })
    }

    /// A get: its whole words, and the ends by copies. All by copies, if the words of both sides do
    /// not meet, and the NIC needs that.
    pub fn get(get: &Get, remote: Remote, domain: usize, needs_alignment: bool) -> impl Iterator<Item = Box<Self>> {
        let head = (remote.address.next_multiple_of(WORD) - remote.address).min(get.bytes);
        let all_copied = needs_alignment && (get.to.address + head) % WORD != 0;
        let tail = (get.bytes - head) % WORD;
        let parts = if all_copied {
            [(0, get.bytes, true), (0, 0, true), (0, 0, true)]
        } else {
            let middle = get.bytes - head - tail;
            [(0, head, true), (head, middle, false), (head + middle, tail, true)]
        };
        let parts = parts.into_iter().filter(|(_, bytes, _)| *bytes > 0);
        let parent = ParentOperation::new(parts.clone().count(), (get.cookie, Completion::Both));
        let (peer, local) = (get.from.peer, get.to);
        parts.map(move |(first, bytes, is_copied)| {
            let mut transfer = Box::new(Self {
                is_get: true,
                peer,
                domain,
                kind: PutKind::Put,
                then: None,
                remote,
                local,
                bytes: first + bytes,
                access: is_copied.then_some(LocalAccess::Copied(None)),
                source: None,
                report: Report::Parent(Arc::clone(&parent)),
            });
            transfer.skip(first);
            transfer
        })
    }

    /// The source lies at an address in a buffer, which is registered by this handle.
    pub fn use_buffer(&mut self, source: Bounce, address: usize, handle: abi::gni_mem_handle_t) {
        self.local.address = address;
        self.access = Some(LocalAccess::InPlace(handle));
        self.source = Some(source);
    }

    /// The parts of a put whose source is not copied.
    pub fn parts(&self) -> usize {
        self.bytes.div_ceil(MOST)
    }

    /// Chooses the access to the local memory: in place, registered, or by copies. Returns whether
    /// it is without copies, so that the parts of a put can notify.
    pub fn choose_access<A>(&mut self, memory: &Memory, domains: &[Domain<A>]) -> bool {
        let access = self.access.take().unwrap_or_else(|| self.find_access(memory, domains));
        let is_direct = !matches!(access, LocalAccess::Copied(_));
        self.access = Some(access);
        is_direct
    }

    fn find_access<A>(&self, memory: &Memory, domains: &[Domain<A>]) -> LocalAccess {
        if let Some(handle) = memory.local(&self.local, self.domain) {
            return LocalAccess::InPlace(handle);
        }
        let wanted = MemoryUse {
            domain: self.domain,
            address: self.local.address,
            bytes: self.bytes,
            is_written: self.is_get,
        };
        // SAFETY: the runtime keeps the memory until the operation is complete.
        match unsafe { memory.registrations.take(domains, wanted) } {
            Ok(handle) => LocalAccess::Registered(handle),
            Err(_) => LocalAccess::Copied(None),
        }
    }

    /// Without its first bytes.
    fn skip(&mut self, bytes: usize) {
        self.remote.address += bytes;
        self.local.address += bytes;
        self.bytes -= bytes;
    }

    /// The next post. None: it needs a buffer, and there is none.
    pub fn next_part(&mut self, buffers: &Bounces) -> Option<Extent> {
        let (remote, address) = (self.remote, self.local.address);
        match self.access.as_mut()? {
            LocalAccess::InPlace(handle) | LocalAccess::Registered(handle) => {
                let (handle, bytes) = (*handle, self.bytes.min(MOST));
                self.skip(bytes);
                let local = Local { address, handle };
                Some(Extent { local, remote, bytes })
            }
            LocalAccess::Copied(piece) => {
                let bounce = buffers.pool.take()?;
                let local = Local {
                    address: bounce.address(),
                    handle: buffers.handle(self.domain),
                };
                // Room for what a get reads in vain.
                let bytes = self.bytes.min(buffers.pool.bytes() - 2 * WORD);
                if !self.is_get {
                    // SAFETY: the source, and a buffer of more bytes.
                    unsafe { copy(address, bounce.address(), bytes) };
                    let skip = 0;
                    *piece = Some(Piece { bounce, skip, bytes });
                    return Some(Extent { local, remote, bytes });
                }
                let (skip, read) = widened(remote.address, bytes);
                *piece = Some(Piece { bounce, skip, bytes });
                let address = remote.address - skip;
                Some(Extent {
                    local,
                    remote: Remote { address, ..remote },
                    bytes: read,
                })
            }
        }
    }

    /// A part is complete. Returns whether there are more.
    pub fn end_part(&mut self) -> bool {
        give(self.take_piece());
        self.bytes > 0
    }

    /// A piece has arrived: what was read goes to its destination.
    fn take_piece(&mut self) -> Option<Bounce> {
        let Some(LocalAccess::Copied(piece)) = &mut self.access else {
            return None;
        };
        let Piece { bounce, skip, bytes } = piece.take()?;
        if self.is_get {
            // SAFETY: the runtime keeps the destination writable until the operation is reported.
            unsafe { take_out(bounce.address(), skip, self.local.address, bytes) };
        }
        self.skip(bytes);
        Some(bounce)
    }

    /// All parts are complete.
    pub fn end<A>(self, memory: &Memory, domains: &[Domain<A>]) -> Ended {
        if let Some(LocalAccess::Registered(handle)) = self.access {
            memory.registrations.give(domains, self.domain, handle);
        }
        give(self.source);
        Ended {
            report: self.report.completed(),
            then: self.then,
        }
    }
}

/// Bytes in front that a widened get reads in vain, and all that it reads.
#[inline]
pub fn widened(address: usize, bytes: usize) -> (usize, usize) {
    let skip = address % WORD;
    (skip, (skip + bytes).next_multiple_of(WORD))
}

/// Copies the source of a put.
///
/// # Safety
/// Both are `bytes` bytes long, and do not overlap.
#[inline]
pub unsafe fn copy(from: usize, to: usize, bytes: usize) {
    // SAFETY: by contract.
    unsafe { (to as *mut u8).copy_from_nonoverlapping(from as *const u8, bytes) };
}

/// Copies what was read, without what is in front of it, to where it belongs.
///
/// # Safety
/// `from` is aligned as for [`copy_out`], and both are long enough.
#[inline]
pub unsafe fn take_out(from: usize, skip: usize, to: usize, bytes: usize) {
    // SAFETY: by contract.
    unsafe {
        if skip == 0 {
            copy_out(from, to, bytes);
        } else {
            copy(from + skip, to, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gets_are_widened_to_words() {
        let cases = [
            ((0x1000, 4), (0, 4)),
            ((0x1001, 1), (1, 4)),
            ((0x1003, 2), (3, 8)),
            ((0x1002, 6), (2, 8)),
            ((0x1001, 8), (1, 12)),
        ];
        for ((address, bytes), expected) in cases {
            assert_eq!(widened(address, bytes), expected);
        }
    }
}
