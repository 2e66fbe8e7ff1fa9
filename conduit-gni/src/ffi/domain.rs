//! A communication domain: a NIC as this process uses it. Its lock is held across every call of the
//! library, which serves one thread of a domain at a time.

use super::channel::Channel;
use super::post::{Local, Post, PostDescriptor};
use super::{Code, Functions};
use gasnet_conduit::JobRank;
use gasnet_conduit_util::mapped::Mapped;
use gasnet_gni_abi as abi;
use gasnet_sys::atomic::{AtomicUsize, Ordering};
use gasnet_sys::maybe_locked::{MaybeLocked, MaybeLockedGuard, Sharing};
use std::ptr::{null_mut, NonNull};
use std::time::{Duration, Instant};

/// Most completions that a poll takes at once.
pub const BURST: usize = 16;
/// Times that an attachment which signals interrupt is begun.
const ATTACHMENTS: usize = 100;
/// Posts for operations that are posted again while another event of the failed post may come.
const SPARES: usize = 32;

/// Identity, sizes and abilities of a domain.
#[derive(Clone, Copy, Debug)]
pub struct DomainOptions {
    /// Different for every domain of a job.
    pub instance: u32,
    pub ptag: u8,
    pub cookie: u32,
    pub device: u32,
    /// `GNI_CDM_MODE_*`.
    pub modes: u32,
    /// Whether several threads of this process use it.
    pub sharing: Sharing,
    /// Whether they may sleep until a queue has something.
    pub sleep: bool,
    /// Processes of the job.
    pub ranks: u32,
    /// Number of post descriptors.
    pub posts: usize,
    /// Mode of their packets in the network: `GNI_DLVMODE_*`.
    pub routing: u16,
    /// Entries of the queue of arrivals; 0: it has none.
    pub arrivals: usize,
    /// Whether it has a queue of one entry that nobody reads.
    pub has_sink: bool,
}

/// Head of the queue of arrivals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    Nothing,
    /// The 32 bits of an operation of a peer.
    Event(u32),
    /// An error, with this status.
    Failed(String),
    /// More than there was room for.
    Overrun,
}

/// Head of the queue of completions.
#[derive(Debug)]
pub enum Completed<A> {
    /// The source of a put may be reused; another completion follows.
    Local(PostDescriptor<A>),
    /// The last completion of a post.
    Last(PostDescriptor<A>),
    /// The operation failed: the post, which is lost unless it is posted again, and why.
    Failed(PostDescriptor<A>, Failure),
}

/// Why an operation failed.
#[derive(Debug)]
pub struct Failure {
    /// The library's name of the status.
    pub status: String,
    /// Whether the operation may succeed if it is posted again.
    pub is_transient: bool,
}

/// Destination of the events of peers' operations on memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Nowhere.
    None,
    /// To the queue of arrivals.
    Ours,
    /// To a queue of one entry that nobody reads.
    Sink,
}

/// A domain, whose posts have an action of their owner: `A`.
pub struct Domain<A> {
    pub(super) functions: &'static Functions,
    /// Number of the NIC.
    pub device: u32,
    cdm: abi::gni_cdm_handle_t,
    pub(super) nic: abi::gni_nic_handle_t,
    pub(super) completions: abi::gni_cq_handle_t,
    arrivals: abi::gni_cq_handle_t,
    sink: abi::gni_cq_handle_t,
    /// Wakes threads that sleep.
    pub channel: Option<Channel>,
    initiator: MaybeLocked<Initiator<A>>,
    /// Posts and other events under way, which the holder of the lock changes.
    under_way: AtomicUsize,
    /// Memory of the posts.
    posts: Mapped,
    posts_handle: abi::gni_mem_handle_t,
}

// SAFETY: the handles are used under the lock, except by `has_arrivals`, which the vendor allows.
unsafe impl<A: Send> Send for Domain<A> {}
// SAFETY: as above.
unsafe impl<A: Send> Sync for Domain<A> {}

/// State under the lock of a domain.
struct Initiator<A> {
    free: Vec<PostDescriptor<A>>,
    spares: Vec<PostDescriptor<A>>,
    /// Events under way that may never come.
    optional: usize,
    /// Endpoints by rank, null until first use.
    endpoints: Box<[abi::gni_ep_handle_t]>,
}

// SAFETY: the handles are used under the lock.
unsafe impl<A: Send> Send for Initiator<A> {}

/// An endpoint that is bound to a peer.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint(pub(crate) abi::gni_ep_handle_t);

/// A domain whose lock the holder has.
pub struct QueueGuard<'a, A> {
    pub(super) domain: &'a Domain<A>,
    initiator: MaybeLockedGuard<'a, Initiator<A>>,
}

/// `count` post descriptors in memory that has room for them.
fn posts_in<A: Default>(memory: &Mapped, count: usize, routing: u16) -> Vec<PostDescriptor<A>> {
    let post = |index: usize| {
        let post = (memory.address() + index * size_of::<Post<A>>()) as *mut Post<A>;
        // SAFETY: inside the mapping, which lives as long as the domain, and aligned.
        unsafe { post.write(Post::empty(routing)) };
        // SAFETY: not null.
        PostDescriptor(unsafe { NonNull::new_unchecked(post) })
    };
    (0..count).rev().map(post).collect()
}

impl<A: Default> Domain<A> {
    /// Opens a domain. The error says what failed.
    pub fn open(functions: &'static Functions, options: &DomainOptions) -> Result<Self, String> {
        let count = options.posts + SPARES;
        let bytes = count * size_of::<Post<A>>();
        let posts = Mapped::new(bytes).map_err(|why| format!("mmap failed: {why}"))?;
        let mut free = posts_in(&posts, count, options.routing);
        let initiator = Initiator {
            spares: free.split_off(options.posts),
            free,
            optional: 0,
            endpoints: vec![null_mut(); options.ranks as usize].into(),
        };
        let mut domain = Self {
            functions,
            device: options.device,
            cdm: null_mut(),
            nic: null_mut(),
            completions: null_mut(),
            arrivals: null_mut(),
            sink: null_mut(),
            channel: None,
            initiator: MaybeLocked::new(initiator, options.sharing),
            under_way: AtomicUsize::new(0),
            posts,
            posts_handle: abi::gni_mem_handle_t::default(),
        };
        domain.attach(options)?;
        // With dual events, each operation counts twice.
        domain.completions = domain.queue(2 * (count + 1), options.sleep)?;
        domain.arrivals = domain.queue(options.arrivals, options.sleep)?;
        if options.sleep {
            domain.channel = Channel::new(functions, domain.nic, &[domain.completions, domain.arrivals]);
        }
        domain.sink = domain.queue(usize::from(options.has_sink), options.sleep)?;
        let range = (domain.posts.address(), bytes);
        // SAFETY: unmapped with the domain, which deregisters it.
        let handle = unsafe { domain.register_all(range, Arrivals::None, abi::GNI_MEM_RELAXED_PI_ORDERING) };
        domain.posts_handle = handle.map_err(|code| register_failed("post descriptors", bytes, code))?;
        Ok(domain)
    }

    /// Attaches to the NIC.
    fn attach(&mut self, options: &DomainOptions) -> Result<(), String> {
        let DomainOptions {
            instance,
            ptag,
            cookie,
            device,
            modes,
            ..
        } = *options;
        // SAFETY: the handle is written to a live variable.
        let code = unsafe { (self.functions.cdm_create)(instance, ptag, cookie, modes, &raw mut self.cdm) };
        Code::check(code).map_err(|code| open_failed("GNI_CdmCreate", code, modes))?;
        let mut address = 0;
        let mut attach = || {
            // SAFETY: as above.
            let code = unsafe { (self.functions.cdm_attach)(self.cdm, device, &raw mut address, &raw mut self.nic) };
            Code::check(code)
        };
        // A signal interrupts it.
        let interrupted = Err(Code::NOT_DONE);
        let attached = (0..ATTACHMENTS)
            .map(|_| attach())
            .find(|attached| *attached != interrupted);
        attached
            .unwrap_or(interrupted)
            .map_err(|code| open_failed(&format!("GNI_CdmAttach to NIC {device}"), code, modes))
    }

    /// Makes a completion queue, if it is to have entries.
    fn queue(&self, entries: usize, sleep: bool) -> Result<abi::gni_cq_handle_t, String> {
        let mut cq = null_mut();
        if entries == 0 {
            return Ok(cq);
        }
        let mode = if sleep {
            abi::GNI_CQ_BLOCKING
        } else {
            abi::GNI_CQ_NOBLOCK
        };
        let create = self.functions.cq_create;
        // SAFETY: the handle is written to a live variable; no handler.
        let code = unsafe { create(self.nic, entries as u32, 0, mode, None, null_mut(), &raw mut cq) };
        Code::check(code).map_err(queue_failed)?;
        Ok(cq)
    }
}

impl<A> Domain<A> {
    /// Takes the lock.
    #[inline]
    pub fn lock(&self) -> QueueGuard<'_, A> {
        QueueGuard {
            domain: self,
            initiator: self.initiator.lock(),
        }
    }

    /// Takes the lock, unless another thread has it.
    #[inline]
    pub fn try_lock(&self) -> Option<QueueGuard<'_, A>> {
        let initiator = self.initiator.try_lock()?;
        Some(QueueGuard {
            domain: self,
            initiator,
        })
    }

    /// Whether events of this domain are under way.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) > 0
    }

    /// Whether something has arrived. Needs no lock.
    #[inline]
    pub fn has_arrivals(&self) -> bool {
        // SAFETY: a queue of this domain. The only call that may be made beside others.
        unsafe { (self.functions.cq_test)(self.arrivals) != abi::GNI_RC_NOT_DONE }
    }

    /// Registers memory. Returns its handle.
    ///
    /// # Safety
    /// The memory stays mapped until [`Domain::deregister`].
    pub unsafe fn register(
        &self,
        range: (usize, usize),
        events: Arrivals,
        flags: u32,
    ) -> Result<abi::gni_mem_handle_t, Code> {
        /// "Let the library choose."
        const ANY: u32 = u32::MAX;
        let _lock = self.lock();
        let queue = match events {
            Arrivals::None => null_mut(),
            Arrivals::Ours => self.arrivals,
            Arrivals::Sink => self.sink,
        };
        let (address, bytes) = (range.0 as u64, range.1 as u64);
        let mut handle = abi::gni_mem_handle_t::default();
        // SAFETY: the library checks the range, and writes the handle.
        let code = unsafe { (self.functions.register)(self.nic, address, bytes, queue, flags, ANY, &raw mut handle) };
        Code::check(code).map(|()| handle)
    }

    /// Registers memory that the conduit cannot do without: if resources are short, several times.
    ///
    /// # Safety
    /// As for [`Domain::register`].
    pub unsafe fn register_all(
        &self,
        range: (usize, usize),
        events: Arrivals,
        flags: u32,
    ) -> Result<abi::gni_mem_handle_t, Code> {
        const TRIES: usize = 10;
        for _ in 1..TRIES {
            // SAFETY: by contract.
            match unsafe { self.register(range, events, flags) } {
                Err(Code::RESOURCE) => gasnet_sys::atomic::yield_now(),
                result => return result,
            }
        }
        // SAFETY: by contract.
        unsafe { self.register(range, events, flags) }
    }

    /// Reverts it.
    pub fn deregister(&self, mut handle: abi::gni_mem_handle_t) {
        let _lock = self.lock();
        // SAFETY: a handle of this NIC. A failure leaves it to the end of the process.
        unsafe { (self.functions.deregister)(self.nic, &raw mut handle) };
    }
}

/// Why a call that opens a NIC has failed.
fn open_failed(call: &str, code: Code, modes: u32) -> String {
    let advice = match code {
        Code::RESOURCE if modes & abi::GNI_CDM_MODE_FMA_DEDICATED != 0 => {
            ". The NIC has no FMA descriptor left for this process alone; GASNET_GNI_FMA_SHARING=1 shares them"
        }
        Code::STATE => {
            ". Another library of this process uses the NIC with the same tag, cookie and instance; increase \
             PMI_GNI_COOKIE by one in all processes before the second of them starts"
        }
        Code::NOT_DONE => ". Signals interrupted every attempt; block them until gasnet has started",
        _ => "",
    };
    format!("{call} failed: {code}{advice}")
}

/// Why a queue cannot be made.
fn queue_failed(code: Code) -> String {
    let advice = match code {
        Code::RESOURCE => {
            ". The NIC has no completion queue left; run fewer processes on a node, or lower GASNET_DOMAIN_COUNT"
        }
        _ => "",
    };
    format!("GNI_CqCreate failed: {code}{advice}")
}

/// An event that belongs to no post. Those of the collective engine report failures.
#[cold]
fn without_post(functions: &Functions, entry: abi::gni_cq_entry_t, taken: Code, completed: Code) -> String {
    if taken == Code::TRANSACTION {
        let status = functions.describe(entry);
        return format!("a reduction by the collective engine failed: {status}");
    }
    format!("GNI_GetCompleted failed: {completed}")
}

/// Why memory that the conduit cannot do without cannot be registered.
pub fn register_failed(what: &str, bytes: usize, code: Code) -> String {
    let advice = match code {
        Code::RESOURCE => {
            ". The NIC has no memory descriptor (MDD) left, or no more memory can be pinned; run fewer processes on a \
             node, or lower GASNET_DOMAIN_COUNT, GASNET_NETWORKDEPTH_TOTAL or GASNET_GNI_AM_EAGER_PEERS"
        }
        _ => "",
    };
    format!("GNI_MemRegister of {bytes} bytes for {what} failed: {code}{advice}")
}

impl<A> QueueGuard<'_, A> {
    /// A post, if one is free.
    #[inline]
    pub fn take(&mut self) -> Option<PostDescriptor<A>> {
        self.initiator.free.pop()
    }

    /// Puts one back.
    #[inline]
    pub fn put_back(&mut self, post: PostDescriptor<A>) {
        self.initiator.free.push(post);
    }

    /// The endpoint of a peer, bound at first use to `(NIC, instance)`.
    #[inline]
    pub fn endpoint(&mut self, peer: JobRank, address: impl FnOnce() -> (u32, u32)) -> Result<Endpoint, Code> {
        let known = self.initiator.endpoints[peer.index()];
        if known.is_null() {
            return self.bind(peer, address());
        }
        Ok(Endpoint(known))
    }

    #[cold]
    fn bind(&mut self, peer: JobRank, (nic, instance): (u32, u32)) -> Result<Endpoint, Code> {
        let (domain, mut endpoint) = (self.domain, null_mut());
        // SAFETY: handles of this domain, and a live variable.
        unsafe {
            Code::check((domain.functions.ep_create)(
                domain.nic,
                domain.completions,
                &raw mut endpoint,
            ))?;
            Code::check((domain.functions.ep_bind)(endpoint, nic, instance))
                .inspect_err(|_| _ = (domain.functions.ep_destroy)(endpoint))?;
        }
        self.initiator.endpoints[peer.index()] = endpoint;
        Ok(Endpoint(endpoint))
    }

    /// Posts. An operation with `GNI_CQMODE_REMOTE_EVENT` has `event` as its 32 bits at the peer.
    /// If it is refused, the post comes back with the reason.
    ///
    /// # Safety
    /// The memory that the post names stays as the operation needs it until it completes.
    #[inline]
    pub unsafe fn post(
        &mut self,
        endpoint: Endpoint,
        post: PostDescriptor<A>,
        event: Option<u32>,
    ) -> Result<(), (PostDescriptor<A>, Code)> {
        let functions = self.domain.functions;
        if let Some(event) = event {
            // SAFETY: an endpoint of this domain, bound.
            let code = unsafe { (functions.ep_set_event)(endpoint.0, 0, event) };
            if let Err(code) = Code::check(code) {
                return Err((post, code));
            }
        }
        let function = match post.descriptor.r#type {
            abi::GNI_POST_RDMA_PUT | abi::GNI_POST_RDMA_GET => functions.post_rdma,
            abi::GNI_POST_CQWRITE => functions.post_cq_write,
            _ => functions.post_fma,
        };
        // SAFETY: the descriptor stays where it is until its last completion is taken.
        let code = unsafe { function(endpoint.0, post.0.as_ptr().cast()) };
        match Code::check(code) {
            Ok(()) => {
                self.add_under_way(1);
                Ok(())
            }
            Err(code) => Err((post, code)),
        }
    }

    /// Polls look for an event that may never come.
    pub(super) fn expect_event(&mut self) {
        self.initiator.optional += 1;
        self.add_under_way(1);
    }

    /// It has come, or will not.
    pub(super) fn expect_no_event(&mut self) {
        self.initiator.optional -= 1;
        self.add_under_way(usize::MAX);
    }

    /// Moves the operation of a failed post, of which another event may come or not, into a spare
    /// post: the late event must not count for the operation when it is posted again. None: all
    /// spares wait for such events.
    #[cold]
    fn retire(&mut self, mut failed: PostDescriptor<A>) -> Option<PostDescriptor<A>> {
        let mut spare = self.initiator.spares.pop()?;
        spare.take_over(&mut failed);
        self.expect_event();
        Some(spare)
    }

    /// A late event of a post that failed. Only two are possible.
    #[cold]
    fn end_retirement(&mut self, mut failed: PostDescriptor<A>) {
        failed.is_retired = false;
        self.initiator.spares.push(failed);
        self.expect_no_event();
    }

    /// Counts posts under way. Only the holder of the lock writes the number.
    #[inline]
    fn add_under_way(&self, change: usize) {
        let under_way = &self.domain.under_way;
        under_way.store(
            under_way.load(Ordering::Relaxed).wrapping_add(change),
            Ordering::Relaxed,
        );
    }

    /// The next completion. `Err`: the queue is lost.
    #[inline]
    pub fn completion(&mut self) -> Result<Option<Completed<A>>, String> {
        let (functions, queue) = (self.domain.functions, self.domain.completions);
        let (mut post, code, entry) = loop {
            let mut entry = 0;
            // SAFETY: a queue of this domain, and a live variable.
            let taken = unsafe { (functions.cq_get)(queue, &raw mut entry) };
            match taken {
                abi::GNI_RC_NOT_DONE => return Ok(None),
                abi::GNI_RC_SUCCESS | abi::GNI_RC_TRANSACTION_ERROR => {}
                _ => return Err(format!("the completion queue failed: {}", Code(taken))),
            }
            let mut descriptor = null_mut();
            // SAFETY: the entry that was just taken.
            let code = unsafe { (functions.completed)(queue, entry, &raw mut descriptor) };
            let Some(descriptor) = NonNull::new(descriptor) else {
                return Err(without_post(functions, entry, Code(taken), Code(code)));
            };
            let post = PostDescriptor(descriptor.cast::<Post<A>>());
            if !post.is_retired {
                break (post, code, entry);
            }
            self.end_retirement(post);
        };
        post.events -= 1;
        if code != abi::GNI_RC_SUCCESS {
            self.add_under_way(usize::MAX);
            let failure = Failure {
                status: functions.describe(entry),
                is_transient: functions.is_transient(entry),
            };
            if post.events > 0 {
                post = self.retire(post).ok_or_else(|| {
                    let status = &failure.status;
                    format!("an operation failed: {status}, like {SPARES} others whose second event has not come")
                })?;
            }
            return Ok(Some(Completed::Failed(post, failure)));
        }
        if post.events > 0 {
            return Ok(Some(Completed::Local(post)));
        }
        self.add_under_way(usize::MAX);
        Ok(Some(Completed::Last(post)))
    }

    /// The next arrival.
    #[inline]
    pub fn arrival(&mut self) -> Received {
        let (functions, mut entry) = (self.domain.functions, 0);
        // SAFETY: a queue of this domain, and a live variable.
        let code = unsafe { (functions.cq_get)(self.domain.arrivals, &raw mut entry) };
        match code {
            // SAFETY: an entry of such a queue.
            abi::GNI_RC_SUCCESS => Received::Event(unsafe { (functions.remote_event)(entry) } as u32),
            abi::GNI_RC_NOT_DONE => Received::Nothing,
            abi::GNI_RC_TRANSACTION_ERROR => Received::Failed(functions.describe(entry)),
            _ => Received::Overrun,
        }
    }

    /// The inline memory of a post of this domain.
    #[inline]
    pub fn inline(&self, post: &Post<A>) -> Local {
        Local {
            address: post.inline_address(),
            handle: self.domain.posts_handle,
        }
    }

    /// Makes the next entry of the domain's queues an event. False if that is impossible now, or
    /// there are entries.
    pub fn arm(&mut self) -> bool {
        let domain = self.domain;
        let arm = |channel: &Channel| channel.arm(domain.functions, [domain.completions, domain.arrivals]);
        domain.channel.as_ref().is_some_and(arm)
    }

    /// Destroys the endpoints. Operations under way may keep one.
    fn unbind_all(&mut self) {
        let functions = self.domain.functions;
        for endpoint in &mut self.initiator.endpoints {
            if !endpoint.is_null() {
                // SAFETY: endpoints of this domain; a failure leaves it to the end of the process.
                unsafe {
                    (functions.ep_unbind)(*endpoint);
                    (functions.ep_destroy)(*endpoint);
                }
                *endpoint = null_mut();
            }
        }
    }
}

impl<A> Domain<A> {
    /// Takes the completions of operations under way, at most for a while.
    pub fn drain(&self) {
        /// Longer than an operation takes.
        const LIMIT: Duration = Duration::from_secs(1);
        let begun = Instant::now();
        while begun.elapsed() < LIMIT {
            let mut queue = self.lock();
            if self.under_way.load(Ordering::Relaxed) <= queue.initiator.optional {
                break;
            }
            match queue.completion() {
                Ok(Some(_)) => {}
                Ok(None) => gasnet_sys::atomic::yield_now(),
                Err(_) => break,
            }
        }
    }
}

impl<A> Drop for Domain<A> {
    fn drop(&mut self) {
        self.drain();
        self.lock().unbind_all();
        if self.posts_handle != abi::gni_mem_handle_t::default() {
            self.deregister(self.posts_handle);
        }
        // SAFETY: handles of this domain, which nothing uses any more; null if it was not opened.
        unsafe {
            for queue in [self.sink, self.arrivals, self.completions] {
                if !queue.is_null() {
                    (self.functions.cq_destroy)(queue);
                }
            }
            if let Some(channel) = &self.channel {
                channel.destroy(self.functions);
            }
            if !self.cdm.is_null() {
                (self.functions.cdm_destroy)(self.cdm);
            }
        }
    }
}
