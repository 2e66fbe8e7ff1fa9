//! State of a domain's user: operations under way and the memory that is the provider's
//! until they complete, addresses, keys and regions; and the random numbers.

use crate::ffi;
use crate::plan::{Fault, Kind, Plan, HIDDEN_CONTEXT, KIND_COUNT};
use crate::region::Region;
use crate::unordered::Again;
use std::collections::{HashMap, HashSet};
use std::ffi::c_void;
use std::hash::{DefaultHasher, Hasher};

/// Local memory of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    pub address: usize,
    pub bytes: usize,
    /// Descriptor of the user: a region of ours, where local memory must be registered.
    pub descriptor: *mut c_void,
    /// The access that it needs.
    pub access: u32,
}

/// An operation under way. The provider underneath gets the address of this as the context, so the
/// user's context is free for us to overwrite.
#[repr(C)]
pub struct Op {
    /// `struct fi_context2`.
    scratch: [u64; 8],
    pub context: usize,
    pub kind: Kind,
    /// A receive of many messages.
    pub many: bool,
    /// The end of a receive was reported. Messages may still follow with ofi_rxm.
    is_over: bool,
    pub buffers: Vec<Buffer>,
    /// Bytes that have arrived in a receive of many messages.
    pub arrived: usize,
    /// The place where its last message ends.
    pub full: Option<usize>,
    /// The bytes of a receive when it was posted, for `stale`.
    pub before: Vec<u8>,
    /// The data of a put that a fault has altered.
    pub altered: Vec<u8>,
    /// The rest of a put of which a part is under way.
    pub rest: Option<Again>,
    /// Of the bytes of a source that must not change; 0 if they may.
    sum: u64,
    /// Pattern that overwrites the user's context.
    poison: u64,
}

impl Op {
    /// An operation of the user.
    pub fn new(context: *mut c_void, kind: Kind, buffers: &[Buffer]) -> Self {
        Self {
            scratch: [0; 8],
            context: context as usize,
            kind,
            many: false,
            is_over: false,
            buffers: buffers.to_vec(),
            arrived: 0,
            full: None,
            before: Vec::new(),
            altered: Vec::new(),
            rest: None,
            sum: 0,
            poison: 0,
        }
    }

    /// The sum over the bytes of the source.
    unsafe fn sum(&self) -> u64 {
        let source = self.buffers[0];
        let mut hasher = DefaultHasher::new();
        hasher.write(std::slice::from_raw_parts(source.address as *const u8, source.bytes));
        hasher.finish() | 1
    }

    /// The words of the user's context that are the provider's.
    unsafe fn words(&self, plan: &Plan) -> &'static mut [u64] {
        let count = if plan.demands(ffi::FI_CONTEXT2 | HIDDEN_CONTEXT) {
            8
        } else if plan.demands(ffi::FI_CONTEXT) {
            4
        } else {
            0
        };
        std::slice::from_raw_parts_mut(self.context as *mut u64, count)
    }
}

/// State of a domain.
#[derive(Default)]
pub struct State {
    random: u64,
    /// Operations of each kind, for `fail`, `refuse` and `lost`.
    counts: [[u64; KIND_COUNT]; 3],
    /// Atomics, for `lost_update`.
    updates: u64,
    /// By the user's context.
    ops: HashMap<usize, Box<Op>>,
    /// Operations under way, receives aside, and receives.
    under_way: [usize; 2],
    /// An operation was started, so other threads may be inside.
    pub is_used: bool,
    /// Addresses in the vector, as the user has them.
    pub addresses: HashSet<u64>,
    /// Reads of the queue until an operation for a peer is taken, by its address.
    connecting: HashMap<u64, u64>,
    /// Peers that were called.
    called: HashSet<u64>,
    /// Mapped keys: the provider's key and the base address.
    pub keys: HashMap<u64, (u64, u64)>,
    /// Regions that are registered.
    pub regions: HashSet<usize>,
    /// The minimum of receive buffers; 0 until it is set.
    pub minimum: usize,
}

// SAFETY: descriptors are compared only.
unsafe impl Send for State {}

impl State {
    /// Nothing yet, with random numbers from this seed.
    pub fn new(seed: u64) -> Self {
        Self {
            random: seed,
            ..Self::default()
        }
    }

    /// A random number below `limit` (SplitMix64).
    pub fn random(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ self.random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % limit
    }

    /// True with this probability.
    pub fn chance(&mut self, percent: u64) -> bool {
        percent > 0 && self.random(100) < percent
    }

    /// Counts an operation, and returns whether the plan wants it to complete with an error.
    pub fn fails(&mut self, plan: &Plan, kind: Kind) -> bool {
        plan.fail == Some(self.counted(0, kind))
    }

    /// Counts a message that arrives.
    pub fn count_message(&mut self) -> u64 {
        self.counted(0, Kind::Receive).1
    }

    /// The error of the message of this number, if the plan wants one.
    pub fn error_of_message(plan: &Plan, count: u64) -> Option<u32> {
        let kind = Kind::Receive;
        if plan.fail == Some((kind, count)) {
            return Some(ffi::FI_EIO);
        }
        (plan.cut == Some(count)).then_some(ffi::FI_ETRUNC)
    }

    /// Counts a call, and returns whether the plan wants it to return an error.
    pub fn refuses(&mut self, plan: &Plan, kind: Kind) -> bool {
        plan.refuse == Some(self.counted(1, kind))
    }

    /// Counts a completion, and returns whether the plan wants it to be lost.
    pub fn loses(&mut self, plan: &Plan, kind: Kind) -> bool {
        plan.lost == Some(self.counted(2, kind))
    }

    /// Counts an atomic that fetches.
    pub fn count_update(&mut self) -> u64 {
        self.updates += 1;
        self.updates
    }

    fn counted(&mut self, counts: usize, kind: Kind) -> Fault {
        let count = &mut self.counts[counts][kind as usize];
        *count += 1;
        (kind, *count)
    }

    /// Whether the provider still connects to a peer, which begins now at the latest.
    pub fn connects(&mut self, plan: &Plan, peer: u64) -> bool {
        plan.connect > 0 && *self.connecting.entry(peer).or_insert(plan.connect) > 0
    }

    /// Whether this is the first call for a peer.
    pub fn is_first(&mut self, peer: u64) -> bool {
        self.called.insert(peer)
    }

    /// The queue is read, which makes connections.
    pub fn connect(&mut self) {
        for reads in self.connecting.values_mut() {
            *reads = reads.saturating_sub(1);
        }
    }

    /// Whether the provider has room for an operation.
    pub fn has_room(&self, plan: &Plan, kind: Kind) -> bool {
        let receives = kind == Kind::Receive;
        let limit = if receives { plan.rx } else { plan.tx };
        limit.is_none_or(|limit| self.under_way[usize::from(receives)] < limit)
    }

    /// Verifies that local memory of an operation is registered.
    pub unsafe fn check_local(&self, plan: &Plan, kind: Kind, buffer: &Buffer) {
        if buffer.bytes == 0 {
            return;
        }
        if !plan.demands(ffi::FI_MR_LOCAL.into()) && buffer.descriptor.is_null() {
            if matches!(kind, Kind::Put | Kind::Get) && self.in_reach(buffer) {
                violated!("a {kind:?} of memory of a segment without its descriptor: efa looks it up");
            }
            return;
        }
        if !self.regions.contains(&(buffer.descriptor as usize)) {
            violated!("FI_MR_LOCAL: the descriptor of a {kind:?} is of no region");
        }
        let region = &*buffer.descriptor.cast::<Region>();
        if !region.covers(buffer.address, buffer.bytes) {
            violated!("FI_MR_LOCAL: the region of a {kind:?} does not cover its memory");
        }
        if !region.allows(buffer.access) {
            violated!(
                "FI_MR_LOCAL: the region of a {kind:?} lacks the access {:#x}",
                buffer.access
            );
        }
        region.check_enabled(plan);
    }

    /// Whether peers reach memory of an operation.
    unsafe fn in_reach(&self, buffer: &Buffer) -> bool {
        let mut regions = self.regions.iter().map(|region| &*(*region as *const Region));
        regions.any(|region| region.allows(ffi::FI_REMOTE_WRITE) && region.covers(buffer.address, buffer.bytes))
    }

    /// An operation begins: its context is the provider's now, and its source if it is `kept`.
    /// Returns the context for the provider.
    pub unsafe fn begin(&mut self, plan: &Plan, mut op: Op, kept: bool) -> *mut c_void {
        let kind = op.kind;
        if op.context == 0 {
            violated!("a {kind:?} without a context, by which its completion is recognised");
        }
        if self.ops.get(&op.context).is_some_and(|op| !op.is_over) {
            violated!("the context of a {kind:?} is that of an operation under way");
        }
        // A peer may have reason to write to a source in its reach, once it has the bytes.
        let source = op.buffers[0];
        if kept && !self.in_reach(&source) {
            op.sum = op.sum();
        }
        op.poison = self.random(u64::MAX);
        op.words(plan).fill(op.poison);
        self.under_way[usize::from(kind == Kind::Receive)] += 1;
        let mut op = Box::new(op);
        let context = (&raw mut *op).cast();
        self.ops.insert(op.context, op);
        context
    }

    /// An operation ends: it is complete, failed, or was refused by the provider. The context and
    /// the memory are the user's again. A receive of many messages ends with the `last`.
    pub unsafe fn end(&mut self, plan: &Plan, context: usize, last: bool) {
        let Some(op) = self.ops.get_mut(&context) else { return };
        let (kind, receives) = (op.kind, op.kind == Kind::Receive);
        if op.is_over || receives && op.many && !last {
            return;
        }
        if op.words(plan).iter().any(|word| *word != op.poison) {
            violated!("FI_CONTEXT: the context of a {kind:?} was changed while it was the provider's");
        }
        if op.sum != 0 && op.sum != op.sum() {
            violated!("the source of a {kind:?} was changed while it was the provider's");
        }
        self.under_way[usize::from(receives)] -= 1;
        op.is_over = true;
        if !op.many {
            self.ops.remove(&context);
        }
    }

    /// The endpoint is closed, which cancels what is under way. No segment may be bound to it.
    pub unsafe fn cancel_all(&mut self, plan: &Plan) {
        let is_segment = |region: &usize| (*(*region as *const Region)).allows(ffi::FI_REMOTE_WRITE);
        if plan.demands(ffi::FI_MR_ENDPOINT.into()) && self.regions.iter().any(is_segment) {
            violated!("-FI_EBUSY: an endpoint is closed to which segments are bound (cxi)");
        }
        self.ops.clear();
    }

    /// The kind of an operation that uses a region.
    pub fn user_of(&self, region: *const c_void) -> Option<Kind> {
        let ops = || self.ops.values().filter(|op| !op.is_over);
        let user = ops().find(|op| op.buffers.iter().any(|buffer| buffer.descriptor.cast_const() == region));
        user.map(|op| op.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_reached_after_reads() {
        let plan: Plan = "connect=2".parse().unwrap();
        let mut state = State::new(1);
        for _ in 0..2 {
            assert!(state.connects(&plan, 7));
            state.connect();
        }
        assert!(!state.connects(&plan, 7) && state.connects(&plan, 8));
    }
}
