//! Post descriptors, each with a little registered memory, and with an action of its owner for its
//! completion.

use gasnet_conduit::JobRank;
use gasnet_gni_abi as abi;
use std::ptr::NonNull;

/// Bytes of registered memory in each post, for operations on memory that is not registered.
pub const INLINE: usize = 128;

/// A post descriptor. It lies in registered memory for as long as its domain.
#[repr(C, align(64))]
pub struct Post<A> {
    /// First: the library returns its address.
    pub(super) descriptor: abi::gni_post_descriptor_t,
    /// The process at the other end.
    pub peer: JobRank,
    /// Completions that are still to come.
    pub(super) events: u8,
    /// Whether it has failed, and waits for an event that may never come.
    pub(super) is_retired: bool,
    /// Times that it was posted and failed.
    pub failures: u8,
    /// Action of the last completion.
    pub done: A,
    inline: Inline,
}

#[repr(C, align(64))]
struct Inline([u8; INLINE]);

/// A post that its holder has for itself, until it is posted or put back.
#[derive(Debug)]
#[must_use = "a post that is not put back is lost"]
pub struct PostDescriptor<A>(pub(super) NonNull<Post<A>>);

// SAFETY: the holder has it alone.
unsafe impl<A: Send> Send for PostDescriptor<A> {}

impl<A> std::ops::Deref for PostDescriptor<A> {
    type Target = Post<A>;
    #[inline]
    fn deref(&self) -> &Post<A> {
        // SAFETY: the holder has it alone, and domains outlive their posts' holders.
        unsafe { self.0.as_ref() }
    }
}

impl<A> std::ops::DerefMut for PostDescriptor<A> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Post<A> {
        // SAFETY: as above.
        unsafe { self.0.as_mut() }
    }
}

/// Memory of a peer: an address, and the handle that its owner registered it by.
#[derive(Clone, Copy, Debug)]
pub struct Remote {
    pub address: usize,
    pub handle: abi::gni_mem_handle_t,
}

/// Memory of this process. The handle is that of the domain that posts; puts by FMA need none.
#[derive(Clone, Copy, Debug)]
pub struct Local {
    pub address: usize,
    pub handle: abi::gni_mem_handle_t,
}

/// Memory at both ends of a transfer.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pub local: Local,
    pub remote: Remote,
    pub bytes: usize,
}

/// An aligned word that follows a put, under the same remote handle.
#[derive(Clone, Copy, Debug)]
pub struct SyncFlag {
    pub value: u64,
    pub address: usize,
}

impl<A: Default> Post<A> {
    /// An empty post, whose packets have this mode in the network: `GNI_DLVMODE_*`.
    pub(super) fn empty(routing: u16) -> Self {
        // SAFETY: all zero is valid: numbers and null pointers.
        let zero: abi::gni_post_descriptor_t = unsafe { std::mem::zeroed() };
        Self {
            descriptor: abi::gni_post_descriptor_t {
                dlvr_mode: routing,
                ..zero
            },
            peer: JobRank(0),
            events: 0,
            is_retired: false,
            failures: 0,
            done: A::default(),
            inline: Inline([0; INLINE]),
        }
    }
}

impl<A> Post<A> {
    /// Its registered memory.
    #[inline]
    pub fn inline(&mut self) -> &mut [u8; INLINE] {
        &mut self.inline.0
    }

    /// Its address.
    #[inline]
    pub fn inline_address(&self) -> usize {
        self.inline.0.as_ptr() as usize
    }

    /// Sets the operation, and its events: `GNI_CQMODE_*`.
    #[inline]
    fn begin(&mut self, kind: abi::gni_post_type_t, modes: u16) {
        self.descriptor.r#type = kind;
        self.descriptor.cq_mode = modes;
        self.failures = 0;
        self.expect_events();
    }

    #[inline]
    fn expect_events(&mut self) {
        let ours = self.descriptor.cq_mode & (abi::GNI_CQMODE_LOCAL_EVENT | abi::GNI_CQMODE_GLOBAL_EVENT);
        self.events = ours.count_ones() as u8;
    }

    /// Takes the operation of a failed post, which stays with the library. One of two events is not
    /// in its inline memory.
    pub(super) fn take_over(&mut self, failed: &mut Self) {
        debug_assert!(!failed.is_inline(), "defect: inline memory would be lost");
        self.descriptor = failed.descriptor;
        self.peer = failed.peer;
        self.failures = failed.failures;
        std::mem::swap(&mut self.done, &mut failed.done);
        failed.is_retired = true;
    }

    /// Prepares a post that failed to be posted again.
    pub fn repeat(&mut self) {
        self.expect_events();
    }

    /// Whether it reads memory of the peer and changes none there.
    pub fn is_get(&self) -> bool {
        matches!(self.descriptor.r#type, abi::GNI_POST_FMA_GET | abi::GNI_POST_RDMA_GET)
    }

    /// Whether its data lie in its own memory.
    pub fn is_inline(&self) -> bool {
        self.descriptor.local_addr == self.inline_address() as u64
    }

    /// A transfer: `GNI_POST_FMA_PUT`, `_GET`, `GNI_POST_RDMA_PUT` or `_GET`.
    #[inline]
    pub fn transfer(&mut self, kind: abi::gni_post_type_t, modes: u16, extent: Extent) {
        self.begin(kind, modes);
        let descriptor = &mut self.descriptor;
        descriptor.local_addr = extent.local.address as u64;
        descriptor.local_mem_hndl = extent.local.handle;
        descriptor.remote_addr = extent.remote.address as u64;
        descriptor.remote_mem_hndl = extent.remote.handle;
        descriptor.length = extent.bytes as u64;
        descriptor.rdma_mode = 0;
        descriptor.src_cq_hndl = std::ptr::null_mut();
    }

    /// A put by FMA whose source needs no handle.
    #[inline]
    pub fn put(&mut self, modes: u16, from: usize, bytes: usize, remote: Remote) {
        let handle = abi::gni_mem_handle_t::default();
        let local = Local { address: from, handle };
        self.transfer(abi::GNI_POST_FMA_PUT, modes, Extent { local, remote, bytes });
    }

    /// A word follows the put that this post is.
    #[inline]
    pub fn and_flag(&mut self, flag: SyncFlag) {
        self.descriptor.r#type = abi::GNI_POST_FMA_PUT_W_SYNCFLAG;
        self.descriptor.sync_flag_value = flag.value;
        self.descriptor.sync_flag_addr = flag.address as u64;
    }

    /// An atomic, whose old value goes to the local memory.
    pub fn atomic(&mut self, command: u32, operands: [u64; 2], extent: Extent) {
        self.transfer(abi::GNI_POST_AMO, abi::GNI_CQMODE_GLOBAL_EVENT, extent);
        self.descriptor.amo_cmd = command;
        [self.descriptor.first_operand, self.descriptor.second_operand] = operands;
    }

    /// An event at the peer, without data.
    #[inline]
    pub fn event(&mut self, modes: u16, handle: abi::gni_mem_handle_t, value: u32) {
        self.begin(abi::GNI_POST_CQWRITE, modes);
        self.descriptor.remote_mem_hndl = handle;
        self.descriptor.cqwrite_value = value.into();
    }

    /// Operands for the collective engine, whose result goes to an address that is aligned to 32
    /// bytes.
    pub fn reduce(&mut self, command: u32, operands: [u64; 2], result: Local) {
        self.begin(abi::GNI_POST_CE, abi::GNI_CQMODE_GLOBAL_EVENT);
        self.descriptor.local_addr = result.address as u64;
        self.descriptor.local_mem_hndl = result.handle;
        self.descriptor.length = size_of::<abi::gni_ce_result_t>() as u64;
        self.descriptor.ce_cmd = command;
        self.descriptor.ce_mode = abi::GNI_CEMODE_TWO_OP;
        self.descriptor.ce_red_id = 0;
        [self.descriptor.first_operand, self.descriptor.second_operand] = operands;
    }

    /// Name of the operation, for messages. A put by FMA may be an Active Message.
    pub fn name(&self, is_message: bool) -> &'static str {
        match self.descriptor.r#type {
            abi::GNI_POST_RDMA_PUT => "a put by BTE",
            abi::GNI_POST_RDMA_GET => "a get by BTE",
            abi::GNI_POST_FMA_PUT_W_SYNCFLAG => "an Active Message",
            abi::GNI_POST_FMA_PUT if is_message => "an Active Message",
            abi::GNI_POST_FMA_PUT => "a put by FMA",
            abi::GNI_POST_FMA_GET => "a get by FMA",
            abi::GNI_POST_AMO => "an atomic",
            abi::GNI_POST_CE => "a reduction by the collective engine",
            _ => "a CQ write",
        }
    }
}
