//! Reliable connected queue pairs.

use super::made::{Made, PairOf};
use super::region::Domain;
use super::{Access, Context, Errno, Functions, Queue, Shared};
use gasnet_conduit_util::record;
use gasnet_ibv_abi as abi;
use gasnet_sys::atomic::Ordering;
use std::mem::{offset_of, MaybeUninit};
use std::ptr;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

record! {
    /// Address of a port on the network.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Address {
        /// Its LID; 0 on Ethernet.
        pub lid: u16,
        /// Its GID; on InfiniBand zero, if it has none.
        pub gid: [u8; 16],
    }
}

/// A port of this process, as its packets need it.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalPort {
    /// Its number.
    pub number: u8,
    /// Its address.
    pub address: Address,
    /// Index of its GID.
    pub gid_index: u8,
    /// Whether packets have a global header: on RoCE, and where a port of the job requires it or
    /// the user names GIDs.
    pub is_global: bool,
    /// Index of the partition key.
    pub pkey_index: u16,
    /// The partition key; 0: not known.
    pub pkey: u16,
    /// Service level.
    pub service_level: u8,
    /// Traffic class of the global header.
    pub traffic_class: u8,
}

impl LocalPort {
    pub(super) fn route(&self, to: &Address) -> abi::ibv_ah_attr {
        /// Of packets that routers forward: as many as the protocol allows, less those of others.
        const HOPS: u8 = 64;
        // SAFETY: zero bytes are valid: numbers only.
        let mut route: abi::ibv_ah_attr = unsafe { MaybeUninit::zeroed().assume_init() };
        route.port_num = self.number;
        route.sl = self.service_level;
        route.dlid = to.lid;
        if self.is_global {
            route.is_global = 1;
            route.grh.dgid.raw = to.gid;
            route.grh.sgid_index = self.gid_index;
            route.grh.hop_limit = HOPS;
            route.grh.traffic_class = self.traffic_class;
        }
        route
    }
}

/// Sizes of a queue pair.
#[derive(Clone, Copy, Debug)]
pub struct PairSettings {
    /// Work requests in its send queue.
    pub sends: u32,
    /// Buffers in its own receive queue, if no queue is shared.
    pub receives: u32,
    /// Bytes of inline data.
    pub inline: u32,
    /// Its name in events.
    pub name: usize,
}

/// How a connection transmits.
#[derive(Clone, Copy, Debug)]
pub struct Transport {
    /// `IBV_MTU_*`.
    pub mtu: abi::ibv_mtu,
    /// Exponent of the time until a retransmission, in units of 4.096 µs.
    pub timeout: u8,
    /// Retransmissions.
    pub retries: u8,
    /// Reads and atomics of this process under way.
    pub reads: u8,
    /// Those of the peer.
    pub peer_reads: u8,
    /// Number of the first packet in both directions, 24 bits. Packets of another job that reach
    /// this pair have others, and are dropped.
    pub first_packet: u32,
}

/// Attributes of pairs that execute the peer's operations.
pub const RESPONDER: abi::ibv_qp_attr_mask = abi::IBV_QP_MAX_DEST_RD_ATOMIC | abi::IBV_QP_MIN_RNR_TIMER;

/// A queue pair.
pub struct Pair {
    library: &'static Functions,
    made: Made<abi::ibv_qp, PairOf>,
    send: unsafe extern "C" fn(*mut abi::ibv_qp, *mut abi::ibv_send_wr, *mut *mut abi::ibv_send_wr) -> i32,
    receive: unsafe extern "C" fn(*mut abi::ibv_qp, *mut abi::ibv_recv_wr, *mut *mut abi::ibv_recv_wr) -> i32,
    /// Its number.
    pub number: u32,
    /// Bytes of inline data that it takes.
    pub inline: u32,
    /// Whether [`Pair::connect`] has succeeded, which may take several tries.
    is_connected: AtomicBool,
}

/// Attributes that are all zero.
pub(super) fn no_attributes() -> abi::ibv_qp_attr {
    // SAFETY: zero bytes are valid: numbers only.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// The queues of a pair.
#[derive(Clone, Copy)]
pub struct PairQueues<'a> {
    /// That of completions.
    pub queue: &'a Queue,
    /// That of receives, if it is shared.
    pub shared: Option<&'a Shared>,
}

impl Queue {
    /// For a pair without a shared receive queue.
    pub fn alone(&self) -> PairQueues<'_> {
        PairQueues {
            queue: self,
            shared: None,
        }
    }
}

/// A queue pair of a peer.
#[derive(Clone, Copy)]
pub struct PeerPair<'a> {
    pub address: &'a Address,
    pub number: u32,
}

impl Pair {
    /// A new one of a type, `IBV_QPT_*`. Its sends and receives report to a queue.
    pub fn new(
        context: &Context,
        domain: &Domain,
        queues: PairQueues<'_>,
        qp_type: abi::ibv_qp_type,
        settings: PairSettings,
    ) -> Result<Self, Errno> {
        let (library, PairQueues { queue, shared }) = (context.library, queues);
        let mut attributes = abi::ibv_qp_init_attr {
            qp_context: ptr::without_provenance_mut(settings.name),
            send_cq: queue.made.raw(),
            recv_cq: queue.made.raw(),
            srq: shared.map_or(ptr::null_mut(), |shared| shared.made.raw()),
            cap: abi::ibv_qp_cap {
                max_send_wr: settings.sends,
                max_recv_wr: settings.receives,
                max_send_sge: 2,
                max_recv_sge: 1,
                max_inline_data: settings.inline,
            },
            qp_type,
            sq_sig_all: 0,
        };
        if qp_type == abi::IBV_QPT_XRC_SEND {
            (attributes.cap.max_recv_wr, attributes.cap.max_recv_sge) = (0, 0);
        }
        // SAFETY: objects of one device.
        let raw = unsafe { (library.create_qp)(domain.raw(), &raw mut attributes) };
        let shared = shared.map(|shared| Arc::clone(&shared.made));
        let parents = PairOf::Domain(Arc::clone(&domain.made), Arc::clone(&queue.made), shared);
        // SAFETY: just made, or null.
        unsafe { Self::of_raw(context, raw, parents, attributes.cap.max_inline_data) }
    }

    /// Takes over the object that a call has made of these; null: it failed.
    ///
    /// # Safety
    /// Nothing else ends it.
    pub(super) unsafe fn of_raw(
        context: &Context,
        raw: *mut abi::ibv_qp,
        parents: PairOf,
        inline: u32,
    ) -> Result<Self, Errno> {
        // SAFETY: the caller's.
        let made = unsafe { Made::new(raw, context.library.destroy_qp, parents)? };
        let (Some(send), Some(receive)) = (context.ops().post_send, context.ops().post_recv) else {
            panic!("defect: a device without ibv_post_send");
        };
        Ok(Self {
            library: context.library,
            made,
            send,
            receive,
            // SAFETY: a queue pair; its number is constant.
            number: unsafe { (*raw).qp_num },
            inline,
            is_connected: AtomicBool::new(false),
        })
    }

    pub(super) fn modify(&self, attributes: &mut abi::ibv_qp_attr, mask: abi::ibv_qp_attr_mask) -> Result<(), Errno> {
        // SAFETY: a queue pair; the mask says which attributes are read.
        Errno::check(unsafe { (self.library.modify_qp)(self.made.raw(), attributes, mask as i32) })
    }

    /// Binds a new pair to a port: it takes receive buffers.
    pub fn initialise(&self, port: &LocalPort, access: Access) -> Result<(), Errno> {
        let mut attributes = no_attributes();
        attributes.qp_state = abi::IBV_QPS_INIT;
        attributes.pkey_index = port.pkey_index;
        attributes.port_num = port.number;
        attributes.qp_access_flags = access.0;
        let mask = abi::IBV_QP_STATE | abi::IBV_QP_PKEY_INDEX | abi::IBV_QP_PORT | abi::IBV_QP_ACCESS_FLAGS;
        self.modify(&mut attributes, mask)
    }

    /// Connects to a pair of a peer, unless it is connected: this one receives and sends from now
    /// on. `more` are attributes beside those that every pair needs: [`RESPONDER`], or none of one
    /// that only sends. One call at a time.
    pub fn connect(
        &self,
        port: &LocalPort,
        to: PeerPair<'_>,
        transport: Transport,
        more: abi::ibv_qp_attr_mask,
    ) -> Result<(), Errno> {
        if !self.is_connected.load(Ordering::Acquire) {
            self.receive_from(port, to, transport, more)?;
            self.send_from_now_on(transport)?;
            self.is_connected.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Connects to a pair of a peer, from which this one receives from now on.
    pub fn receive_from(
        &self,
        port: &LocalPort,
        to: PeerPair<'_>,
        transport: Transport,
        more: abi::ibv_qp_attr_mask,
    ) -> Result<(), Errno> {
        /// Time that a peer waits when there is no receive buffer: 0.64 ms, by the table of the
        /// specification (volume 1, "RNR NAK timer").
        const RNR_TIMER: u8 = 12;
        let mut attributes = no_attributes();
        attributes.qp_state = abi::IBV_QPS_RTR;
        attributes.path_mtu = transport.mtu;
        attributes.dest_qp_num = to.number;
        attributes.rq_psn = transport.first_packet;
        attributes.max_dest_rd_atomic = transport.peer_reads;
        attributes.min_rnr_timer = RNR_TIMER;
        attributes.ah_attr = port.route(to.address);
        let mask = abi::IBV_QP_STATE
            | abi::IBV_QP_AV
            | abi::IBV_QP_PATH_MTU
            | abi::IBV_QP_DEST_QPN
            | abi::IBV_QP_RQ_PSN
            | more;
        self.modify(&mut attributes, mask)
    }

    /// Lets a connected pair send.
    pub(super) fn send_from_now_on(&self, transport: Transport) -> Result<(), Errno> {
        /// Retry for ever: credits make it rare, and the peer will post buffers.
        const RNR_RETRIES: u8 = 7;
        let mut attributes = no_attributes();
        attributes.qp_state = abi::IBV_QPS_RTS;
        attributes.sq_psn = transport.first_packet;
        attributes.timeout = transport.timeout;
        attributes.retry_cnt = transport.retries;
        attributes.rnr_retry = RNR_RETRIES;
        attributes.max_rd_atomic = transport.reads;
        let mask = abi::IBV_QP_STATE
            | abi::IBV_QP_TIMEOUT
            | abi::IBV_QP_RETRY_CNT
            | abi::IBV_QP_RNR_RETRY
            | abi::IBV_QP_SQ_PSN
            | abi::IBV_QP_MAX_QP_RD_ATOMIC;
        self.modify(&mut attributes, mask)
    }

    /// Whether the HCA promises to write the data of the peer's puts to this pair in order, which
    /// it does only while the pair is connected.
    pub fn lands_in_order(&self) -> bool {
        self.library.query_qp_data_in_order.is_some_and(|query| {
            // SAFETY: a live pair.
            unsafe { query(self.made.raw(), abi::IBV_WR_RDMA_WRITE, 0) > 0 }
        })
    }

    /// Loads an alternate path. The HCA may move this pair there when packets have passed between
    /// both ends after both have loaded one, and reports that by an event.
    pub fn load_alternate(&self, port: &LocalPort, to: &Address, timeout: u8) -> Result<(), Errno> {
        let mut attributes = no_attributes();
        attributes.qp_state = abi::IBV_QPS_RTS;
        attributes.alt_ah_attr = port.route(to);
        attributes.alt_port_num = port.number;
        attributes.alt_pkey_index = port.pkey_index;
        attributes.alt_timeout = timeout;
        attributes.path_mig_state = abi::IBV_MIG_REARM;
        let mask = abi::IBV_QP_STATE | abi::IBV_QP_ALT_PATH | abi::IBV_QP_PATH_MIG_STATE;
        self.modify(&mut attributes, mask)
    }

    /// Posts a work request. [`Errno::NO_MEMORY`]: the queue is full.
    ///
    /// # Safety
    /// Its memory stays as it is, and writable for reads and atomics, until it completes.
    #[inline(always)]
    pub unsafe fn post(&self, work: &mut Work) -> Result<(), Errno> {
        // Of the whole, since a second piece follows the first.
        work.request.sg_list = (&raw mut *work).wrapping_byte_add(offset_of!(Work, local)).cast();
        let mut refused = ptr::null_mut();
        // SAFETY: a queue pair, and a request that lives until the call returns.
        Errno::check(unsafe { (self.send)(self.made.raw(), &raw mut work.request, &raw mut refused) })
    }

    /// # Safety
    /// As of [`super::ReceiveQueue::post`].
    pub(super) unsafe fn post_receives(
        &self,
        requests: *mut abi::ibv_recv_wr,
        refused: *mut *mut abi::ibv_recv_wr,
    ) -> i32 {
        // SAFETY: the caller's.
        unsafe { (self.receive)(self.made.raw(), requests, refused) }
    }
}

/// Local memory of a work request.
#[derive(Clone, Copy, Debug)]
pub struct Local {
    /// First byte.
    pub address: usize,
    /// Length.
    pub bytes: usize,
    /// Key of its region; any for inline data.
    pub lkey: u32,
}

impl Local {
    #[inline(always)]
    fn entry(&self) -> abi::ibv_sge {
        abi::ibv_sge {
            addr: self.address as u64,
            length: self.bytes as u32,
            lkey: self.lkey,
        }
    }
}

record! {
    /// Memory of a peer.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Remote {
        /// First byte.
        pub address: usize,
        /// Key of its region.
        pub rkey: u32,
    }
}

/// A work request with one or two pieces of local memory.
#[repr(C)]
pub struct Work {
    request: abi::ibv_send_wr,
    local: abi::ibv_sge,
    /// The second one, if the request has two: it follows the first in memory.
    second: MaybeUninit<abi::ibv_sge>,
}

const _: () = assert!(offset_of!(Work, second) == offset_of!(Work, local) + size_of::<abi::ibv_sge>());

impl Work {
    #[inline(always)]
    fn new(opcode: abi::ibv_wr_opcode, local: &Local) -> Self {
        // SAFETY: zero bytes are valid: numbers and null pointers.
        let mut request: abi::ibv_send_wr = unsafe { MaybeUninit::zeroed().assume_init() };
        request.opcode = opcode;
        request.num_sge = i32::from(local.bytes > 0);
        Self {
            request,
            local: local.entry(),
            second: MaybeUninit::uninit(),
        }
    }

    /// A message with 32 bits beside its bytes.
    #[inline(always)]
    pub fn send(local: &Local, immediate: u32) -> Self {
        let mut work = Self::new(abi::IBV_WR_SEND_WITH_IMM, local);
        work.request.__bindgen_anon_1.imm_data = immediate.to_be();
        work
    }

    /// A message of two pieces.
    pub fn gather(first: &Local, second: &Local, immediate: u32) -> Self {
        let mut work = Self::send(first, immediate);
        work.request.num_sge = 2;
        work.second.write(second.entry());
        work
    }

    /// A put.
    #[inline(always)]
    pub fn write(local: &Local, remote: Remote) -> Self {
        Self::rdma(abi::IBV_WR_RDMA_WRITE, local, remote)
    }

    /// A get.
    #[inline(always)]
    pub fn read(local: &Local, remote: Remote) -> Self {
        Self::rdma(abi::IBV_WR_RDMA_READ, local, remote)
    }

    #[inline(always)]
    fn rdma(opcode: abi::ibv_wr_opcode, local: &Local, remote: Remote) -> Self {
        let mut work = Self::new(opcode, local);
        work.request.wr.rdma.remote_addr = remote.address as u64;
        work.request.wr.rdma.rkey = remote.rkey;
        work
    }

    /// Adds to 8 bytes, and returns what they were.
    pub fn fetch_add(local: &Local, remote: Remote, addend: u64) -> Self {
        Self::atomic(abi::IBV_WR_ATOMIC_FETCH_AND_ADD, local, remote, [addend, 0])
    }

    /// Replaces 8 bytes if they are expected, and returns what they were.
    pub fn compare_swap(local: &Local, remote: Remote, expected: u64, new: u64) -> Self {
        Self::atomic(abi::IBV_WR_ATOMIC_CMP_AND_SWP, local, remote, [expected, new])
    }

    fn atomic(opcode: abi::ibv_wr_opcode, local: &Local, remote: Remote, operands: [u64; 2]) -> Self {
        let mut work = Self::new(opcode, local);
        work.request.wr.atomic.remote_addr = remote.address as u64;
        work.request.wr.atomic.rkey = remote.rkey;
        work.request.wr.atomic.compare_add = operands[0];
        work.request.wr.atomic.swap = operands[1];
        work
    }

    /// A datagram to an address.
    pub(super) fn datagram(local: &Local, handle: *mut abi::ibv_ah, number: u32, key: u32) -> Self {
        let mut work = Self::new(abi::IBV_WR_SEND, local);
        work.request.wr.ud.ah = handle;
        work.request.wr.ud.remote_qpn = number;
        work.request.wr.ud.remote_qkey = key;
        work
    }

    /// Its local memory is read before the post returns.
    #[inline]
    pub fn inline(&mut self) {
        self.request.send_flags |= abi::IBV_SEND_INLINE;
    }

    /// Its completion is reported under this name.
    #[inline]
    pub fn signal(&mut self) {
        self.request.send_flags |= abi::IBV_SEND_SIGNALED;
    }

    /// The peer's receive queue, which counts for XRC only.
    #[inline(always)]
    pub fn receive_queue(&mut self, number: u32) {
        self.request.qp_type.xrc.remote_srqn = number;
    }

    /// Names its completion.
    #[inline]
    pub fn name(&mut self, id: u64) {
        self.request.wr_id = id;
    }
}
