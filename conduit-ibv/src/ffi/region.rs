//! Protection domains and memory regions.

use super::made::{Made, ProtectionDomain};
use super::{Context, Errno};
use crate::ffi::library::Functions;
use gasnet_ibv_abi as abi;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// A protection domain.
pub struct Domain {
    pub(super) library: &'static Functions,
    pub(super) made: ProtectionDomain,
}

impl Domain {
    /// A new one.
    pub fn new(context: &Context) -> Result<Self, Errno> {
        let library = context.library;
        // SAFETY: an open device.
        let raw = unsafe { (library.alloc_pd)(context.raw()) };
        // SAFETY: just made, or null.
        let made = unsafe { Made::new(raw, library.dealloc_pd, Arc::clone(&context.opened))? };
        let made = Arc::new(made);
        Ok(Self { library, made })
    }

    #[inline]
    pub(super) fn raw(&self) -> *mut abi::ibv_pd {
        self.made.raw()
    }

    /// Registers memory of this process.
    ///
    /// # Safety
    /// The memory stays mapped until the region is dropped.
    pub unsafe fn register(&self, address: usize, bytes: usize, access: Access) -> Result<Region, Errno> {
        // SAFETY: a domain; the library checks the memory.
        self.region(|| unsafe { (self.library.reg_mr)(self.raw(), address as *mut _, bytes, access.0 as i32) })
    }

    /// Registers all memory of this process, as it is mapped at any time.
    pub fn register_on_demand(&self, access: Access) -> Result<Region, Errno> {
        let access = abi::IBV_ACCESS_ON_DEMAND | access.0;
        // SAFETY: a domain; the device follows the page tables, so nothing has to stay mapped.
        self.region(|| unsafe { (self.library.reg_mr)(self.raw(), ptr::null_mut(), usize::MAX, access as i32) })
    }

    /// Registers a dmabuf from `offset` on, which peers and operations use at these addresses.
    /// `EOPNOTSUPP` if the library takes none.
    pub fn register_dmabuf(
        &self,
        fd: &impl AsRawFd,
        offset: usize,
        addresses: Range<usize>,
        access: Access,
    ) -> Result<Region, Errno> {
        let register = self.library.reg_dmabuf_mr.ok_or(Errno(libc::EOPNOTSUPP))?;
        let (offset, address) = (offset as u64, addresses.start as u64);
        let (fd, access) = (fd.as_raw_fd(), access.0 as i32);
        // SAFETY: a domain and an open descriptor; the region holds the buffer.
        self.region(|| unsafe { register(self.raw(), offset, addresses.len(), address, fd, access) })
    }

    /// Registers by a call, which is repeated while the kernel asks for that: it could not get hold
    /// of pages that are on the move.
    fn region(&self, register: impl Fn() -> *mut abi::ibv_mr) -> Result<Region, Errno> {
        const TRIES: u32 = 200;
        const PAUSE: Duration = Duration::from_millis(1);
        let mut tries = 0;
        loop {
            tries += 1;
            let raw = register();
            // SAFETY: just made, or null.
            match unsafe { Made::new(raw, self.library.dereg_mr, Arc::clone(&self.made)) } {
                Err(Errno(libc::EAGAIN)) if tries < TRIES => thread::sleep(PAUSE),
                made => {
                    let made = made?;
                    // SAFETY: a region; its keys are constant.
                    let (lkey, rkey) = unsafe { ((*raw).lkey, (*raw).rkey) };
                    return Ok(Region { made, lkey, rkey });
                }
            }
        }
    }
}

/// Access rights to a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access(pub(super) abi::ibv_access_flags);

impl Access {
    /// Operations of this process read it: memory may be read-only.
    pub const LOCAL_READ: Self = Self(0);
    /// Operations of this process write it, too.
    pub const LOCAL: Self = Self(abi::IBV_ACCESS_LOCAL_WRITE);
    /// Peers get, too.
    pub const READABLE: Self = Self(Self::LOCAL.0 | abi::IBV_ACCESS_REMOTE_READ);
    /// Peers put and get, too.
    pub const REMOTE: Self = Self(Self::LOCAL.0 | abi::IBV_ACCESS_REMOTE_READ | abi::IBV_ACCESS_REMOTE_WRITE);
    /// Peers execute atomics, too.
    pub const REMOTE_ATOMIC: Self = Self(Self::REMOTE.0 | abi::IBV_ACCESS_REMOTE_ATOMIC);
}

/// A memory region. No operation uses it when it is dropped.
#[derive(Debug)]
pub struct Region {
    #[allow(dead_code, reason = "held")]
    made: Made<abi::ibv_mr, ProtectionDomain>,
    /// Names it in own operations.
    pub lkey: u32,
    /// Names it in operations of peers.
    pub rkey: u32,
}
