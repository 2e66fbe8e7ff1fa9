//! A started conduit: its parts, and how posts get out.

use crate::barrier::Rounds;
use crate::buffers::Bounces;
use crate::completion::CompletionAction;
use crate::credits::Am;
use crate::ffi::{Code, Domain, Endpoint, Memory, Post, PostDescriptor, QueueGuard, Remote};
use crate::memory::registrations::Registrations;
use crate::memory::Segments;
use crate::put_notify::Message;
use crate::region::Region;
use crate::settings::Settings;
use crate::transfers::Transfer;
use crate::wire::{Event, Kind};
use gasnet_conduit::{JobRank, Stop};
use gasnet_conduit_util::peer_states::PeerStates;
use gasnet_conduit_util::pending_queue::PendingQueue;
use gasnet_gni_abi as abi;
use gasnet_sys::atomic::{AtomicBool, AtomicUsize, Mutex, Ordering};
use gasnet_sys::gate::Gate;
use gasnet_sys::lock;

/// Where a process is, and its region.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Address {
    /// Address of its NIC, and instance of its first domain.
    pub nic: u32,
    pub instance: u32,
    /// First byte of its region, in its address space.
    pub base: usize,
    pub handle: abi::gni_mem_handle_t,
}

/// A started conduit.
pub struct Net {
    pub rank: JobRank,
    pub settings: Settings,
    /// By rank.
    pub addresses: Box<[Address]>,
    pub am: Gate<Am>,
    pub states: PeerStates,
    pub segments: Segments,
    pub registrations: Registrations,
    pub bounces: Bounces,
    pub region: Region,
    pub region_memory: Memory,
    /// Bytes of segments that may be registered.
    pub max_bytes: usize,
    /// Posts that found no room, and their domains.
    pub refused: PendingQueue<(usize, PostDescriptor, Option<u32>)>,
    /// Transfers that wait for a post, a buffer or room.
    #[allow(clippy::vec_box, reason = "they move between posts and this list")]
    pub stalled: PendingQueue<Box<Transfer>>,
    /// Messages whose payloads are complete.
    pub messages: PendingQueue<Message>,
    /// The barrier, in leaders.
    pub rounds: Option<Rounds>,
    /// Whether messages have arrived that are not complete, or not delivered.
    pub has_arrivals: AtomicBool,
    /// Whether words for peers are kept back, and polls meanwhile.
    pub delays_credits: AtomicBool,
    pub polls: AtomicUsize,
    pub stopped: AtomicBool,
    /// Why the network failed, until that is reported.
    pub failure: Mutex<Option<String>>,
    pub has_failed: AtomicBool,
    // Last: all of the above is registered with them.
    pub domains: Box<[Domain]>,
}

/// The domain of Active Messages.
pub const FIRST: usize = 0;

impl Net {
    /// Whether the conduit was stopped.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// See [`gasnet_conduit::Network::stop`].
    pub fn stop(&self, how: Stop) {
        if self.stopped.swap(true, Ordering::AcqRel) || how == Stop::Signal {
            return;
        }
        let contacts = self.am.lock().contacts();
        for peer in contacts {
            self.signal(peer, Kind::Bye, 0);
        }
    }

    /// Whether a peer may be sent to. None: what is sent may be dropped, because it has stopped.
    #[inline]
    pub fn may_send(&self, peer: JobRank) -> Option<bool> {
        if self.is_stopped() {
            return Some(false);
        }
        if self.states.is_present(peer) {
            return Some(true);
        }
        if self.states.has_stopped(peer) {
            None
        } else {
            Some(false)
        }
    }

    /// The network of this process has failed.
    #[cold]
    pub fn fail(&self, why: &str) {
        let mut failure = lock(&self.failure);
        if failure.is_none() && !self.is_stopped() {
            *failure = Some(why.to_owned());
            self.has_failed.store(true, Ordering::Release);
        }
    }

    /// The endpoint of a peer. If it cannot be made, the peer is lost.
    #[inline]
    pub fn endpoint(&self, turn: &mut QueueGuard<'_>, peer: JobRank) -> Option<Endpoint> {
        let address = || {
            let address = &self.addresses[peer.index()];
            (address.nic, address.instance)
        };
        match turn.endpoint(peer, address) {
            Ok(endpoint) => Some(endpoint),
            Err(code) => {
                self.states.lose(peer, format!("an endpoint cannot be bound: {code}"));
                None
            }
        }
    }

    /// Memory of a peer's region.
    #[inline]
    pub fn in_region(&self, peer: JobRank, offset: usize) -> Remote {
        let address = &self.addresses[peer.index()];
        Remote {
            address: address.base + offset,
            handle: address.handle,
        }
    }

    /// An event at a peer.
    #[inline]
    pub fn event(&self, kind: Kind, index: usize) -> u32 {
        let source = self.rank;
        Event { kind, source, index }.encode()
    }

    /// Posts. `Ok` also if there is no room: then it is posted later. `Err`: the peer is lost.
    ///
    /// # Safety
    /// As for [`QueueGuard::post`].
    #[inline]
    pub unsafe fn post(&self, turn: &mut QueueGuard<'_>, domain: usize, post: PostDescriptor, event: Option<u32>) {
        let peer = post.peer;
        let Some(endpoint) = self.endpoint(turn, peer) else {
            return forget(post);
        };
        // SAFETY: by contract.
        match unsafe { turn.post(endpoint, post, event) } {
            Ok(()) => {}
            Err((post, Code::RESOURCE)) => {
                self.refused.push((domain, post, event));
            }
            Err((post, code)) => {
                let name = post.name();
                self.states.lose(peer, format!("{name} was refused: {code}"));
                forget(post);
            }
        }
    }

    /// Posts, if there is room.
    ///
    /// # Safety
    /// As for [`QueueGuard::post`].
    #[inline]
    pub unsafe fn try_post(
        &self,
        turn: &mut QueueGuard<'_>,
        post: PostDescriptor,
        event: Option<u32>,
    ) -> Result<(), PostDescriptor> {
        let peer = post.peer;
        let Some(endpoint) = self.endpoint(turn, peer) else {
            return Err(post);
        };
        // SAFETY: by contract.
        match unsafe { turn.post(endpoint, post, event) } {
            Ok(()) => Ok(()),
            Err((post, code)) => {
                if code != Code::RESOURCE {
                    let name = post.name();
                    self.states.lose(peer, format!("{name} was refused: {code}"));
                }
                Err(post)
            }
        }
    }

    /// Tries again what found no room.
    #[cold]
    pub fn post_refused(&self) {
        for (domain, post, event) in self.refused.take_all() {
            let mut turn = self.domains[domain].turn();
            // SAFETY: as when it was posted first.
            unsafe { self.post(&mut turn, domain, post, event) };
        }
    }

    /// Sends an event without data, if a post is free.
    pub fn signal(&self, peer: JobRank, kind: Kind, index: usize) -> bool {
        let mut turn = self.domains[FIRST].turn();
        let Some(mut post) = turn.take() else { return false };
        post.peer = peer;
        post.done = CompletionAction::Nothing;
        let modes = abi::GNI_CQMODE_GLOBAL_EVENT | abi::GNI_CQMODE_REMOTE_EVENT;
        Post::event(
            &mut post,
            modes,
            self.addresses[peer.index()].handle,
            self.event(kind, index),
        );
        // SAFETY: no memory is named.
        unsafe { self.post(&mut turn, FIRST, post, None) };
        true
    }
}

/// A post to a peer that is lost: the job ends.
#[cold]
fn forget(mut post: PostDescriptor) {
    post.done = CompletionAction::Nothing;
}

impl Drop for Net {
    fn drop(&mut self) {
        // What is under way uses the memory below.
        self.domains.iter().for_each(Domain::drain);
        self.release_engine();
        self.domains[FIRST].deregister(self.region_memory);
        self.bounces.deregister(&self.domains);
    }
}
