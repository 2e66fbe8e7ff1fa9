//! Puts and gets.
//!
//! Short ones go by FMA, to which the CPU writes the data of a put, longer ones by the block
//! transfer engine, which needs registered memory at both ends. Memory outside segments is copied
//! through a buffer if it is small; else it is registered for the operation ([`crate::transfers`]).
//!
//! Gets read multiples of four bytes at such addresses, so that others are widened, and what is not
//! wanted is left out.

use crate::buffers::Bounce;
use crate::completion::CompletionAction;
use crate::ffi::{Local, PostDescriptor, Remote, INLINE};
use crate::net::Net;
use crate::settings::Flavour;
use crate::transfers::Transfer;
use gasnet_conduit::{Busy, Completion, Get, LocalCompletion, Put, RemoteMemory, Rma, SourceUse};
use gasnet_conduit_util::aligned_copy::copy_out;
use gasnet_conduit_util::report::Report;
use gasnet_gni_abi as abi;
use gasnet_sys::atomic::Ordering;
use std::cell::Cell;
use std::sync::atomic::AtomicUsize;

/// Largest post.
pub const MOST: usize = 0xffc0_0000;
/// Alignment of gets.
const WORD: usize = 4;

/// What a put is for.
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
    /// What completes.
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

/// Where a post reads the source of a put.
struct Source {
    local: Local,
    /// The buffer that it lies in.
    bounce: Option<Bounce>,
    /// Whether the client may not change it yet.
    is_in_use: bool,
}

/// What a put lacks.
enum NoResource {
    /// A buffer, for now.
    Buffer,
    /// A post cannot do it: it is too long, or its source must be registered.
    Handle,
}

/// Bytes in front that a widened get reads in vain, and all that it reads.
#[inline]
pub fn widened(address: usize, bytes: usize) -> (usize, usize) {
    let skip = address % WORD;
    (skip, (skip + bytes).next_multiple_of(WORD))
}

impl Net {
    /// The domain of this thread.
    #[inline]
    pub fn domain_of_thread(&self) -> usize {
        if self.domains.len() == 1 {
            return 0;
        }
        self.assigned_domain()
    }

    fn assigned_domain(&self) -> usize {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
        }
        let number = NUMBER.get().unwrap_or_else(|| {
            let number = THREADS.fetch_add(1, Ordering::Relaxed);
            NUMBER.set(Some(number));
            number
        });
        number / self.settings.threads_per_domain % self.domains.len()
    }

    /// The remote side of an operation.
    #[inline]
    pub fn remote(&self, memory: &RemoteMemory) -> Remote {
        Remote {
            address: memory.address,
            handle: self.segments.remote(memory),
        }
    }

    #[inline]
    fn is_gemini(&self) -> bool {
        self.settings.flavour == Flavour::Gemini
    }

    /// What completes of a put.
    #[inline]
    pub fn put_modes(&self, aim: PutKind, by_fma: bool) -> u16 {
        if by_fma && self.settings.flushes_by_events() {
            aim.modes() | abi::GNI_CQMODE_REMOTE_EVENT
        } else {
            aim.modes()
        }
    }

    /// Where a post reads the source of a put, which may lie in a buffer that the client has
    /// filled.
    #[inline]
    fn source(
        &self,
        put: &Put,
        filled: Option<Bounce>,
        domain: usize,
        post: &mut PostDescriptor,
    ) -> Result<Source, NoResource> {
        let by_fma = put.bytes <= self.settings.put_fma;
        let own = self.segments.local(&put.from, domain);
        let of_bounce = |address, bounce| {
            let handle = self.bounces.handle(domain);
            Source {
                local: Local { address, handle },
                bounce: Some(bounce),
                is_in_use: false,
            }
        };
        if let Some(bounce) = filled {
            return Ok(of_bounce(put.from.address, bounce));
        }
        let address = put.from.address;
        let none = abi::gni_mem_handle_t::default();
        if by_fma && (put.bytes <= INLINE || self.is_gemini()) {
            // Gemini has read the source when the post returns.
            let mut address = address;
            if put.bytes <= INLINE {
                // SAFETY: the source, and inline memory of at least as many bytes.
                unsafe { copy(address, post.inline_address(), put.bytes) };
                address = post.inline_address();
            }
            return Ok(Source {
                local: Local { address, handle: none },
                bounce: None,
                is_in_use: false,
            });
        }
        if self.copies(put) && (put.source == SourceUse::Now || own.is_none() && !by_fma) {
            let bounce = self.bounces.take().ok_or(NoResource::Buffer)?;
            // SAFETY: the source, and a buffer of at least as many bytes.
            unsafe { copy(address, bounce.address(), put.bytes) };
            return Ok(of_bounce(bounce.address(), bounce));
        }
        match own.or(by_fma.then_some(none)) {
            Some(handle) if put.bytes <= MOST => Ok(Source {
                local: Local { address, handle },
                bounce: None,
                is_in_use: true,
            }),
            _ => Err(NoResource::Handle),
        }
    }

    /// Starts a put, maybe from a buffer that the client has filled.
    #[inline]
    pub fn start_put(
        &self,
        put: &Put,
        filled: Option<Bounce>,
        domain: usize,
        aim: PutKind,
    ) -> Result<LocalCompletion, Busy> {
        if self.may_send(put.to.peer) != Some(true) {
            return Err(Busy);
        }
        let was_filled = filled.is_some();
        let mut turn = self.domains[domain].turn();
        let Some(mut post) = turn.take() else { return Err(Busy) };
        let source = match self.source(put, filled, domain, &mut post) {
            Ok(source) => source,
            Err(short) => {
                turn.put_back(post);
                drop(turn);
                return match short {
                    NoResource::Buffer => Err(Busy),
                    NoResource::Handle => self.start_long_put(put, domain, aim),
                };
            }
        };
        let Source {
            local,
            bounce,
            is_in_use,
        } = source;
        let by_fma = put.bytes <= self.settings.put_fma;
        let is_early = is_in_use && put.source == SourceUse::Now && !by_fma && matches!(aim, PutKind::Put);
        let mut modes = self.put_modes(aim, by_fma);
        if is_early {
            modes |= abi::GNI_CQMODE_LOCAL_EVENT;
        }
        let kind = if by_fma {
            abi::GNI_POST_FMA_PUT
        } else {
            abi::GNI_POST_RDMA_PUT
        };
        post.peer = put.to.peer;
        post.transfer(kind, modes, (local, self.remote(&put.to)), put.bytes);
        post.done = match aim {
            PutKind::Put => CompletionAction::Put(put.cookie, bounce, is_in_use),
            _ if is_in_use => CompletionAction::Source(put.cookie),
            _ => CompletionAction::Reply(bounce),
        };
        // SAFETY: the runtime keeps the source until local completion; copies are kept until then.
        if let Err(mut post) = unsafe { self.try_post(&mut turn, post, aim.event()) } {
            if let CompletionAction::Put(_, Some(bounce), _) | CompletionAction::Reply(Some(bounce)) =
                std::mem::replace(&mut post.done, CompletionAction::Nothing)
            {
                // What the client has filled stays reserved.
                self.bounces.give(Some(bounce).filter(|_| !was_filled));
            }
            turn.put_back(post);
            return Err(Busy);
        }
        Ok(if is_in_use {
            LocalCompletion::Later
        } else {
            LocalCompletion::AtReturn
        })
    }

    /// Whether the source of a put may be copied.
    pub fn copies(&self, put: &Put) -> bool {
        put.bytes <= self.settings.put_bounce.min(self.bounces.bytes())
    }

    /// Whether a put is longer than a post, or its source must be registered.
    pub fn is_long(&self, put: &Put, domain: usize) -> bool {
        let copied = self.settings.put_bounce.min(self.bounces.bytes());
        let is_reached =
            put.bytes <= copied.max(self.settings.put_fma) || self.segments.local(&put.from, domain).is_some();
        put.bytes > MOST || !is_reached
    }

    /// A put that is longer than a post, or whose source must be registered.
    #[cold]
    fn start_long_put(&self, put: &Put, domain: usize, aim: PutKind) -> Result<LocalCompletion, Busy> {
        self.may_begin()?;
        let report = match aim {
            PutKind::Put => Report::Part(put.cookie, Completion::Both),
            _ => Report::Part(put.cookie, Completion::Source),
        };
        let mut transfer = Transfer::put(put, self.remote(&put.to), domain, report);
        transfer.aim = aim;
        self.begin(transfer);
        Ok(LocalCompletion::Later)
    }

    /// Starts a get.
    #[inline]
    fn start_get(&self, get: &Get, domain: usize) -> Result<(), Busy> {
        if self.may_send(get.from.peer) != Some(true) {
            return Err(Busy);
        }
        let settings = &self.settings;
        let (skip, bytes) = widened(get.from.address, get.bytes);
        let is_aligned = bytes == get.bytes && (get.to.address % WORD == 0 || !self.is_gemini());
        let own = self.segments.local(&get.to, domain).filter(|_| is_aligned);
        let mut from = self.remote(&get.from);
        from.address -= skip;
        let to = (get.to.address, get.bytes);
        let copies = bytes <= INLINE || own.is_none() && bytes <= settings.get_bounce.min(self.bounces.bytes());
        if bytes > MOST || !copies && own.is_none() {
            return self.start_long_get(get, domain);
        }
        let mut turn = self.domains[domain].turn();
        let Some(mut post) = turn.take() else { return Err(Busy) };
        let local = match own {
            _ if bytes <= INLINE => {
                post.done = CompletionAction::Get(get.cookie, None, skip, to);
                Local {
                    address: post.inline_address(),
                    handle: self.domains[domain].posts_memory.handle,
                }
            }
            Some(handle) => {
                post.done = CompletionAction::Direct(get.cookie);
                Local {
                    address: get.to.address,
                    handle,
                }
            }
            None => {
                let Some(bounce) = self.bounces.take() else {
                    turn.put_back(post);
                    return Err(Busy);
                };
                let address = bounce.address();
                post.done = CompletionAction::Get(get.cookie, Some(bounce), skip, to);
                Local {
                    address,
                    handle: self.bounces.handle(domain),
                }
            }
        };
        let kind = if bytes <= settings.get_fma {
            abi::GNI_POST_FMA_GET
        } else {
            abi::GNI_POST_RDMA_GET
        };
        post.peer = get.from.peer;
        post.transfer(kind, abi::GNI_CQMODE_GLOBAL_EVENT, (local, from), bytes);
        // SAFETY: the runtime keeps the destination until completion; copies are kept until then.
        if let Err(mut post) = unsafe { self.try_post(&mut turn, post, None) } {
            if let CompletionAction::Get(_, Some(bounce), ..) =
                std::mem::replace(&mut post.done, CompletionAction::Nothing)
            {
                self.bounces.give(bounce);
            }
            turn.put_back(post);
            return Err(Busy);
        }
        Ok(())
    }

    /// A get that is longer than a post, whose destination must be registered, or of which the ends
    /// are no whole words.
    #[cold]
    fn start_long_get(&self, get: &Get, domain: usize) -> Result<(), Busy> {
        self.may_begin()?;
        self.begin_get(get, self.remote(&get.from), domain);
        Ok(())
    }
}

/// Copies the source of a put.
///
/// # Safety
/// Both are so many bytes long, and do not overlap.
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

impl Rma for Net {
    fn put(&self, put: &Put) -> Result<LocalCompletion, Busy> {
        self.start_put(put, None, self.domain_of_thread(), PutKind::Put)
    }

    fn get(&self, get: &Get) -> Result<(), Busy> {
        self.start_get(get, self.domain_of_thread())
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
