//! Puts and gets.
//!
//! Local memory that must be registered and is not (outside segments) is copied through a bounce
//! buffer up to a limit, and registered for the one operation above it. A registration that lives
//! as long as its operation cannot go stale. Memory that cannot be registered is copied part by
//! part.

use crate::ffi::{bits, Errno, Remote, Source};
use crate::link::{Link, Stalled};
use crate::memory::Segments;
use crate::operations::{take, Access, Kind, OwnedOperation, Pool, Rest};
use crate::put_notify;
use crate::settings::Settings;
use gasnet_conduit::{config, Busy, Get, LocalCompletion, LocalMemory, Put, Rma, SourceUse};
use gasnet_sys::atomic::Ordering;
use std::sync::atomic::AtomicBool;

/// Most operations without bytes of their own: puts, gets, atomics.
const OPERATIONS: usize = 1 << 20;
/// Flags of a put that completes when its bytes are at the target.
const DELIVERED: u64 = bits::COMPLETION | bits::DELIVERY_COMPLETE;
/// Flags of a put that announces itself. Its completion is that of its source.
const ANNOUNCED: u64 = bits::COMPLETION | bits::REMOTE_CQ_DATA;

/// Operations of the provider.
#[derive(Clone, Copy, Debug)]
pub struct Abilities {
    /// Puts and gets.
    pub rma: bool,
    /// Puts that announce themselves, rather than by a message that follows.
    pub announces: bool,
    /// Operations of [`crate::atomics`] that every process has.
    pub atomics: u64,
}

/// One-sided operations of a process.
pub struct OneSided {
    pub abilities: Abilities,
    /// Most bytes of an injected put.
    inject_put: usize,
    pub segments: Segments,
    /// Puts of Longs announce themselves, as far as the provider has refused none.
    announces: AtomicBool,
    /// Local memory was copied because the provider does not register it.
    copies: AtomicBool,
    operations: Pool,
    /// Operations with bytes of their own.
    pub bounces: Pool,
    // Last: what is above has regions of its endpoint.
    pub link: Link,
}

impl OneSided {
    /// Nothing is under way. Puts of up to `inject_put` bytes are injected.
    pub fn new(link: Link, settings: &Settings, inject_put: usize, abilities: Abilities) -> Self {
        Self {
            abilities,
            inject_put,
            segments: Segments::default(),
            announces: AtomicBool::new(abilities.announces),
            copies: AtomicBool::new(false),
            operations: Pool::new(0, OPERATIONS),
            bounces: Pool::new(settings.bounce_bytes, settings.bounces),
            link,
        }
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

    /// Prepares local memory, for a put or get of `remote`: `copies` allows a copy, which is filled
    /// later. `access`: [`bits::WRITE`] of the source of a put, which may be read-only memory, or
    /// [`bits::READ`] of the destination of a get. Returns also whether the operation's own bytes
    /// stand for all of the memory.
    fn ready(
        &self,
        (memory, bytes): (&LocalMemory, usize),
        copies: bool,
        access: u64,
        remote: Remote,
    ) -> Result<(OwnedOperation, bool), Busy> {
        let endpoint = &self.link.endpoint;
        let known = self.segments.local(endpoint, memory, bytes);
        let is_copy = bytes <= self.bounces.bytes() && (copies || known.is_none());
        let pool = if is_copy { &self.bounces } else { &self.operations };
        let mut held = take(pool, endpoint).ok_or(Busy)?;
        let (access, local) = match known {
            _ if is_copy => (Access::Fixed, held.source(bytes)),
            Some(source) if memory.device.is_none() => (Access::Client, source),
            Some(source) => (Access::Fixed, source),
            None => {
                let mut source = Source {
                    address: memory.address,
                    bytes,
                    descriptor: std::ptr::null_mut(),
                };
                // SAFETY: the runtime keeps the memory until the operation is complete.
                match unsafe { endpoint.register(memory.address, bytes, access) } {
                    Ok(region) => {
                        source.descriptor = region.descriptor();
                        held.region = Some(Box::new(region));
                        (Access::Client, source)
                    }
                    Err(why) => {
                        held.release();
                        let copied = (why != Errno::AGAIN).then(|| take(&self.bounces, endpoint));
                        held = copied.flatten().ok_or(Busy)?;
                        self.note_copies(why);
                        (Access::Copied, source)
                    }
                }
            }
        };
        held.rest = Some(Rest { access, local, remote });
        Ok((held, is_copy))
    }

    /// Starts a put, from a copy if `copies` allows that. `kind` depends on whether it does.
    pub fn begin_put(
        &self,
        put: &Put,
        remote: Remote,
        copies: bool,
        kind: impl FnOnce(bool) -> Kind,
    ) -> Result<LocalCompletion, Busy> {
        let (mut held, is_copy) = self.ready((&put.from, put.bytes), copies, bits::WRITE, remote)?;
        if is_copy {
            copy_in(&mut held, put.from.address, put.bytes);
        }
        (held.kind, held.cookie, held.peer) = (kind(is_copy), put.cookie, put.to.peer);
        self.begin(held)?;
        Ok(if is_copy {
            LocalCompletion::AtReturn
        } else {
            LocalCompletion::Later
        })
    }

    /// Starts a put or get, or its first part.
    fn begin(&self, mut held: OwnedOperation) -> Result<(), Busy> {
        held.announce_copy_at_end();
        // Connecting may need polls of the peer, for which a client need not wait.
        let started = self.link.or_stall(self.advance(held), Stalled::Rest);
        started.map_err(|(held, why)| self.link.abandon(held, why))
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
                    let data = put_notify::data(self.link.token, self.link.rank, *number);
                    self.link.endpoint.write(part, whole.remote, context, (ANNOUNCED, data))
                }
                _ => self.link.endpoint.write(part, whole.remote, context, (DELIVERED, 0)),
            }
        };
        held.started(started).map_err(|(mut held, why)| {
            (held.kind, held.rest) = (kind, Some(whole));
            (held, why)
        })
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
        let Some(mut copy) = take(&self.bounces, &self.link.endpoint) else {
            return Err((held, Errno::AGAIN));
        };
        self.note_copies(why);
        (copy.kind, copy.peer, copy.cookie) = (held.kind, held.peer, held.cookie);
        copy.rest = held.rest.map(|rest| Rest {
            access: Access::Copied,
            ..rest
        });
        copy.announce_copy_at_end();
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
        self.link.is_over(self.advance(held), Stalled::Rest)
    }

    /// Starts a put whose source fits the provider's own buffer. No operation needs it afterwards.
    fn put_injected(&self, put: &Put, remote: Remote) -> Result<(), Errno> {
        let mut held = take(&self.operations, &self.link.endpoint).ok_or(Errno::AGAIN)?;
        let kind = Kind::Put { source_is_free: true };
        (held.kind, held.cookie, held.peer) = (kind, put.cookie, put.to.peer);
        let source = Source {
            address: put.from.address,
            bytes: put.bytes,
            descriptor: std::ptr::null_mut(),
        };
        // SAFETY: the source is read before this returns.
        let started = unsafe {
            let (context, flags) = (held.context(), DELIVERED | bits::INJECT);
            self.link.endpoint.write(source, remote, context, (flags, 0))
        };
        held.started(started).map_err(|(held, why)| {
            held.release();
            why
        })
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
        let (mut held, is_copy) = self.ready((&get.to, get.bytes), false, bits::READ, remote)?;
        held.kind = Kind::Get {
            copy_to: is_copy.then_some((get.to.address, get.bytes)),
        };
        (held.cookie, held.peer) = (get.cookie, get.from.peer);
        self.begin(held)
    }
}
