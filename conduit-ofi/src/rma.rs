//! Puts and gets.
//!
//! Local memory that must be registered and is not (outside segments) is copied through a bounce
//! buffer up to a limit, and registered for the one operation above it. A registration that lives
//! as long as its operation cannot go stale. Memory that cannot be registered is copied part by
//! part.

use crate::ffi::{bits, Errno, Remote, Source};
use crate::net::{Net, Stalled, STALLED};
use crate::operation::{Access, Kind, OwnedOperation, Rest};
use gasnet_conduit::{config, Busy, Get, JobRank, LocalCompletion, LocalMemory, Put, Rma, SourceUse};
use gasnet_sys::atomic::Ordering;

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

impl Net {
    /// The peer of an operation, in the address vector.
    pub fn target(&self, peer: JobRank) -> Result<u64, Busy> {
        if self.stopped.load(Ordering::Relaxed) || !self.peers.states.is_present(peer) {
            return Err(Busy);
        }
        Ok(self.peers.number(peer))
    }

    /// Prepares local memory: `copies` allows a copy, which is filled later.
    /// `access`: [`bits::WRITE`] of the source of a put, which may be read-only memory, or
    /// [`bits::READ`] of the destination of a get.
    fn ready(&self, memory: &LocalMemory, bytes: usize, (copies, access): (bool, u64)) -> Result<Ready, Busy> {
        let known = self.segments.local(&self.endpoint, memory, bytes);
        let small = bytes <= self.bounces.bytes();
        if small && (copies || known.is_none()) {
            let held = self.bounces.take(&self.endpoint).ok_or(Busy)?;
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
        let mut held = self.operations.take(&self.endpoint).ok_or(Busy)?;
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
        match unsafe { self.endpoint.register(memory.address, bytes, access) } {
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
                let held = self.bounces.take(&self.endpoint).ok_or(Busy)?;
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
        let mut ready = self.ready(&put.from, put.bytes, (copies, bits::WRITE))?;
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
            Err((held, Errno::AGAIN)) if self.stalled.len() < STALLED => {
                self.stalled.push(Stalled::Rest(held));
                Ok(())
            }
            Err((held, why)) => {
                let what = held.kind.name();
                held.release();
                Err(self.refused(peer, what, why))
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
        let mut bytes = whole.local.bytes.min(self.endpoint.info().max_bytes());
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
                Kind::Get { .. } => self.endpoint.read(part, whole.remote, context),
                Kind::PutNotify {
                    number,
                    parts,
                    by_message: false,
                    ..
                } => {
                    *parts -= 1;
                    let data = self.pending_puts.data(self.rank, *number);
                    self.endpoint.write(part, whole.remote, context, (ANNOUNCED, data))
                }
                _ => self.endpoint.write(part, whole.remote, context, (DELIVERED, 0)),
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
        let Some(mut copy) = self.bounces.take(&self.endpoint) else {
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
                self.rank,
                self.endpoint.info(),
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
                self.stalled.push(Stalled::Rest(held));
                return false;
            }
            Err((held, why)) => {
                let what = held.kind.name();
                held.release();
                let _ = self.refused(peer, what, why);
            }
        }
        true
    }

    /// Starts a put whose source fits the provider's own buffer. No operation needs it afterwards.
    fn put_injected(&self, put: &Put, remote: Remote) -> Result<(), Errno> {
        let mut held = self.operations.take(&self.endpoint).ok_or(Errno::AGAIN)?;
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
            self.endpoint
                .write(source, remote, held.context(), (DELIVERED | bits::INJECT, 0))
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

/// Copies the source of a put.
fn copy_in(held: &mut OwnedOperation, from: usize, bytes: usize) {
    let room = held.bytes(bytes);
    // SAFETY: the runtime keeps the source readable until local completion.
    unsafe { room.as_mut_ptr().copy_from_nonoverlapping(from as *const u8, bytes) };
}

impl Rma for Net {
    fn put(&self, put: &Put) -> Result<LocalCompletion, Busy> {
        let remote = self.segments.remote(&put.to, self.target(put.to.peer)?);
        let is_host = put.from.device.is_none();
        let injects = (1..=self.inject_put).contains(&put.bytes) && is_host;
        if injects {
            match self.put_injected(put, remote) {
                Ok(()) => return Ok(LocalCompletion::AtReturn),
                // A copy of it waits for room, or goes without the flag.
                Err(why) if why == Errno::AGAIN || why.refuses_flags() => {}
                Err(why) => return Err(self.refused(put.to.peer, "a put", why)),
            }
        }
        let copies = is_host && (injects || put.source == SourceUse::Now);
        self.begin_put(put, remote, copies, |source_is_free| Kind::Put { source_is_free })
    }

    fn get(&self, get: &Get) -> Result<(), Busy> {
        let remote = self.segments.remote(&get.from, self.target(get.from.peer)?);
        let mut ready = self.ready(&get.to, get.bytes, (false, bits::READ))?;
        ready.held.kind = Kind::Get {
            copy_to: ready.is_copy.then_some((get.to.address, get.bytes)),
        };
        ready.held.cookie = get.cookie;
        self.begin(ready, remote, get.from.peer)
    }
}
