//! MPI and the peers of this process.

use crate::ffi::{Failure, Handle, World};
use crate::memory::Memory;
use crate::operations::{Buffer, Done, Operations};
use crate::peers::Peers;
use crate::wire::{kind, Header, HEADER};
use gasnet_conduit::{Class, JobRank};
use gasnet_conduit_util::mapped::Mapped;
use gasnet_conduit_util::pending_queue::PendingQueue;
use gasnet_conduit_util::pool::Pool;
use gasnet_conduit_util::record::Record;
use gasnet_sys::maybe_locked::{MaybeLocked, MaybeLockedGuard};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a small send buffer.
pub const SMALL: usize = 2 << 10;
/// Most send buffers of each size for requests, and for replies.
const BUFFERS: usize = 4096;
/// Most bytes of the large ones.
const BUFFER_BYTES: usize = 64 << 20;
/// Most send buffers of this size for a class.
pub fn most_buffers(bytes: usize) -> usize {
    (BUFFER_BYTES / bytes).clamp(64, BUFFERS)
}

/// Time for threads to leave MPI, and for own messages to arrive, at the end.
const LAST: Duration = Duration::from_secs(2);

/// MPI and the peers. It stays for the life of the process: MPI has addresses of buffers.
pub struct Link<H: 'static> {
    pub world: &'static World<H>,
    pub rank: JobRank,
    pub peers: Peers<H>,
    /// Identifies the job.
    pub token: u32,
    /// Bytes of the largest packet.
    pub max_packet: usize,
    /// Operations under way. Its holder may call MPI.
    pub operations: MaybeLocked<Operations<H>>,
    /// Send buffers for requests and replies, small and large.
    pub pools: [[Pool<(), Mapped>; 2]; 2],
    /// Send buffers for negotiated payloads.
    pub reserved: Pool<(), Mapped>,
    /// Receive buffers, of which many are posted.
    pub receives: Pool<(), Mapped>,
    /// Requests that arrived while only replies were polled.
    pub held: PendingQueue<Held>,
    /// Memory for one-sided calls, if puts and gets are such.
    pub memory: Option<Memory<H>>,
    /// A signal handler ends this process: whether it interrupted a call of MPI is not known.
    pub by_signal: AtomicBool,
}

/// A request in its receive buffer: the packet has this many bytes.
pub struct Held {
    pub source: JobRank,
    pub bytes: usize,
    pub buffer: Buffer,
}

/// A message that is ready to be sent: `bytes` bytes of a buffer.
pub struct Message {
    pub to: JobRank,
    pub buffer: Buffer,
    pub bytes: usize,
}

/// MPI, for a thread that has it for itself.
pub type Turn<'a, H> = MaybeLockedGuard<'a, Operations<H>>;

impl<H: Handle> Link<H> {
    /// MPI, once no other thread has it. None if this process has stopped.
    #[inline]
    pub fn turn(&self) -> Option<Turn<'_, H>> {
        let turn = self.operations.lock();
        (!self.peers.states.is_stopped()).then_some(turn)
    }

    /// MPI, unless another thread has it, or this process has stopped.
    #[inline]
    pub fn try_turn(&self) -> Option<Turn<'_, H>> {
        let turn = self.operations.try_lock()?;
        (!self.peers.states.is_stopped()).then_some(turn)
    }

    /// A header of this process. At most [`crate::wire::MOST_CREDITS`] are returned.
    #[inline]
    pub fn header(&self, kind: u16, bytes: usize, credits: u32) -> Header {
        Header {
            source: self.rank.0,
            bytes: bytes as u32,
            credits: credits as u16,
            kind,
            token: self.token,
        }
    }

    /// A send buffer for a packet of `bytes` bytes.
    #[inline]
    pub fn buffer(&self, class: Class, bytes: usize) -> Option<Buffer> {
        let [small, large] = &self.pools[usize::from(class == Class::Reply)];
        let pool = if HEADER + bytes <= small.bytes() { small } else { large };
        pool.take_or_make(|| ())
    }

    /// Starts to send a message. If that fails, the peer is lost.
    pub fn post(&self, turn: &mut Turn<'_, H>, message: Message) {
        let Message { to, buffer, bytes } = message;
        let place = self.peers.place(to);
        // SAFETY: nobody has the buffer until the send is complete, and MPI is the caller's.
        let sent = unsafe { self.world.functions.send(place, buffer.address(), bytes) };
        // SAFETY: as above. Most small messages are in MPI's own buffers already.
        let pending = sent.and_then(|request| unsafe { self.world.functions.test(request) });
        match pending {
            Ok(Some(request)) => turn.sending(request, to, buffer),
            Ok(None) => buffer.release(),
            Err(Failure(why)) => {
                buffer.release();
                self.peers.states.lose(to, why);
            }
        }
    }

    /// Posts receives again where messages were delivered.
    #[inline]
    pub fn receive_again(&self, turn: &mut Turn<'_, H>) {
        while let Some(buffer) = turn.take_vacant() {
            self.receive(turn, buffer);
        }
    }

    /// Posts a receive into a buffer. If that fails, so has the network.
    #[inline]
    pub fn receive(&self, turn: &mut Turn<'_, H>, buffer: Buffer) {
        let comm = self.peers.place(self.rank).comm;
        let (functions, bytes) = (self.world.functions, HEADER + self.max_packet);
        // SAFETY: nobody has the buffer until the receive is complete, and MPI is the caller's.
        match unsafe { functions.receive(comm, buffer.address(), bytes) } {
            Ok(request) => turn.receiving(request, buffer),
            Err(Failure(why)) => {
                buffer.release();
                self.peers.states.fail(&why);
            }
        }
    }

    /// MPI, after this process has stopped. None if a thread does not leave it.
    fn last_turn(&self) -> Option<Turn<'_, H>> {
        self.peers.states.stop();
        let start = Instant::now();
        while !self.by_signal.load(Ordering::Relaxed) && start.elapsed() < LAST {
            if let Some(turn) = self.operations.try_lock() {
                return Some(turn);
            }
            std::thread::yield_now();
        }
        None
    }

    /// Whether no thread is inside MPI, or will be.
    pub fn has_left(&self) -> bool {
        self.last_turn().is_some()
    }

    /// Completes the receives, before all processes finalize MPI, by messages to this process. MPIs
    /// otherwise wait for them or complain, and not all can cancel them (reference/mpi.md).
    pub fn drain(&self) {
        let Some(mut turn) = self.last_turn() else { return };
        for _ in 0..turn.posted() {
            let Some(mut buffer) = self.buffer(Class::Reply, 0) else {
                break;
            };
            self.header(kind::CREDITS, 0, 0).put(buffer.bytes(HEADER));
            let message = Message {
                to: self.rank,
                buffer,
                bytes: HEADER,
            };
            self.post(&mut turn, message);
        }
        let start = Instant::now();
        let has_any = |turn: &Turn<'_, H>| turn.posted() > 0 || turn.is_sending();
        while has_any(&turn) && start.elapsed() < LAST {
            match turn.next(self.world.functions) {
                Ok(Some(Done::Sent(buffer))) => buffer.release(),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        if let Some(memory) = &self.memory {
            // SAFETY: the process has stopped, and this thread has MPI.
            unsafe { memory.window.free() };
        }
    }
}
