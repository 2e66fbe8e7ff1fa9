//! Registered buffers for copies: of memory that is not registered, of sources that are to be free
//! at once, and of replies.

use crate::ffi::{Arrivals, Code, Domain, RegisteredMemory};
use gasnet_conduit_util::mapped::Mapped;
use gasnet_gni_abi as abi;
use gasnet_sys::gate::Gate;
use std::io;

/// A buffer that its holder has for itself.
#[derive(Debug)]
#[must_use = "a buffer that is not given back is lost"]
pub struct Bounce {
    address: usize,
    bytes: usize,
}

impl Bounce {
    /// First byte, aligned to a cache line.
    #[inline]
    pub fn address(&self) -> usize {
        self.address
    }

    /// Its first bytes.
    #[inline]
    pub fn prefix(&mut self, bytes: usize) -> &mut [u8] {
        assert!(
            bytes <= self.bytes,
            "defect: {bytes} bytes in a buffer of {}",
            self.bytes
        );
        // SAFETY: as many, which were zero at first, and the holder has them alone.
        unsafe { std::slice::from_raw_parts_mut(self.address as *mut u8, bytes) }
    }
}

/// Buffers of one size.
#[derive(Debug)]
pub struct Bounces {
    free: Gate<Vec<Bounce>>,
    bytes: usize,
    /// By domain.
    registered: Vec<RegisteredMemory>,
    memory: Mapped,
    all: usize,
}

impl Bounces {
    /// `count` buffers of `bytes` bytes, at least two: one that clients may keep, and one.
    ///
    /// # Safety
    /// Unless `are_several` threads use them, one does.
    pub unsafe fn new(bytes: usize, count: usize, are_several: bool) -> io::Result<Self> {
        let bytes = bytes.next_multiple_of(64);
        let count = count.max(2);
        let memory = Mapped::new(count * bytes)?;
        let bounce = |index: usize| Bounce {
            address: memory.address() + index * bytes,
            bytes,
        };
        Ok(Self {
            // SAFETY: by contract.
            free: unsafe { Gate::new((0..count).rev().map(bounce).collect(), are_several) },
            bytes,
            registered: Vec::new(),
            all: count * bytes,
            memory,
        })
    }

    /// Registers them with a further domain.
    pub fn register<A>(&mut self, domain: &Domain<A>) -> Result<(), Code> {
        let range = (self.memory.address(), self.all);
        // SAFETY: unmapped with this, after the domain is gone.
        let memory = unsafe { domain.register_all(range, Arrivals::None, abi::GNI_MEM_RELAXED_PI_ORDERING)? };
        self.registered.push(memory);
        Ok(())
    }

    /// Reverts it for all domains, in their order.
    pub fn deregister<A>(&mut self, domains: &[Domain<A>]) {
        for (domain, memory) in domains.iter().zip(self.registered.drain(..)) {
            domain.deregister(memory);
        }
    }

    /// Bytes of each.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of all.
    pub fn all(&self) -> usize {
        self.all
    }

    /// The handle of all for a domain.
    #[inline]
    pub fn handle(&self, domain: usize) -> abi::gni_mem_handle_t {
        self.registered[domain].handle
    }

    /// Takes one for a client, which may keep it for any time, if enough are left.
    pub fn reserve(&self) -> Option<Bounce> {
        let mut free = self.free.lock();
        let kept = (self.all / self.bytes / 4).max(1);
        if free.len() > kept {
            free.pop()
        } else {
            None
        }
    }

    /// The buffer at an address that [`Bounces::reserve`] has given out, and that is not given
    /// back.
    pub fn at(&self, address: usize) -> Bounce {
        let bytes = self.bytes;
        Bounce { address, bytes }
    }

    /// Takes one, if one is free.
    #[inline]
    pub fn take(&self) -> Option<Bounce> {
        self.free.lock().pop()
    }

    /// Gives one back, if there is one.
    #[inline]
    pub fn give(&self, bounce: impl Into<Option<Bounce>>) {
        if let Some(bounce) = bounce.into() {
            self.free.lock().push(bounce);
        }
    }
}
