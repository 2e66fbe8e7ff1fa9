//! Unreliable datagrams, which set connections up.

use super::made::{Made, ProtectionDomain};
use super::pair::{no_attributes, Local, LocalPort, Work};
use super::receives::{ReceiveBuffer, BATCH};
use super::region::{Access, Domain, Region};
use super::{Address, Context, Errno, Functions, Pair, PairSettings, Queue, ReceiveQueue, Wc};
use gasnet_conduit_util::mapped::Mapped;
use gasnet_ibv_abi as abi;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// Bytes that precede a received datagram: room for its global header.
const GRH: usize = size_of::<abi::ibv_grh>();
/// Most bytes of a datagram: less than any MTU.
pub const MOST: usize = 248;
/// Bytes of a buffer for one to send.
const SEND: usize = MOST.next_multiple_of(64);
/// Bytes of a buffer for one to receive: no MTU is larger. A longer datagram than its buffer would
/// stop the queue pair, whoever sends it.
const RECEIVE: usize = (GRH + 4096).next_multiple_of(64);
/// The queue pair begins anew at most so often before a datagram arrives.
const MOST_RESTARTS: u32 = 8;
/// The names of sends begin here; those of receives are below.
const FIRST_SEND: u64 = 1 << 32;

/// A datagram that failed at its sender.
#[derive(Clone, Copy, Debug)]
pub struct SendError {
    pub status: abi::ibv_wc_status,
    pub vendor: u32,
    /// Failures since the last success.
    pub failures: u32,
}

/// The datagram queue pair of a port.
pub struct Datagrams {
    library: &'static Functions,
    port: LocalPort,
    receives: usize,
    domain: ProtectionDomain,
    // Before the handles and the memory, which datagrams under way use.
    pair: Pair,
    /// The address handles of datagrams under way, by send buffer.
    sends: Vec<Option<Handle>>,
    /// The Q_Key of the queue pairs of the job.
    key: u32,
    /// Errors since a datagram was sent without one.
    failures: u32,
    /// Restarts since one has arrived.
    restarts: u32,
    queue: Queue,
    region: Region,
    memory: Mapped,
}

/// The Q_Key of a job: other jobs do not know it. One with the highest bit set is for privileged
/// processes, and would stand for that of the queue pair.
fn key(token: u64) -> u32 {
    let mixed = token.wrapping_mul(0xff51_afd7_ed55_8ccd);
    (mixed >> 33) as u32
}

/// An address handle, which no datagram uses any more when it is dropped.
type Handle = Made<abi::ibv_ah, ProtectionDomain>;

/// Settings of datagrams.
#[derive(Clone, Copy)]
pub struct DatagramSettings {
    pub port: LocalPort,
    /// The same in all processes of the job.
    pub token: u64,
    /// Buffers to send.
    pub sends: usize,
    /// Buffers to receive.
    pub receives: usize,
}

impl Datagrams {
    /// Opens it. None: the device has no such queue pairs.
    pub fn new(
        context: &Context,
        domain: &Domain,
        settings: DatagramSettings,
        channel: Option<&super::Channel>,
    ) -> Result<Option<Self>, Errno> {
        let DatagramSettings {
            port,
            token,
            sends,
            receives,
        } = settings;
        let bytes = RECEIVE * receives + SEND * sends;
        let memory = Mapped::new(bytes)?;
        // SAFETY: the memory is unmapped after the region is dropped.
        let region = unsafe { domain.register(memory.address(), bytes, Access::LOCAL)? };
        let queue = Queue::new(context, sends + receives, channel)?;
        let pair = |sends: usize, receives: usize| {
            let settings = PairSettings {
                sends: sends as u32,
                receives: receives as u32,
                inline: 0,
                name: 0,
            };
            Pair::new(context, domain, queue.alone(), abi::IBV_QPT_UD, settings)
        };
        let pair = match pair(sends, receives) {
            Ok(pair) => pair,
            // Not even the smallest one: qedr, hns of HIP08 and mana (rdma-core@166c46bc:
            // providers/mana/qp.c) have none.
            Err(_) if matches!(pair(1, 1), Err(Errno(libc::EOPNOTSUPP | libc::EINVAL))) => return Ok(None),
            Err(why) => return Err(why),
        };
        let this = Self {
            library: context.library,
            port,
            receives,
            domain: Arc::clone(&domain.made),
            pair,
            sends: std::iter::repeat_with(|| None).take(sends).collect(),
            key: key(token),
            failures: 0,
            restarts: 0,
            queue,
            region,
            memory,
        };
        this.start()?;
        Ok(Some(this))
    }

    fn start(&self) -> Result<(), Errno> {
        let mut attributes = no_attributes();
        attributes.qp_state = abi::IBV_QPS_INIT;
        attributes.pkey_index = self.port.pkey_index;
        attributes.port_num = self.port.number;
        attributes.qkey = self.key;
        let mask = abi::IBV_QP_STATE | abi::IBV_QP_PKEY_INDEX | abi::IBV_QP_PORT | abi::IBV_QP_QKEY;
        self.pair.modify(&mut attributes, mask)?;
        let all: Vec<u64> = (0..self.receives as u64).collect();
        all.chunks(BATCH).try_for_each(|some| self.post(some))?;
        attributes.qp_state = abi::IBV_QPS_RTR;
        self.pair.modify(&mut attributes, abi::IBV_QP_STATE)?;
        attributes.qp_state = abi::IBV_QPS_RTS;
        self.pair
            .modify(&mut attributes, abi::IBV_QP_STATE | abi::IBV_QP_SQ_PSN)
    }

    /// Gives datagrams a global header. Before the first is sent.
    pub fn use_global_header(&mut self) {
        self.port.is_global = true;
    }

    /// Number of the queue pair.
    pub fn number(&self) -> u32 {
        self.pair.number
    }

    fn buffer(&self, index: usize) -> usize {
        self.memory.address() + index * RECEIVE
    }

    #[inline(never)]
    fn post(&self, names: &[u64]) -> Result<(), Errno> {
        let buffer = |id: &u64| ReceiveBuffer {
            id: *id,
            address: self.buffer(*id as usize),
            bytes: RECEIVE,
            lkey: self.region.lkey,
        };
        // SAFETY: registered, and only read between completion and post.
        unsafe { ReceiveQueue::Own(&self.pair).post(names.iter().map(buffer)) }
    }

    /// Sends a datagram of at most [`MOST`] bytes. It may be lost; one that finds no buffer is.
    pub fn send(&mut self, to: &Address, number: u32, bytes: &[u8]) -> Result<(), Errno> {
        assert!(bytes.len() <= MOST, "defect: a datagram of {} bytes", bytes.len());
        let Some(slot) = self.sends.iter().position(Option::is_none) else {
            return Ok(());
        };
        let mut route = self.port.route(to);
        // SAFETY: a domain, and attributes of its device.
        let raw = unsafe { (self.library.create_ah)(self.domain.raw(), &raw mut route) };
        // SAFETY: just made, or null.
        let handle = unsafe { Handle::new(raw, self.library.destroy_ah, Arc::clone(&self.domain))? };
        let address = self.buffer(self.receives) + slot * SEND;
        // SAFETY: a send buffer that no datagram under way uses, and long enough.
        unsafe { (address as *mut u8).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        let local = Local {
            address,
            bytes: bytes.len(),
            lkey: self.region.lkey,
        };
        let mut work = Work::datagram(&local, raw, number, self.key);
        work.signal();
        work.name(FIRST_SEND + slot as u64);
        // SAFETY: the buffer is used again only after its completion.
        unsafe { self.pair.post(&mut work)? };
        self.sends[slot] = Some(handle);
        Ok(())
    }

    /// Passes on what has arrived: at most [`BATCH`] datagrams. Returns the first error of a
    /// datagram sent; its queue pair works again then.
    #[inline(never)] // Its completions need not lie on the stack of who uses the datagrams.
    pub fn poll(&mut self, each: &mut dyn FnMut(&[u8])) -> Result<Option<SendError>, Errno> {
        let mut room = [const { MaybeUninit::<Wc>::uninit() }; BATCH];
        let completions = self.queue.poll(&mut room)?;
        let (mut arrived, mut failed, mut has_stopped) = (Vec::new(), None, false);
        for completion in completions {
            let is_send = completion.wr_id >= FIRST_SEND;
            let is_error = completion.status != abi::IBV_WC_SUCCESS && completion.status != abi::IBV_WC_WR_FLUSH_ERR;
            if is_send && is_error {
                self.failures += 1;
                failed.get_or_insert(SendError {
                    status: completion.status,
                    vendor: completion.vendor_err,
                    failures: self.failures,
                });
            }
            if let Some(slot) = completion.wr_id.checked_sub(FIRST_SEND) {
                self.sends[slot as usize] = None;
                if completion.status == abi::IBV_WC_SUCCESS {
                    self.failures = 0;
                }
                continue;
            }
            arrived.push(completion.wr_id);
            // A receive fails only when the queue pair has stopped.
            has_stopped |= completion.status != abi::IBV_WC_SUCCESS;
            let bytes = (completion.byte_len as usize).clamp(GRH, RECEIVE) - GRH;
            if completion.status == abi::IBV_WC_SUCCESS {
                self.restarts = 0;
                let address = self.buffer(completion.wr_id as usize) + GRH;
                // SAFETY: a receive buffer that is not posted, of which the device has filled so
                // many bytes.
                each(unsafe { std::slice::from_raw_parts(address as *const u8, bytes) });
            }
        }
        if !has_stopped && (failed.is_none() || self.send_again().is_ok()) {
            self.post(&arrived)?;
        } else {
            self.restart()?;
        }
        Ok(failed)
    }

    /// An error of a datagram stops its queue pair (state SQE), which flushes all later ones. This
    /// ends that. Fails if receives have stopped, too. Drivers do not follow the state of the HCA,
    /// so they must be given it.
    fn send_again(&self) -> Result<(), Errno> {
        let mut attributes = no_attributes();
        attributes.qp_state = abi::IBV_QPS_RTS;
        attributes.cur_qp_state = abi::IBV_QPS_SQE;
        self.pair
            .modify(&mut attributes, abi::IBV_QP_STATE | abi::IBV_QP_CUR_STATE)
    }

    /// Begins anew, with all receive buffers: rxe stops the whole queue pair when a datagram fails
    /// (linux@06a7fcfc9a32:drivers/infiniband/sw/rxe/rxe_comp.c). Datagrams under way are lost.
    /// Fails after too many times.
    #[cold]
    #[inline(never)]
    fn restart(&mut self) -> Result<(), Errno> {
        self.restarts += 1;
        if self.restarts > MOST_RESTARTS {
            return Err(Errno(libc::EIO));
        }
        let mut attributes = no_attributes();
        attributes.qp_state = abi::IBV_QPS_RESET;
        self.pair.modify(&mut attributes, abi::IBV_QP_STATE)?;
        let mut room = [const { MaybeUninit::<Wc>::uninit() }; BATCH];
        while !self.queue.poll(&mut room)?.is_empty() {}
        self.sends.fill_with(|| None);
        self.start()
    }

    /// Makes the next arrival an event of the channel.
    pub fn arm(&self) -> Result<(), Errno> {
        self.queue.arm()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_have_keys_of_their_own() {
        let keys: std::collections::HashSet<u32> = (0..1000_u64).map(|job| key(job << 54 | job)).collect();
        assert_eq!(keys.len(), 1000);
        assert!(keys.iter().all(|key| key >> 31 == 0));
    }
}
