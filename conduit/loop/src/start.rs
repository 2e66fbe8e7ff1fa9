//! Start, stop, and the state of a started conduit.
#![forbid(unsafe_code)]

use crate::arrivals::{Arrival, Arrivals};
use crate::buffers::Buffers;
use crate::memory::Keys;
use crate::nic::Nic;
use crate::pinned::Pinned;
use crate::progress;
use crate::queue::Queue;
use crate::sys;
use crate::wire::Message;
use gasnet_conduit::{config, words, JobRank, StartInfo};
use gasnet_sys::atomic::Mutex;
use gasnet_sys::eventfd::Eventfd;
use gasnet_sys::{fd, lock, mem, process};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::Arc;
use std::thread::JoinHandle;

/// [`Net::states`]: present.
pub const PRESENT: u8 = 0;
/// [`Net::states`]: it has stopped.
pub const STOPPED: u8 = 1;
/// [`Net::states`]: it crashed, or an operation with it failed.
pub const LOST: u8 = 2;

/// Stack size of the NIC's thread.
const STACK_BYTES: usize = 256 << 10;

/// A started conduit. Locks are taken one at a time.
#[derive(Debug)]
pub struct Net {
    pub rank: JobRank,
    /// Processes that take part in barriers.
    pub leaders: Vec<JobRank>,
    /// By rank; none to this process.
    pub links: Vec<Option<OwnedFd>>,
    /// By rank.
    pub states: Vec<AtomicU8>,
    pub keys: Mutex<Keys>,
    pub pinned: Pinned,
    pub buffers: Mutex<Buffers>,
    /// Words that peers write.
    pub words: Box<[AtomicU64]>,
    pub queue: Mutex<Queue>,
    pub arrivals: Mutex<Arrivals>,
    /// Wakes the NIC.
    pub doorbell: Eventfd,
    /// Whether the NIC sleeps, or is about to.
    pub nic_sleeps: AtomicBool,
    /// Wakes the client.
    pub wake: Eventfd,
    /// The NIC until its thread takes it. Without a thread it advances in polls.
    pub polled_nic: Mutex<Option<Nic>>,
    pub has_thread: AtomicBool,
    pub stopped: AtomicBool,
    /// The last message to each peer, so that a signal handler allocates nothing.
    bye: Vec<u8>,
}

impl Net {
    /// Connects all processes. The processes of lower ranks listen for those of higher ranks.
    pub fn open(info: &StartInfo<'_>, pinned: Pinned) -> io::Result<Self> {
        let (size, me) = (info.size as usize, info.rank.index());
        let name = mem::random_u64();
        let listener = sys::listener(name)?;
        let names = (info.exchange)(&name.to_ne_bytes());
        let mut links: Vec<Option<OwnedFd>> = std::iter::repeat_with(|| None).take(size).collect();
        for (link, name) in links.iter_mut().zip(names.chunks_exact(8)).take(me) {
            let fd = sys::connect(u64::from_ne_bytes(name.try_into().unwrap_or_default()))?;
            fd::send(fd.as_raw_fd(), &hello(info.rank, info.job_token))?;
            *link = Some(fd);
        }
        // All connections wait at their listeners when this returns.
        (info.exchange)(&[0]);
        while links[me + 1..].iter().any(Option::is_none) {
            let fd = sys::accept(&listener)?;
            let mut first = [0; 25];
            let bytes = fd::receive(fd.as_raw_fd(), &mut first).unwrap_or(0);
            let peer = |rank: &usize| first[..bytes] == hello(JobRank(*rank as u32), info.job_token);
            // Another one is no process of this job.
            if let Some(rank) = (me + 1..size).find(peer) {
                links[rank].get_or_insert(fd);
            }
        }
        Ok(Self {
            rank: info.rank,
            leaders: info.leaders.to_vec(),
            links,
            states: std::iter::repeat_with(|| AtomicU8::new(PRESENT)).take(size).collect(),
            keys: Mutex::default(),
            pinned,
            buffers: Mutex::new(Buffers::new()),
            words: std::iter::repeat_with(AtomicU64::default).take(words::COUNT).collect(),
            queue: Mutex::new(Queue::new(size)),
            arrivals: Mutex::default(),
            doorbell: Eventfd::new()?,
            nic_sleeps: AtomicBool::new(false),
            wake: Eventfd::new()?,
            polled_nic: Mutex::new(Some(Nic::new(info.rank, size, info.leaders.len()))),
            has_thread: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            bye: Message::Bye.encode(),
        })
    }

    /// Gives the NIC a thread. None if the system refuses.
    pub fn start_thread(net: &Arc<Self>) -> Option<JoinHandle<()>> {
        let shared = net.clone();
        let thread = process::spawn_own_thread("gasnet-loop", config::stack_bytes(STACK_BYTES), move || {
            progress::run(&shared);
        });
        net.has_thread.store(thread.is_ok(), Relaxed);
        thread.ok()
    }

    /// Notifies all peers that this is no crash, and ends the NIC. Takes no lock, because a signal
    /// handler may end the job.
    pub fn stop(&self) {
        self.stopped.store(true, SeqCst);
        for link in self.links.iter().flatten() {
            // If that fails, the peer is gone, or it reads end-of-file later.
            let _ = fd::send(link.as_raw_fd(), &self.bye);
        }
        self.doorbell.wake();
    }

    /// Whether the peer neither stopped nor was lost.
    pub fn is_present(&self, peer: JobRank) -> bool {
        self.states[peer.index()].load(Relaxed) == PRESENT
    }

    /// NIC: records the loss of a peer, for the next poll.
    pub fn lose(&self, peer: JobRank, why: &str) {
        let state = &self.states[peer.index()];
        if state.compare_exchange(PRESENT, LOST, Relaxed, Relaxed).is_ok() {
            self.arrive(Arrival::Lost(peer, why.to_owned()));
        }
    }

    /// Wakes the NIC, if it sleeps.
    pub fn ring(&self) {
        if self.nic_sleeps.load(SeqCst) && self.nic_sleeps.swap(false, SeqCst) {
            self.doorbell.wake();
        }
    }

    /// Whether the client has posted something.
    pub fn has_work(&self) -> bool {
        lock(&self.queue).has_work()
    }
}

/// The first message on a connection: the rank that connects, and the job token that authenticates
/// it.
pub fn hello(rank: JobRank, token: u128) -> [u8; 24] {
    let mut hello = [0; 24];
    hello[..8].copy_from_slice(&u64::from(rank.0).to_ne_bytes());
    hello[8..].copy_from_slice(&token.to_ne_bytes());
    hello
}
