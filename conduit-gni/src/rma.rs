//! Puts and gets.
//!
//! Short ones go by FMA, to which the CPU writes the data of a put, longer ones by the block
//! transfer engine, which needs registered memory at both ends. Memory outside segments is copied
//! through a buffer if it is small; else it is registered for the operation ([`long`]).
//!
//! Gets read multiples of four bytes at such addresses, so that others are widened, and what is not
//! wanted is left out.

mod long;

use crate::buffers::{give, Bounce};
use crate::ffi::{Extent, Local, INLINE};
use crate::memory::Memory;
use crate::operations::CompletionAction;
use crate::posts::{DomainGuard, PostDescriptor, Posts};
use crate::settings::{Flavour, Settings};
use crate::transfers::{copy, widened, PutKind, Transfer, MOST, WORD};
use gasnet_conduit::{Busy, Get, LocalCompletion, Put, Rma, SourceUse};
use gasnet_conduit_util::peer_states::PeerState;
use gasnet_conduit_util::pending_queue::PendingQueue;
use gasnet_gni_abi as abi;

/// One-sided operations of a process.
pub struct OneSided {
    pub settings: Settings,
    /// Segments and registrations.
    pub memory: Memory,
    /// Transfers that wait for a post, a buffer or room.
    #[allow(clippy::vec_box, reason = "they move between posts and this list")]
    pub stalled: PendingQueue<Box<Transfer>>,
    /// The domains.
    pub posts: Posts,
}

/// Source of a put, as its post reads it.
struct Source {
    local: Local,
    /// The buffer that it lies in.
    bounce: Option<Bounce>,
    /// Whether the client may not change it yet.
    is_in_use: bool,
}

impl OneSided {
    /// Nothing is under way.
    pub fn new(settings: Settings, memory: Memory, posts: Posts) -> Self {
        Self {
            settings,
            memory,
            stalled: PendingQueue::default(),
            posts,
        }
    }

    /// Whether the NIC is a Gemini.
    #[inline]
    pub fn is_gemini(&self) -> bool {
        self.settings.flavour == Flavour::Gemini
    }

    /// Operation of a put, and its events.
    #[inline]
    fn put_by(&self, kind: PutKind, bytes: usize) -> (abi::gni_post_type_t, u16) {
        if bytes > self.settings.put_fma {
            return (abi::GNI_POST_RDMA_PUT, kind.modes());
        }
        let flush = if self.settings.flushes_by_events() {
            abi::GNI_CQMODE_REMOTE_EVENT
        } else {
            0
        };
        (abi::GNI_POST_FMA_PUT, kind.modes() | flush)
    }

    /// Operation of a get.
    #[inline]
    fn get_by(&self, bytes: usize) -> abi::gni_post_type_t {
        if bytes <= self.settings.get_fma {
            abi::GNI_POST_FMA_GET
        } else {
            abi::GNI_POST_RDMA_GET
        }
    }

    /// The source of a put, which may lie in a buffer that the client has filled. None: a post
    /// cannot do it, since it is too long, or its source must be registered. Busy: it needs a
    /// buffer.
    #[inline]
    fn source(
        &self,
        put: &Put,
        filled: Option<Bounce>,
        domain: usize,
        post: &mut PostDescriptor,
    ) -> Result<Option<Source>, Busy> {
        let by_fma = put.bytes <= self.settings.put_fma;
        let own = self.memory.local(&put.from, domain);
        let buffers = &self.posts.buffers;
        let of_bounce = |address, bounce| {
            let handle = buffers.handle(domain);
            Ok(Some(Source {
                local: Local { address, handle },
                bounce: Some(bounce),
                is_in_use: false,
            }))
        };
        if let Some(bounce) = filled {
            return of_bounce(put.from.address, bounce);
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
            return Ok(Some(Source {
                local: Local { address, handle: none },
                bounce: None,
                is_in_use: false,
            }));
        }
        if self.copies(put) && (put.source == SourceUse::Now || own.is_none() && !by_fma) {
            let bounce = buffers.pool.take().ok_or(Busy)?;
            // SAFETY: the source, and a buffer of at least as many bytes.
            unsafe { copy(address, bounce.address(), put.bytes) };
            return of_bounce(bounce.address(), bounce);
        }
        let handle = own.or(by_fma.then_some(none)).filter(|_| put.bytes <= MOST);
        Ok(handle.map(|handle| Source {
            local: Local { address, handle },
            bounce: None,
            is_in_use: true,
        }))
    }

    /// Starts a put, maybe from a buffer that the client has filled.
    #[inline]
    pub fn start_put(
        &self,
        put: &Put,
        filled: Option<Bounce>,
        domain: usize,
        kind: PutKind,
    ) -> Result<LocalCompletion, Busy> {
        if self.posts.peers.states.state(put.to.peer) != PeerState::Present {
            return Err(Busy);
        }
        let was_filled = filled.is_some();
        let mut queue = self.posts.lock(domain);
        let Some(mut post) = queue.take() else { return Err(Busy) };
        let source = self.source(put, filled, domain, &mut post);
        let Ok(Some(Source {
            local,
            bounce,
            is_in_use,
        })) = source
        else {
            queue.put_back(post);
            drop(queue);
            source?;
            return self.start_long_put(put, domain, kind);
        };
        let (operation, mut modes) = self.put_by(kind, put.bytes);
        let by_bte = operation == abi::GNI_POST_RDMA_PUT;
        if is_in_use && put.source == SourceUse::Now && by_bte && matches!(kind, PutKind::Put) {
            modes |= abi::GNI_CQMODE_LOCAL_EVENT;
        }
        let (remote, bytes, cookie) = (self.memory.remote(&put.to), put.bytes, put.cookie);
        post.peer = put.to.peer;
        post.transfer(operation, modes, Extent { local, remote, bytes });
        post.done = match kind {
            PutKind::Put => CompletionAction::Put {
                cookie,
                bounce,
                is_in_use,
            },
            _ if is_in_use => CompletionAction::Source(cookie),
            _ => CompletionAction::Reply(bounce),
        };
        // SAFETY: the runtime keeps the source until local completion; copies are kept until then.
        if let Err(post) = unsafe { queue.try_post(post, kind.event()) } {
            // A buffer that the client has filled stays reserved.
            take_back(&mut queue, post, !was_filled);
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
        put.bytes <= self.settings.put_bounce.min(self.posts.buffers.pool.bytes())
    }

    /// Whether a put is longer than a post, or its source must be registered.
    pub fn is_long(&self, put: &Put, domain: usize) -> bool {
        let copied = self.settings.put_bounce.min(self.posts.buffers.pool.bytes());
        let is_reached =
            put.bytes <= copied.max(self.settings.put_fma) || self.memory.local(&put.from, domain).is_some();
        put.bytes > MOST || !is_reached
    }

    /// Starts a get.
    #[inline]
    fn start_get(&self, get: &Get, domain: usize) -> Result<(), Busy> {
        if self.posts.peers.states.state(get.from.peer) != PeerState::Present {
            return Err(Busy);
        }
        let buffers = &self.posts.buffers;
        let (skip, bytes) = widened(get.from.address, get.bytes);
        let is_aligned = bytes == get.bytes && (get.to.address % WORD == 0 || !self.is_gemini());
        let own = self.memory.local(&get.to, domain).filter(|_| is_aligned);
        let mut remote = self.memory.remote(&get.from);
        remote.address -= skip;
        let copies = bytes <= INLINE || own.is_none() && bytes <= self.settings.get_bounce.min(buffers.pool.bytes());
        if bytes > MOST || !copies && own.is_none() {
            return self.start_long_get(get, domain);
        }
        let mut queue = self.posts.lock(domain);
        let Some(mut post) = queue.take() else { return Err(Busy) };
        let copied = |bounce| CompletionAction::Get {
            cookie: get.cookie,
            bounce,
            skip,
            to: get.to.address,
            bytes: get.bytes,
        };
        let local = match own {
            _ if bytes <= INLINE => {
                post.done = copied(None);
                queue.inline(&post)
            }
            Some(handle) => {
                post.done = CompletionAction::Direct(get.cookie);
                Local {
                    address: get.to.address,
                    handle,
                }
            }
            None => {
                let Some(bounce) = buffers.pool.take() else {
                    queue.put_back(post);
                    return Err(Busy);
                };
                let address = bounce.address();
                post.done = copied(Some(bounce));
                Local {
                    address,
                    handle: buffers.handle(domain),
                }
            }
        };
        post.peer = get.from.peer;
        let extent = Extent { local, remote, bytes };
        post.transfer(self.get_by(bytes), abi::GNI_CQMODE_GLOBAL_EVENT, extent);
        // SAFETY: the runtime keeps the destination until completion; copies are kept until then.
        unsafe { queue.try_post(post, None) }.map_err(|post| {
            take_back(&mut queue, post, true);
            Busy
        })
    }
}

/// A post found no room: puts it back, and its buffer if the buffer is ours.
fn take_back(queue: &mut DomainGuard<'_>, mut post: PostDescriptor, is_ours: bool) {
    let bounce = std::mem::take(&mut post.done).into_bounce();
    give(bounce.filter(|_| is_ours));
    queue.put_back(post);
}

impl Rma for OneSided {
    fn put(&self, put: &Put) -> Result<LocalCompletion, Busy> {
        self.start_put(put, None, self.posts.domain_of_thread(), PutKind::Put)
    }

    fn get(&self, get: &Get) -> Result<(), Busy> {
        self.start_get(get, self.posts.domain_of_thread())
    }
}
