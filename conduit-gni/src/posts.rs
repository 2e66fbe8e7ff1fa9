//! Posts on their way to peers, through the domains of this process.

use crate::buffers::Bounces;
use crate::ffi::{self, Channel, Code, Endpoint, QueueGuard};
use crate::operations::CompletionAction;
use crate::peers::Peers;
use crate::wire::Kind;
use gasnet_conduit::JobRank;
use gasnet_conduit_util::pending_queue::PendingQueue;
use gasnet_gni_abi as abi;
use gasnet_sys::atomic::{AtomicUsize, Ordering};
use std::cell::Cell;

pub type Domain = ffi::Domain<CompletionAction>;
pub type PostDescriptor = ffi::PostDescriptor<CompletionAction>;

/// The domain of Active Messages.
pub const FIRST: usize = 0;
/// Events of a message: at the sender and at the receiver.
pub const MESSAGE: u16 = abi::GNI_CQMODE_GLOBAL_EVENT | abi::GNI_CQMODE_REMOTE_EVENT;

/// A post that found no room.
#[derive(Debug)]
pub struct Refused {
    domain: usize,
    post: PostDescriptor,
    event: Option<u32>,
}

/// The domains of a process, their buffers, and the way to its peers.
pub struct Posts {
    /// The processes of the job.
    pub peers: Peers,
    /// Registered buffers for copies.
    pub buffers: Bounces,
    /// Posts that wait for room.
    pub refused: PendingQueue<Refused>,
    threads_per_domain: usize,
    // Last: all of the above is registered with them.
    pub domains: Box<[Domain]>,
}

impl Posts {
    /// Nothing is posted. The buffers are registered with the domains.
    pub fn new(peers: Peers, domains: Vec<Domain>, buffers: Bounces, threads_per_domain: usize) -> Self {
        Self {
            peers,
            buffers,
            refused: PendingQueue::default(),
            threads_per_domain,
            domains: domains.into(),
        }
    }

    /// The channel of the first domain, if threads may sleep.
    pub fn channel(&self) -> Option<&Channel> {
        self.domains[FIRST].channel.as_ref()
    }

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
        number / self.threads_per_domain % self.domains.len()
    }

    /// Locks a domain.
    #[inline]
    pub fn lock(&self, domain: usize) -> DomainGuard<'_> {
        DomainGuard {
            posts: self,
            domain,
            queue: self.domains[domain].lock(),
        }
    }

    /// Locks a domain, unless another thread has it.
    #[inline]
    pub fn try_lock(&self, domain: usize) -> Option<DomainGuard<'_>> {
        Some(DomainGuard {
            posts: self,
            domain,
            queue: self.domains[domain].try_lock()?,
        })
    }

    /// Posts again what found no room.
    #[cold]
    pub fn post_refused(&self) {
        for Refused { domain, post, event } in self.refused.take_all() {
            // SAFETY: as when it was posted first.
            unsafe { self.lock(domain).post(post, event) };
        }
    }

    /// Sends an event without data, if a post is free.
    pub fn signal(&self, peer: JobRank, kind: Kind, index: usize) -> bool {
        self.lock(FIRST).signal(peer, kind, index)
    }
}

/// A domain whose lock the holder has.
pub struct DomainGuard<'a> {
    pub posts: &'a Posts,
    domain: usize,
    queue: QueueGuard<'a, CompletionAction>,
}

impl<'a> std::ops::Deref for DomainGuard<'a> {
    type Target = QueueGuard<'a, CompletionAction>;
    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.queue
    }
}

impl std::ops::DerefMut for DomainGuard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.queue
    }
}

impl DomainGuard<'_> {
    /// The endpoint of a peer. If it cannot be made, the peer is lost.
    #[inline]
    pub fn endpoint(&mut self, peer: JobRank) -> Option<Endpoint> {
        let peers = &self.posts.peers;
        let address = || {
            let address = peers.address(peer);
            (address.nic, address.instance)
        };
        match self.queue.endpoint(peer, address) {
            Ok(endpoint) => Some(endpoint),
            Err(code) => {
                let why = format!("an endpoint cannot be bound: {code}");
                peers.states.lose(peer, why);
                None
            }
        }
    }

    /// See [`Posts::signal`].
    pub fn signal(&mut self, peer: JobRank, kind: Kind, index: usize) -> bool {
        let Some(mut post) = self.take() else { return false };
        let peers = &self.posts.peers;
        post.peer = peer;
        post.done = CompletionAction::Nothing;
        post.event(MESSAGE, peers.address(peer).handle(), peers.event(kind, index));
        // SAFETY: no memory is named.
        unsafe { self.post(post, None) };
        true
    }

    /// Posts: later, if there is no room. If the post is refused, the peer is lost.
    ///
    /// # Safety
    /// As for [`QueueGuard::post`].
    #[inline]
    pub unsafe fn post(&mut self, post: PostDescriptor, event: Option<u32>) {
        let Some(endpoint) = self.endpoint(post.peer) else {
            return forget(post);
        };
        // SAFETY: by contract.
        match unsafe { self.queue.post(endpoint, post, event) } {
            Ok(()) => {}
            Err((post, Code::RESOURCE)) => {
                let domain = self.domain;
                self.posts.refused.push(Refused { domain, post, event });
            }
            Err((post, code)) => {
                self.lose(&post, code);
                forget(post);
            }
        }
    }

    /// Posts, if there is room.
    ///
    /// # Safety
    /// As for [`QueueGuard::post`].
    #[inline]
    pub unsafe fn try_post(&mut self, post: PostDescriptor, event: Option<u32>) -> Result<(), PostDescriptor> {
        let Some(endpoint) = self.endpoint(post.peer) else {
            return Err(post);
        };
        // SAFETY: by contract.
        unsafe { self.queue.post(endpoint, post, event) }.map_err(|(post, code)| {
            if code != Code::RESOURCE {
                self.lose(&post, code);
            }
            post
        })
    }

    /// A post was refused: its peer is lost.
    #[cold]
    fn lose(&self, post: &PostDescriptor, code: Code) {
        let why = format!("{} was refused: {code}", name(post));
        self.posts.peers.states.lose(post.peer, why);
    }
}

/// Name of a post, for messages.
pub fn name(post: &PostDescriptor) -> &'static str {
    post.name(post.done.is_message())
}

/// A post to a peer that is lost: the job ends.
#[cold]
fn forget(mut post: PostDescriptor) {
    post.done = CompletionAction::Nothing;
}
