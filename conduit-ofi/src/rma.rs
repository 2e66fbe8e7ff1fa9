//! Puts and gets.
//!
//! Local memory that must be registered and is not (outside segments) is copied through a bounce
//! buffer up to a limit, and registered for the one operation above it. A registration that lives
//! as long as its operation cannot go stale. Memory that cannot be registered is copied part by
//! part.

use crate::ffi::{bits, Delivery, Errno, Remote, Source};
use crate::link::{Link, Stalled};
use crate::memory::Segments;
use crate::operation::{Access, Kind, OwnedOperation, Pool, Rest};
use crate::put_notify;
use crate::settings::Settings;
use gasnet_conduit::{config, Busy, Get, JobRank, LocalCompletion, LocalMemory, Put, Rma, SourceUse};
use gasnet_sys::atomic::Ordering;
use std::sync::atomic::AtomicBool;

/// Most operations without bytes of their own: puts, gets, atomics.
const OPERATIONS: usize = 1 << 20;
/// Flags of a put that completes when its bytes are at the target.
const DELIVERED: u64 = bits::COMPLETION | bits::DELIVERY_COMPLETE;
/// Flags of a put that announces itself. Its completion is that of its source.
const ANNOUNCED: u64 = bits::COMPLETION | bits::REMOTE_CQ_DATA;

/// The local memory of an operation, ready for the provider.
struct Ready {
    held: OwnedOperation,
    source: Source,
    access: Access,
    /// The operation's own bytes stand for all of it.
    is_copy: bool,
}

/// One-sided operations of a process.
pub struct OneSided {
    /// Most bytes of an injected put.
    inject_put: usize,
    segments: Segments,
    /// Puts of Longs announce themselves, as far as the provider has refused none.
    announces: AtomicBool,
    /// Local memory was copied because the provider does not register it.
    copies: AtomicBool,
    operations: Pool,
    bounces: Pool,
    // Last: what is above has regions of its endpoint.
    link: Link,
}

impl OneSided {
    /// Nothing is under way. Puts of up to `inject_put` bytes are injected; puts of Longs announce
    /// themselves if they can.
    pub fn new(link: Link, settings: &Settings, inject_put: usize, announces: bool) -> Self {
        Self {
            inject_put,
            segments: Segments::default(),
            announces: AtomicBool::new(announces),
            copies: AtomicBool::new(false),
            operations: Pool::new(0, OPERATIONS),
            bounces: Pool::new(settings.bounce_bytes, settings.bounces),
            link,
        }
    }

    /// The endpoint and its peers.
    #[inline]
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Segments and keys.
    #[inline]
    pub fn segments(&self) -> &Segments {
        &self.segments
    }

    /// Operations with bytes of their own.
    #[inline]
    pub fn bounces(&self) -> &Pool {
        &self.bounces
    }

    /// All operations.
    pub fn pools(&self) -> [&Pool; 2] {
        [&self.operations, &self.bounces]
    }

    /// Whether puts of Longs announce themselves now.
    #[inline]
    pub fn announces(&self) -> bool {
        self.announces.load(Ordering::Relaxed)
    }

    /// Ends the endpoint as the end of a process does, without a word to the peers.
    ///
    /// # Safety
    /// Nobody uses this any more, and the regions of other parts are dropped next.
    pub unsafe fn close(&mut self) {
        // cxi does not close an endpoint to which regions are bound. Those of posted buffers follow
        // it, as the provider writes to them until then.
        drop(std::mem::take(&mut self.segments));
        // SAFETY: by contract.
        unsafe { self.link.endpoint.close() };
    }

    /// Prepares local memory: `copies` allows a copy, which is filled later.
    /// `access`: [`bits::WRITE`] of the source of a put, which may be read-only memory, or
    /// [`bits::READ`] of the destination of a get.
    fn ready(&self, memory: &LocalMemory, bytes: usize, copies: bool, access: u64) -> Result<Ready, Busy> {
        let known = self.segments.local(&self.link.endpoint, memory, bytes);
        let small = bytes <= self.bounces.bytes();
        if small && (copies || known.is_none()) {
            let held = self.bounces.take(&self.link.endpoint).ok_or(Busy)?;
            let source = held.source(bytes);
            return Ok(Ready {
                held,
                source,
                access: Access::Fixed,
                is_copy: true,
            });
        }
        let ready = |held, source, access| {
            Ok(Ready {
                held,
                source,
                access,
                is_copy: false,
            })
        };
        let mut held = self.operations.take(&self.link.endpoint).ok_or(Busy)?;
        if let Some(source) = known {
            let is_host = memory.device.is_none();
            return ready(held, source, if is_host { Access::Client } else { Access::Fixed });
        }
        let mut source = Source {
            address: memory.address,
            bytes,
            descriptor: std::ptr::null_mut(),
        };
        // SAFETY: the runtime keeps the memory until the operation is complete.
        match unsafe { self.link.endpoint.register(memory.address, bytes, access) } {
            Ok(region) => {
                source.descriptor = region.descriptor();
                held.region = Some(Box::new(region));
                ready(held, source, Access::Client)
            }
            Err(Errno::AGAIN) => {
                held.release();
                Err(Busy)
            }
            Err(why) => {
                held.release();
                let held = self.bounces.take(&self.link.endpoint).ok_or(Busy)?;
                self.note_copies(why);
                ready(held, source, Access::Copied)
            }
        }
    }

    /// Starts a put, from a copy if `copies` allows that. `kind` depends on whether it does.
    pub fn begin_put(
        &self,
        put: &Put,
        remote: Remote,
        copies: bool,
        kind: impl FnOnce(bool) -> Kind,
    ) -> Result<LocalCompletion, Busy> {
        let mut ready = self.ready(&put.from, put.bytes, copies, bits::WRITE)?;
        if ready.is_copy {
            copy_in(&mut ready.held, put.from.address, put.bytes);
        }
        ready.held.kind = kind(ready.is_copy);
        ready.held.cookie = put.cookie;
        let is_copy = ready.is_copy;
        self.begin(ready, remote, put.to.peer)?;
        Ok(if is_copy {
            LocalCompletion::AtReturn
        } else {
            LocalCompletion::Later
        })
    }

    /// Starts a put or get, or its first part.
    fn begin(&self, ready: Ready, remote: Remote, peer: JobRank) -> Result<(), Busy> {
        let mut held = ready.held;
        held.peer = peer;
        held.kind.announce_at_end(ready.access);
        held.rest = Some(Rest {
            access: ready.access,
            local: ready.source,
            remote,
        });
        match self.advance(held) {
            Ok(()) => Ok(()),
            // Connecting may need polls of the peer, for which a client need not wait.
            Err((held, Errno::AGAIN)) if self.link.may_stall() => {
                self.link.stalled.push(Stalled::Rest(held));
                Ok(())
            }
            Err((held, why)) => {
                let what = held.kind.name();
                held.release();
                Err(self.link.refused(peer, what, why))
            }
        }
    }

    /// Starts the next part of a put or get, in another way if the provider refuses one.
    pub fn advance(&self, mut held: OwnedOperation) -> Result<(), (OwnedOperation, Errno)> {
        loop {
            match self.start_part(held) {
                Ok(()) => return Ok(()),
                Err((refused, Errno::AGAIN)) => return Err((refused, Errno::AGAIN)),
                Err((refused, why)) => held = self.in_another_way(refused, why)?,
            }
        }
    }

    /// Starts the next part of a put or get. The remaining parts stay with the operation.
    fn start_part(&self, mut held: OwnedOperation) -> Result<(), (OwnedOperation, Errno)> {
        let Some(whole) = held.rest.take() else {
            panic!("defect: {:?} has no part left", held.kind);
        };
        let kind = held.kind;
        let mut bytes = whole.local.bytes.min(self.link.endpoint.info().max_bytes());
        let mut part = Source { bytes, ..whole.local };
        if whole.access == Access::Copied {
            bytes = bytes.min(held.room());
            part = held.source(bytes);
            if let Kind::Get { .. } = kind {
                let copy_to = Some((whole.local.address, bytes));
                held.kind = Kind::Get { copy_to };
            } else {
                copy_in(&mut held, whole.local.address, bytes);
            }
        }
        held.rest = whole.after(bytes);
        let context = held.context();
        // SAFETY: the runtime keeps the memory, and the operation is the provider's, until
        // completion.
        let started = unsafe {
            match &mut held.kind {
                Kind::Get { .. } => self.link.endpoint.read(part, whole.remote, context),
                Kind::PutNotify {
                    number,
                    parts,
                    by_message: false,
                    ..
                } => {
                    *parts -= 1;
                    let delivery = Delivery {
                        flags: ANNOUNCED,
                        data: put_notify::data(self.link.token(), self.link.rank, *number),
                    };
                    self.link.endpoint.write(part, whole.remote, context, delivery)
                }
                _ => self.link.endpoint.write(part, whole.remote, context, delivered(0)),
            }
        };
        match started {
            Ok(()) => {
                held.into_context();
                Ok(())
            }
            Err(why) => {
                held.kind = kind;
                held.rest = Some(whole);
                Err((held, why))
            }
        }
    }

    /// Prepares a put or get that the provider refused for another try: the put of a Long without
    /// data, or any with a copy of local memory. The error is final.
    #[cold]
    fn in_another_way(&self, mut held: OwnedOperation, why: Errno) -> Result<OwnedOperation, (OwnedOperation, Errno)> {
        if let Kind::PutNotify { by_message, .. } = &mut held.kind {
            if !*by_message && why.refuses_flags() {
                *by_message = true;
                self.announces.store(false, Ordering::Relaxed);
                return Ok(held);
            }
        }
        if !why.refuses_memory() || held.rest.is_none_or(|rest| rest.access != Access::Client) {
            return Err((held, why));
        }
        let Some(mut copy) = self.bounces.take(&self.link.endpoint) else {
            return Err((held, Errno::AGAIN));
        };
        self.note_copies(why);
        (copy.kind, copy.peer, copy.cookie) = (held.kind, held.peer, held.cookie);
        copy.rest = held.rest.map(|rest| Rest {
            access: Access::Copied,
            ..rest
        });
        copy.kind.announce_at_end(Access::Copied);
        held.release();
        Ok(copy)
    }

    /// Tells the user, once, that local memory is copied because the provider does not register it.
    #[cold]
    fn note_copies(&self, why: Errno) {
        if !self.copies.swap(true, Ordering::Relaxed) && config::get().get_or_default(&config::VERBOSEENV) {
            gasnet_conduit::print_line(format_args!(
                "GASNet: ofi: rank {}: {:?} does not register memory of a put or get: {}. Such memory is copied.",
                self.link.rank,
                self.link.endpoint.info(),
                why.text()
            ));
        }
    }

    /// Starts the next part of a put or get that was taken; later if there is no room now.
    /// Whether it started, or failed.
    pub fn resume(&self, held: OwnedOperation) -> bool {
        let peer = held.peer;
        match self.advance(held) {
            Ok(()) => {}
            Err((held, Errno::AGAIN)) => {
                self.link.stalled.push(Stalled::Rest(held));
                return false;
            }
            Err((held, why)) => {
                let what = held.kind.name();
                held.release();
                let _ = self.link.refused(peer, what, why);
            }
        }
        true
    }

    /// Starts a put whose source fits the provider's own buffer. No operation needs it afterwards.
    fn put_injected(&self, put: &Put, remote: Remote) -> Result<(), Errno> {
        let mut held = self.operations.take(&self.link.endpoint).ok_or(Errno::AGAIN)?;
        held.kind = Kind::Put { source_is_free: true };
        held.peer = put.to.peer;
        held.cookie = put.cookie;
        let source = Source {
            address: put.from.address,
            bytes: put.bytes,
            descriptor: std::ptr::null_mut(),
        };
        // SAFETY: the source is read before this returns.
        let started = unsafe {
            let context = held.context();
            self.link
                .endpoint
                .write(source, remote, context, delivered(bits::INJECT))
        };
        match started {
            Ok(()) => {
                held.into_context();
                Ok(())
            }
            Err(why) => {
                held.release();
                Err(why)
            }
        }
    }
}

/// A put that completes when its bytes are at the target, with further flags.
fn delivered(flags: u64) -> Delivery {
    Delivery {
        flags: DELIVERED | flags,
        data: 0,
    }
}

/// Copies the source of a put.
fn copy_in(held: &mut OwnedOperation, from: usize, bytes: usize) {
    let room = held.bytes(bytes);
    // SAFETY: the runtime keeps the source readable until local completion.
    unsafe { room.as_mut_ptr().copy_from_nonoverlapping(from as *const u8, bytes) };
}

impl Rma for OneSided {
    fn put(&self, put: &Put) -> Result<LocalCompletion, Busy> {
        let remote = self.segments.remote(&put.to, self.link.target(put.to.peer)?);
        let is_host = put.from.device.is_none();
        let injects = (1..=self.inject_put).contains(&put.bytes) && is_host;
        if injects {
            match self.put_injected(put, remote) {
                Ok(()) => return Ok(LocalCompletion::AtReturn),
                // A copy of it waits for room, or goes without the flag.
                Err(why) if why == Errno::AGAIN || why.refuses_flags() => {}
                Err(why) => return Err(self.link.refused(put.to.peer, "a put", why)),
            }
        }
        let copies = is_host && (injects || put.source == SourceUse::Now);
        self.begin_put(put, remote, copies, |source_is_free| Kind::Put { source_is_free })
    }

    fn get(&self, get: &Get) -> Result<(), Busy> {
        let remote = self.segments.remote(&get.from, self.link.target(get.from.peer)?);
        let mut ready = self.ready(&get.to, get.bytes, false, bits::READ)?;
        ready.held.kind = Kind::Get {
            copy_to: ready.is_copy.then_some((get.to.address, get.bytes)),
        };
        ready.held.cookie = get.cookie;
        self.begin(ready, remote, get.from.peer)
    }
}
