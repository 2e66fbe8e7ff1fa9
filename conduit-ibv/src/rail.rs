//! An HCA that this process uses: its completion queue and its receive buffers.

pub mod room;

use crate::ffi::{Channel, Context, Domain, Errno, Pair, PairQueues, PairSettings, Queue, Shared, Wc, XrcDomain};
use crate::memory::advice::advised;
use crate::memory::limits;
use crate::memory::on_demand::OnDemand;
use crate::rail::room::CompletionRoom;
use crate::receive::plan::{Limits, ReceivePlan};
use crate::receive::Receives;
use crate::send::queue::SendQueue;
use crate::settings::Settings;
use gasnet_conduit::{config, print_line, StartInfo};
use gasnet_ibv_abi as abi;
use gasnet_sys::atomic::{Mutex, Ordering};
use gasnet_sys::maybe_locked::{MaybeLocked, Sharing};
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::sync::atomic::AtomicUsize;

/// Most completions that a poll takes at once.
pub const MOST: usize = 24;

/// Work requests of the shortest send queue, and of all send queues together at least.
const LEAST_DEPTH: usize = 4;
const LEAST_SENDS: usize = 4;
/// Receives of the shortest receive queue.
const LEAST_RECEIVES: usize = 8;

/// Items that one poll takes, up to [`MOST`].
pub type Batch<T> = gasnet_conduit_util::fixed_vec::FixedVec<T, MOST>;

/// An HCA.
pub struct Rail {
    /// Its index among those of the process.
    pub place: usize,
    /// Held while the queue is read.
    pub reader: MaybeLocked<Reader>,
    /// Whether several threads use it.
    pub sharing: Sharing,
    pub room: CompletionRoom,
    pub plan: ReceivePlan,
    /// The receive queue of all peers, if it is shared. It ends before its buffers: with XRC peers
    /// reach it as long as it exists.
    pub shared: Option<Shared>,
    /// The domain of that queue, if it is for XRC.
    pub xrc: Option<XrcDomain>,
    pub receives: Receives,
    /// One, or several at which pairs take turns if none may be long enough.
    queues: Box<[Queue]>,
    /// Pairs so far.
    pairs: AtomicUsize,
    /// Wakes threads that sleep.
    pub channel: Option<Channel>,
    /// All memory of this process, if the HCA can page on demand.
    pub on_demand: Option<OnDemand>,
    pub domain: Domain,
    pub context: Context,
    /// Work requests in the send queue of a peer. It shrinks when the HCA refuses a longer one.
    depth: AtomicUsize,
    /// Buffers of the shared receive queue.
    buffers: usize,
    /// Bytes of inline data that are asked for, and that queue pairs then take: an HCA may round up
    /// to more than it lets ask for.
    asked_inline: usize,
    pub inline: usize,
    /// Ports that have gone down, maybe only for a while.
    pub fallen: Mutex<Vec<u8>>,
    /// Ports that traffic has left, as was reported.
    pub left: Mutex<Vec<u8>>,
    /// Ports that have lost their addresses, as was reported.
    pub moved: Mutex<Vec<u8>>,
}

/// State of the reader of a queue.
pub struct Reader {
    /// Completions that a thread found when it was about to sleep.
    pub early: Vec<Wc>,
    /// Room for the completions of a poll: not on the stack, which may be small.
    room: Box<[MaybeUninit<Wc>; MOST]>,
    /// Polls so far.
    pub polls: u32,
    /// The queue that was polled last.
    next: usize,
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            early: Vec::new(),
            room: Box::new([const { MaybeUninit::uninit() }; MOST]),
            polls: 0,
            next: 0,
        }
    }
}

/// Requirements on an HCA.
#[derive(Clone, Copy)]
pub struct Needs {
    /// The index of the HCA among those of the process.
    pub place: usize,
    /// Processes that it connects this one to.
    pub peers: usize,
    /// Queue pairs of each connection.
    pub pairs: usize,
    /// Whether threads may sleep until it has something.
    pub sleeps: bool,
    /// The file of the host's XRC domain, if XRC may be used.
    pub xrc_file: Option<RawFd>,
    /// Whether several threads use it.
    pub sharing: Sharing,
}

/// Whether several threads use the HCAs: of the client, or its one and the thread that waits for
/// datagrams.
pub fn sharing(info: &StartInfo<'_>, has_thread: bool) -> Sharing {
    // SAFETY: the runtime says how many threads there are, and the conduit has no other.
    unsafe { Sharing::new(!info.single_threaded || has_thread) }
}

fn failed(what: &'static str) -> impl Fn(Errno) -> String {
    move |why| format!("{what}: {}", advised(why))
}

/// Work requests of a send queue: as many as are wanted, or the HCA's limit.
fn send_depth(wanted: usize, limit: i32) -> usize {
    let depth = match usize::try_from(limit) {
        Ok(most) if wanted == 0 || wanted > most => most,
        _ => wanted,
    };
    depth.min(SendQueue::MOST)
}

/// A receive queue of `buffers` buffers for all peers: with XRC if there is a file of its domain,
/// and the HCA has it. The job does without XRC otherwise.
fn shared_queue(
    context: &Context,
    domain: &Domain,
    queue: &Queue,
    buffers: usize,
    xrc_file: Option<RawFd>,
) -> Result<(Shared, Option<XrcDomain>), String> {
    let with_xrc = |file| {
        let xrc = XrcDomain::open(context, file)?;
        let shared = xrc.receive_queue(context, domain, queue, buffers)?;
        xrc.try_pairs(context, domain, queue)?;
        Ok::<_, Errno>((shared, Some(xrc)))
    };
    if let Some(Ok(made)) = xrc_file.map(with_xrc) {
        return Ok(made);
    }
    let shared = Shared::new(context, domain, buffers);
    Ok((shared.map_err(failed("ibv_create_srq failed"))?, None))
}

impl Rail {
    /// Prepares an HCA. The error says what failed.
    pub fn new(context: Context, settings: &Settings, needs: Needs) -> Result<Self, String> {
        let mut rail = Self::with_receives(context, settings, &needs, usize::MAX)?;
        loop {
            match rail.prepare(settings) {
                Ok(()) => return Ok(rail),
                Err(Errno(libc::EINVAL)) if rail.plan.each > LEAST_RECEIVES => {
                    let most = rail.plan.each / 2;
                    rail = Self::with_receives(rail.into_context(), settings, &needs, most)?;
                }
                Err(why) => return Err(failed("ibv_create_qp failed")(why)),
            }
        }
    }

    /// Makes all but queue pairs, for at most this many receives of one that are not shared: an HCA
    /// may refuse as many as it takes of sends.
    fn with_receives(context: Context, settings: &Settings, needs: &Needs, most: usize) -> Result<Self, String> {
        let domain = Domain::new(&context).map_err(failed("ibv_alloc_pd failed"))?;
        let device = &context.attributes;
        let positive = |number: i32| usize::try_from(number).unwrap_or(0);
        let limits = Limits {
            shared: positive(device.max_srq).min(1) * positive(device.max_srq_wr),
            pair: positive(device.max_qp_wr).min(most),
            completions: positive(device.max_cqe),
        };
        let plan = ReceivePlan::new(settings, limits, needs.peers, needs.pairs)?;
        let depth = send_depth(settings.depth, device.max_qp_wr);
        // More are never under way.
        let all_sends = (depth * needs.peers * needs.pairs).max(LEAST_SENDS);
        let sends = match settings.total_depth {
            0 => all_sends,
            most => all_sends.min(most.max(LEAST_SENDS)),
        };
        let completions = plan.completion_queues(sends, limits.completions);
        let channel = needs.sleeps.then(|| Channel::new(&context)).transpose();
        let channel = channel.map_err(failed("ibv_create_comp_channel failed"))?;
        let queue = |_| Queue::new(&context, completions.length, channel.as_ref());
        let queues: Result<Box<[Queue]>, Errno> = (0..completions.count).map(queue).collect();
        let queues = queues.map_err(failed("ibv_create_cq failed"))?;
        let (shared, xrc) = if plan.each == 0 {
            let (shared, xrc) = shared_queue(&context, &domain, &queues[0], plan.count, needs.xrc_file)?;
            (Some(shared), xrc)
        } else {
            (None, None)
        };
        Ok(Self {
            place: needs.place,
            reader: MaybeLocked::new(Reader::default(), needs.sharing),
            sharing: needs.sharing,
            room: CompletionRoom::new(completions.sends, all_sends),
            receives: Receives::new(plan).map_err(failed("mmap failed"))?,
            plan,
            shared,
            xrc,
            queues,
            pairs: AtomicUsize::new(0),
            channel,
            on_demand: None,
            domain,
            context,
            depth: AtomicUsize::new(depth),
            buffers: plan.count,
            asked_inline: 0,
            inline: 0,
            fallen: Mutex::default(),
            left: Mutex::default(),
            moved: Mutex::default(),
        })
    }

    /// Ends all that was made of the HCA.
    fn into_context(self) -> Context {
        self.context
    }

    /// Counts completions if all send queues together, of `work_requests`, may have more of them
    /// than there is room for.
    pub fn limit_sends(&mut self, work_requests: usize) {
        self.room = CompletionRoom::new(self.room.most, work_requests);
    }

    /// Whether the shared receive queue is for XRC.
    pub fn has_xrc(&self) -> bool {
        self.xrc.is_some()
    }

    /// Makes another shared receive queue, which is not for XRC.
    pub fn leave_xrc(&mut self, settings: &Settings) -> Result<(), Errno> {
        self.shared = None;
        self.xrc = None;
        self.shared = Some(Shared::new(&self.context, &self.domain, self.buffers)?);
        self.prepare(settings)
    }

    /// Finds out what the HCA can, with XRC or without.
    fn prepare(&mut self, settings: &Settings) -> Result<(), Errno> {
        let pages = settings.on_demand && self.context.pages_on_demand(self.has_xrc());
        self.on_demand = pages.then(|| OnDemand::register(&self.domain)).flatten();
        (self.asked_inline, self.inline) = self.largest_inline(settings.inline);
        self.new_pair(0).map(drop)
    }

    /// Work requests in the send queue of a peer.
    pub fn depth(&self) -> usize {
        self.depth.load(Ordering::Relaxed)
    }

    /// Work requests in the send queue that several peers share.
    pub fn depth_of(&self, peers: usize) -> usize {
        /// A longer queue for more peers than this is no use.
        const MOST: usize = 4;
        let most = (self.context.attributes.max_qp_wr.max(1) as usize).min(SendQueue::MOST);
        (self.depth() * peers.clamp(1, MOST)).min(most)
    }

    /// The bytes of inline data to ask for, and those that queue pairs take: as wanted, or the
    /// HCA's limit, which shows only when a pair is made.
    fn largest_inline(&self, wanted: Option<usize>) -> (usize, usize) {
        /// More than HCAs take.
        const MOST: usize = 1 << 10;
        let mut bytes = wanted.unwrap_or(MOST);
        while bytes > 0 {
            // Few work requests always fit, even where they are as large as their inline data.
            if let Ok(pair) = self.pair(bytes, LEAST_DEPTH, 0) {
                let taken = pair.inline as usize;
                return (bytes, wanted.map_or(taken, |wanted| wanted.min(taken)));
            }
            bytes /= 2;
        }
        (0, 0)
    }

    fn pair(&self, inline: usize, depth: usize, name: usize) -> Result<Pair, Errno> {
        let settings = PairSettings {
            sends: depth as u32,
            receives: self.receives.each as u32,
            inline: inline as u32,
            name,
        };
        if self.has_xrc() {
            let queues = self.queues[0].alone();
            return Pair::new(&self.context, &self.domain, queues, abi::IBV_QPT_XRC_SEND, settings);
        }
        let queue = &self.queues[self.pairs.load(Ordering::Relaxed) % self.queues.len()];
        let shared = self.shared.as_ref();
        let queues = PairQueues { queue, shared };
        Pair::new(&self.context, &self.domain, queues, abi::IBV_QPT_RC, settings)
    }

    /// A queue pair that is not connected, by its name in events, and the work requests that it
    /// takes.
    pub fn new_pair(&self, name: usize) -> Result<(Pair, usize), Errno> {
        let depth = self.depth();
        let made = self.longest_pair(depth, name)?;
        self.pairs.fetch_add(1, Ordering::Relaxed);
        if made.1 < depth {
            self.depth.fetch_min(made.1, Ordering::Relaxed);
            if config::get().get_or_default(&config::VERBOSEENV) {
                print_line(format_args!(
                    "GASNet: ibv: {} refuses send queues of {depth} operations: they take {}.",
                    self.context.name, made.1
                ));
            }
        }
        Ok(made)
    }

    /// A pair of up to `depth` work requests, by its name in events. An HCA may refuse queues that
    /// its limits allow: mlx5 counts units of 64 bytes, of which a work request has several, and
    /// its queues are locked memory.
    pub fn longest_pair(&self, depth: usize, name: usize) -> Result<(Pair, usize), Errno> {
        let mut shorter = depth;
        loop {
            match self.pair(self.asked_inline, shorter, name) {
                Err(Errno(libc::EINVAL | libc::ENOMEM)) if shorter > LEAST_DEPTH => shorter /= 2,
                made => return made.map(|pair| (pair, shorter)),
            }
        }
    }

    /// The most receive buffers of all peers together, if they are shared.
    pub fn shared_buffers(&self) -> Option<usize> {
        self.shared.as_ref().map(|_| self.buffers)
    }

    /// Bytes that are locked for queues, when `pairs` pairs are made.
    pub fn queue_bytes(&self, pairs: usize) -> usize {
        let sends = limits::send_queue_bytes(self.depth(), self.asked_inline);
        pairs * sends + (self.queues.len() * self.room.most + self.buffers) * limits::COMPLETION
    }

    /// Takes completions.
    #[inline]
    pub fn completions<'a>(&self, reader: &'a mut Reader) -> Result<&'a [Wc], Errno> {
        if reader.early.is_empty() {
            return self.poll(reader);
        }
        let early = std::mem::take(&mut reader.early);
        for (place, completion) in reader.room.iter_mut().zip(&early) {
            place.write(*completion);
        }
        // SAFETY: as many were written; at most `MOST` are kept.
        Ok(unsafe { std::slice::from_raw_parts(reader.room.as_ptr().cast(), early.len()) })
    }

    /// Polls the queues in turn, up to one that has completions.
    #[inline]
    fn poll<'a>(&self, reader: &'a mut Reader) -> Result<&'a [Wc], Errno> {
        match &*self.queues {
            [queue] => queue.poll(&mut *reader.room),
            queues => Queue::poll_next(queues, &mut reader.next, &mut *reader.room),
        }
    }

    /// Before a thread sleeps: makes the next completion an event. False if there is one already,
    /// which the next poll handles.
    pub fn arm(&self) -> bool {
        let Some(channel) = &self.channel else { return false };
        let Some(mut reader) = self.reader.try_lock() else {
            return false;
        };
        // An event may also be that of a datagram.
        let is_armed = || self.queues.iter().all(|queue| queue.arm().is_ok());
        if channel.drain() || !reader.early.is_empty() || !is_armed() {
            return false;
        }
        if let Ok(found) = self.poll(&mut reader) {
            reader.early = found.to_vec();
        }
        reader.early.is_empty()
    }
}
