//! Registered memory and keys.

use super::bindings as abi;
use super::worker::{Context, Endpoint, Turn};
use super::Status;
use gasnet_conduit::{Device, SegmentMemory};
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

/// A kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryType(pub(super) abi::ucs_memory_type_t);

impl MemoryType {
    /// Host memory.
    pub const HOST: Self = Self(abi::UCS_MEMORY_TYPE_HOST);
    /// `UCS_MEMORY_TYPE_ZE_DEVICE`, newer than the headers of the bindings.
    const LEVEL_ZERO: Self = Self(7);

    /// That of a device's memory, or of the host's.
    pub fn of(device: Option<Device>) -> Self {
        match device {
            None => Self::HOST,
            Some(Device::Cuda(_)) => Self(abi::UCS_MEMORY_TYPE_CUDA),
            Some(Device::Hip(_)) => Self(abi::UCS_MEMORY_TYPE_ROCM),
            Some(Device::LevelZero(_)) => Self::LEVEL_ZERO,
        }
    }
}

/// Registered memory of this process.
pub struct Region {
    handle: abi::ucp_mem_h,
    context: Arc<Context>,
}

// SAFETY: the lock of the context admits one thread.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// The key with which peers access it, of any length.
    pub fn pack(&self) -> Result<Vec<u8>, Status> {
        let _turn = self.context.calls.lock();
        let (mut buffer, mut bytes) = (ptr::null_mut::<c_void>(), 0);
        let library = self.context.library;
        // SAFETY: a live context and handle, and room for the results.
        Status::check(unsafe { (library.rkey_pack)(self.context.raw, self.handle, &raw mut buffer, &raw mut bytes) })?;
        // SAFETY: the library's buffer of this length, until it is released.
        let key = unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), bytes) }.to_vec();
        // SAFETY: a buffer of the function above, once.
        unsafe { (library.rkey_buffer_release)(buffer) };
        Ok(key)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let _turn = self.context.calls.lock();
        // SAFETY: a live handle, once. A failure leaves it mapped, which nobody can mend.
        unsafe { (self.context.library.mem_unmap)(self.context.raw, self.handle) };
    }
}

/// The key of a peer's memory, for one endpoint.
pub struct RemoteKey {
    key: abi::ucp_rkey_h,
    context: Arc<Context>,
}

// SAFETY: the lock of the context admits one thread.
unsafe impl Send for RemoteKey {}
// SAFETY: as above.
unsafe impl Sync for RemoteKey {}

impl RemoteKey {
    pub(super) fn raw(&self) -> abi::ucp_rkey_h {
        self.key
    }
}

impl Drop for RemoteKey {
    fn drop(&mut self) {
        let _turn = self.context.calls.lock();
        // SAFETY: a live key, once; the worker of its endpoint is live.
        unsafe { (self.context.library.rkey_destroy)(self.key) };
    }
}

impl Turn<'_> {
    /// Whether UCX has a module for a kind of memory.
    pub fn has_module_for(&self, memory: MemoryType) -> bool {
        self.context().memory_types & (1 << memory.0) != 0
    }

    /// Registers memory.
    ///
    /// # Safety
    /// It stays mapped, or allocated, until the region is dropped.
    pub unsafe fn register(&self, memory: &SegmentMemory) -> Result<Region, Status> {
        // SAFETY: all zero is a valid value.
        let mut parameters: abi::ucp_mem_map_params_t = unsafe { std::mem::zeroed() };
        parameters.field_mask = u64::from(
            abi::UCP_MEM_MAP_PARAM_FIELD_ADDRESS
                | abi::UCP_MEM_MAP_PARAM_FIELD_LENGTH
                | abi::UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
        );
        (parameters.address, parameters.length) = (memory.base as *mut c_void, memory.bytes);
        parameters.memory_type = MemoryType::of(memory.device).0;
        let (mut handle, context) = (ptr::null_mut(), self.context());
        // SAFETY: a live context, parameters with these fields, and room for the result.
        Status::check(unsafe { (self.library().mem_map)(context.raw, &raw const parameters, &raw mut handle) })?;
        let context = Arc::clone(context);
        Ok(Region { handle, context })
    }

    /// Reads a key that the owner of an endpoint has packed. UCX reads as far as the key tells.
    pub fn unpack(&self, endpoint: Endpoint, packed: &[u8]) -> Result<RemoteKey, Status> {
        let mut key = ptr::null_mut();
        // SAFETY: a live endpoint, a key of `ucp_rkey_pack`, and room for the result.
        Status::check(unsafe { (self.library().rkey_unpack)(endpoint.raw(), packed.as_ptr().cast(), &raw mut key) })?;
        let context = Arc::clone(self.context());
        Ok(RemoteKey { key, context })
    }
}
