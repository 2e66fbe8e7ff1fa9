//! Operations of several posts: longer than a post, of memory that must be registered first, or
//! gets of which the ends are no whole words.
//!
//! The posts of a transfer follow one another, each when the one before is complete. If memory
//! cannot be registered, it is copied in pieces.

use crate::buffers::Bounce;
use crate::completion::CompletionAction;
use crate::ffi::{Local, PostDescriptor, Remote};
use crate::net::Net;
use crate::put_notify::Message;
use crate::rma::{copy, take_out, widened, PutKind, MOST};
use crate::settings::Flavour;
use gasnet_conduit::{Busy, Completion, Cookie, Get, JobRank, LocalMemory, Put};
use gasnet_conduit_util::report::{ParentOperation, Report};
use gasnet_gni_abi as abi;
use std::sync::Arc;

/// Most transfers that wait for room, beyond which it is the client that waits.
const STALLED: usize = 256;
/// Alignment of gets.
const WORD: usize = 4;

/// What is left of an operation.
#[derive(Debug)]
pub struct Transfer {
    pub is_get: bool,
    pub peer: JobRank,
    remote: Remote,
    local: LocalMemory,
    bytes: usize,
    domain: usize,
    way: Option<LocalAccess>,
    pub aim: PutKind,
    /// The message that follows.
    pub then: Option<Message>,
    /// The buffer that the client has filled.
    source: Option<Bounce>,
    report: Report,
}

/// How posts reach the local memory.
#[derive(Debug)]
enum LocalAccess {
    /// By the handle of its segment.
    InPlace(abi::gni_mem_handle_t),
    /// By a registration for this operation.
    Registered(abi::gni_mem_handle_t),
    /// In copies of pieces: the one under way, the bytes in front of it that are not wanted, and
    /// its length.
    Copied(Option<(Bounce, usize, usize)>),
}

impl Transfer {
    /// A put.
    pub fn put(put: &Put, remote: Remote, domain: usize, report: Report) -> Box<Self> {
        Box::new(Self {
            is_get: false,
            peer: put.to.peer,
            remote,
            local: put.from,
            bytes: put.bytes,
            domain,
            way: None,
            aim: PutKind::Put,
            then: None,
            source: None,
            report,
        })
    }

    /// The source lies at an address in a buffer, which is registered by this handle.
    pub fn use_buffer(&mut self, source: Bounce, address: usize, handle: abi::gni_mem_handle_t) {
        self.local.address = address;
        self.way = Some(LocalAccess::InPlace(handle));
        self.source = Some(source);
    }

    /// The parts of a put whose source is not copied.
    pub fn parts(&self) -> usize {
        self.bytes.div_ceil(MOST)
    }

    /// Without its first bytes.
    fn skip(&mut self, bytes: usize) {
        self.remote.address += bytes;
        self.local.address += bytes;
        self.bytes -= bytes;
    }

    /// A piece has arrived: what was read goes to its destination.
    fn take_piece(&mut self) -> Option<Bounce> {
        let Some(LocalAccess::Copied(piece)) = &mut self.way else {
            return None;
        };
        let (bounce, skip, bytes) = piece.take()?;
        if self.is_get {
            // SAFETY: the runtime keeps the destination writable until the operation is reported.
            unsafe { take_out(bounce.address(), skip, self.local.address, bytes) };
        }
        self.skip(bytes);
        Some(bounce)
    }
}

impl Net {
    /// Whether another transfer may begin.
    pub fn may_begin(&self) -> Result<(), Busy> {
        if self.stalled.len() < STALLED {
            Ok(())
        } else {
            Err(Busy)
        }
    }

    /// Starts a get: its whole words, and the ends by copies.
    pub fn begin_get(&self, get: &Get, remote: Remote, domain: usize) {
        let head = (remote.address.next_multiple_of(WORD) - remote.address).min(get.bytes);
        let needs_alignment = self.settings.flavour == Flavour::Gemini;
        // Where the words of both sides do not meet, Gemini gets all by copies.
        let all_copied = needs_alignment && (get.to.address + head) % WORD != 0;
        let tail = (get.bytes - head) % WORD;
        let parts = if all_copied {
            [(0, get.bytes, true), (0, 0, true), (0, 0, true)]
        } else {
            let middle = get.bytes - head - tail;
            [(0, head, true), (head, middle, false), (head + middle, tail, true)]
        };
        let parts = parts.into_iter().filter(|(_, bytes, _)| *bytes > 0);
        let whole = ParentOperation::new(parts.clone().count(), (get.cookie, Completion::Both));
        for (first, bytes, is_copied) in parts {
            let mut transfer = Box::new(Transfer {
                is_get: true,
                peer: get.from.peer,
                remote,
                local: get.to,
                bytes: first + bytes,
                domain,
                way: is_copied.then_some(LocalAccess::Copied(None)),
                aim: PutKind::Put,
                then: None,
                source: None,
                report: Report::Parent(Arc::clone(&whole)),
            });
            transfer.skip(first);
            self.begin(transfer);
        }
    }

    /// Starts a transfer.
    pub fn begin(&self, mut transfer: Box<Transfer>) {
        if transfer.way.is_none() {
            transfer.way = Some(self.find_way(&transfer));
        }
        self.resume(transfer);
    }

    /// How posts reach the local memory: in place, registered, or by copies.
    fn find_way(&self, transfer: &Transfer) -> LocalAccess {
        if let Some(handle) = self.segments.local(&transfer.local, transfer.domain) {
            return LocalAccess::InPlace(handle);
        }
        let range = (transfer.local.address, transfer.bytes);
        let (domains, domain) = (&self.domains, transfer.domain);
        // SAFETY: the runtime keeps the memory until the operation is complete.
        match unsafe { self.registrations.take(domains, domain, range, transfer.is_get) } {
            Ok(handle) => LocalAccess::Registered(handle),
            Err(_) => LocalAccess::Copied(None),
        }
    }

    /// Whether the source of a put is reached without copies, so that its parts can notify.
    pub fn prepare(&self, transfer: &mut Transfer) -> bool {
        let way = self.find_way(transfer);
        let can = !matches!(way, LocalAccess::Copied(_));
        transfer.way = Some(way);
        can
    }

    /// Posts the next part of a transfer, or lets it wait.
    fn resume(&self, transfer: Box<Transfer>) {
        let post = self.domains[transfer.domain].turn().take();
        match post {
            Some(post) => self.advance(post, transfer),
            None => self.stalled.push(transfer),
        }
    }

    /// Resumes transfers that wait.
    #[cold]
    pub fn restart(&self) {
        for transfer in self.stalled.take_all() {
            self.resume(transfer);
        }
    }

    /// Posts the next part.
    fn advance(&self, mut post: PostDescriptor, mut transfer: Box<Transfer>) {
        let domain = transfer.domain;
        let Some((local, remote, bytes)) = self.next_part(&mut transfer) else {
            self.domains[domain].turn().put_back(post);
            return self.stalled.push(transfer);
        };
        let (aim, is_get) = (transfer.aim, transfer.is_get);
        let (kind, modes) = if is_get {
            let by_fma = bytes <= self.settings.get_fma;
            let kind = if by_fma {
                abi::GNI_POST_FMA_GET
            } else {
                abi::GNI_POST_RDMA_GET
            };
            (kind, abi::GNI_CQMODE_GLOBAL_EVENT)
        } else {
            let by_fma = bytes <= self.settings.put_fma;
            let kind = if by_fma {
                abi::GNI_POST_FMA_PUT
            } else {
                abi::GNI_POST_RDMA_PUT
            };
            (kind, self.put_modes(aim, by_fma))
        };
        post.peer = transfer.peer;
        post.transfer(kind, modes, (local, remote), bytes);
        if !matches!(transfer.way, Some(LocalAccess::Copied(_))) {
            transfer.skip(bytes);
        }
        post.done = CompletionAction::Part(transfer);
        let mut turn = self.domains[domain].turn();
        // SAFETY: the runtime keeps the memory until the operation is reported, and pieces are kept
        // until they have arrived.
        unsafe { self.post(&mut turn, domain, post, aim.event()) };
    }

    /// What the next post transfers. None: it needs a buffer, and there is none.
    fn next_part(&self, transfer: &mut Transfer) -> Option<(Local, Remote, usize)> {
        let remote = transfer.remote;
        let address = transfer.local.address;
        match transfer.way.as_mut()? {
            LocalAccess::InPlace(handle) | LocalAccess::Registered(handle) => {
                let handle = *handle;
                Some((Local { address, handle }, remote, transfer.bytes.min(MOST)))
            }
            LocalAccess::Copied(piece) => {
                let bounce = self.bounces.take()?;
                let local = Local {
                    address: bounce.address(),
                    handle: self.bounces.handle(transfer.domain),
                };
                // Room for what a get reads in vain.
                let bytes = transfer.bytes.min(self.bounces.bytes() - 2 * WORD);
                if !transfer.is_get {
                    // SAFETY: the source, and a buffer of more bytes.
                    unsafe { copy(address, bounce.address(), bytes) };
                    *piece = Some((bounce, 0, bytes));
                    return Some((local, remote, bytes));
                }
                let (skip, read) = widened(remote.address, bytes);
                *piece = Some((bounce, skip, bytes));
                let mut remote = remote;
                remote.address -= skip;
                Some((local, remote, read))
            }
        }
    }

    /// A part is complete. Posts the next one, with the same post, or returns what is reported.
    pub fn advance_or_end(
        &self,
        post: PostDescriptor,
        mut transfer: Box<Transfer>,
    ) -> (Option<PostDescriptor>, Option<(Cookie, Completion)>) {
        self.bounces.give(transfer.take_piece());
        if transfer.bytes > 0 {
            self.advance(post, transfer);
            return (None, None);
        }
        if let Some(LocalAccess::Registered(handle)) = transfer.way {
            self.registrations.give(&self.domains, transfer.domain, handle);
        }
        self.bounces.give(transfer.source);
        let report = transfer.report.completed();
        if let Some(message) = transfer.then {
            self.messages.push(message);
        }
        (Some(post), report)
    }
}
