//! Registered memory.

use super::bindings as abi;
use super::endpoint::CallLock;
use super::Errno;
use std::ffi::c_void;
use std::ptr::NonNull;

/// A registered region. Dropping it reverts the registration.
pub struct Region {
    mr: NonNull<abi::fid_mr>,
    /// That of the endpoint: a region belongs to its domain.
    calls: CallLock,
}

// SAFETY: a handle; its fields are constant, and only the owner closes it.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "region with key {:#x}", self.key())
    }
}

impl Region {
    pub(super) fn new(mr: NonNull<abi::fid_mr>, calls: CallLock) -> Self {
        Self { mr, calls }
    }

    fn fid(&self) -> *mut abi::fid {
        // SAFETY: a pointer to a field of a live object.
        unsafe { &raw mut (*self.mr.as_ptr()).fid }
    }

    /// Its name in local operations.
    pub fn descriptor(&self) -> *mut c_void {
        // SAFETY: a field of a live object.
        unsafe { self.mr.as_ref() }.mem_desc
    }

    /// Its name for peers.
    pub fn key(&self) -> u64 {
        // SAFETY: a field of a live object.
        unsafe { self.mr.as_ref() }.key
    }

    /// The long key of a provider that asks for `FI_MR_RAW`, and the base address to map it with.
    pub fn raw_key(&self) -> Result<(u64, Vec<u8>), Errno> {
        let _call = self.calls.enter();
        let (mut base, mut length) = (0, 0);
        let mut attempt = |key: &mut [u8]| {
            length = key.len();
            let mut arguments = abi::fi_mr_raw_attr {
                flags: 0,
                base_addr: &raw mut base,
                raw_key: key.as_mut_ptr(),
                key_size: &raw mut length,
            };
            // SAFETY: fi_mr(3): the structure of this command, with room for `length` bytes.
            let code = unsafe { super::control(self.fid(), abi::FI_GET_RAW_MR as i32, (&raw mut arguments).cast()) };
            Errno::check(code as isize).map(|_| length)
        };
        // With no room the call fails, and tells how much it needs.
        let _ = attempt(&mut []);
        let mut key = vec![0; 256];
        let bytes = attempt(&mut key)?;
        key.truncate(bytes);
        Ok((base, key))
    }

    /// Binds it to an endpoint and enables it, for providers that ask for `FI_MR_ENDPOINT`.
    pub(super) fn bind(&self, endpoint: *mut abi::fid) -> Result<(), Errno> {
        let _call = self.calls.enter();
        // SAFETY: fi_mr_bind(3) and fi_mr_enable(3), on live objects.
        let codes = unsafe {
            let bind = (*(*self.fid()).ops).bind.ok_or(Errno(libc::ENOSYS))?;
            [
                bind(self.fid(), endpoint, 0),
                super::control(self.fid(), abi::FI_ENABLE as i32, std::ptr::null_mut()),
            ]
        };
        codes
            .into_iter()
            .try_for_each(|code| Errno::check(code as isize).map(|_| ()))
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let _call = self.calls.enter();
        // SAFETY: closed once; the owner has no operation on it under way.
        unsafe { super::close(self.fid()) };
    }
}
