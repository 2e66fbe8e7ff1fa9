//! Registered buffers for copies: of memory that is not registered, of sources that are to be free
//! at once, and of replies.

use crate::ffi::{register_failed, Arrivals, Domain};
use gasnet_conduit::SendBuffer;
use gasnet_conduit_util::mapped::Mapped;
use gasnet_conduit_util::pool::{Item, Pool};
use gasnet_gni_abi as abi;
use gasnet_sys::maybe_locked::Sharing;

/// A buffer that its holder has for itself.
pub type Bounce = Item<(), Mapped>;

/// Buffers of one size.
#[derive(Debug)]
pub struct Bounces {
    pub pool: Pool<(), Mapped>,
    /// The registrations of all, by domain.
    handles: Vec<abi::gni_mem_handle_t>,
}

impl Bounces {
    /// `count` buffers of `bytes` bytes, at least two: one that clients may keep, and one. They are
    /// registered with these domains. The error is a message without a full stop.
    pub fn new<A>(bytes: usize, count: usize, domains: &[Domain<A>], sharing: Sharing) -> Result<Self, String> {
        let (count, mut handles) = (count.max(2), Vec::new());
        let pool = Pool::of_threads(bytes, count, sharing);
        let register = |all: usize| {
            let memory = Mapped::new(all).map_err(|why| format!("buffers for copies cannot be mapped: {why}"))?;
            let range = (memory.address(), all);
            for domain in domains {
                // SAFETY: unmapped after the registration is reverted, or the domain gone.
                let handle = unsafe { domain.register_all(range, Arrivals::None, abi::GNI_MEM_RELAXED_PI_ORDERING) };
                match handle {
                    Ok(handle) => handles.push(handle),
                    Err(code) => {
                        deregister_all(domains, &mut handles);
                        return Err(register_failed("copies", all, code));
                    }
                }
            }
            Ok::<_, String>(memory)
        };
        pool.grow(count, register, |_| ())?;
        Ok(Self { pool, handles })
    }

    /// Reverts the registrations, by the domains in their order.
    pub fn deregister<A>(&mut self, domains: &[Domain<A>]) {
        deregister_all(domains, &mut self.handles);
    }

    /// The handle of all for a domain.
    #[inline]
    pub fn handle(&self, domain: usize) -> abi::gni_mem_handle_t {
        self.handles[domain]
    }

    /// Takes one for a client, which may keep it for any time, if enough are left.
    pub fn reserve(&self) -> Option<Bounce> {
        self.pool.take_beyond((self.pool.most() / 4).max(1))
    }

    /// The buffer that a client has.
    ///
    /// # Safety
    /// From [`Bounces::reserve`]. The client gives it up, or the result is dropped unreleased and
    /// the buffer stays the client's.
    pub unsafe fn reserved(buffer: SendBuffer) -> Bounce {
        // SAFETY: by contract, nobody else uses what it returns.
        unsafe { Bounce::from_address(buffer.0 as usize) }
    }
}

/// Reverts registrations with the first domains.
fn deregister_all<A>(domains: &[Domain<A>], handles: &mut Vec<abi::gni_mem_handle_t>) {
    for (domain, handle) in domains.iter().zip(handles.drain(..)) {
        domain.deregister(handle);
    }
}

/// Gives a buffer back, if there is one.
#[inline]
pub fn give(bounce: impl Into<Option<Bounce>>) {
    if let Some(bounce) = bounce.into() {
        bounce.release();
    }
}
