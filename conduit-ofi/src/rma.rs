//! Puts and gets.
//!
//! Local memory that must be registered and is not (outside segments) is copied through a bounce
//! buffer up to a limit, and registered for the one operation above it. A registration that lives
//! as long as its operation cannot go stale.

use crate::fabric::{bits, Errno, Remote, Source};
use crate::net::{Net, Stalled, STALLED};
use crate::operation::{Held, Kind, Rest};
use crate::send::concatenate;
use crate::wire::{self, padding};
use gasnet_conduit::{
    Busy, Class, Get, JobRank, LocalCompletion, LocalMemory, Put, PutNotify, Rma, SendBuffer, SourceUse,
};
use std::sync::atomic::{AtomicU32, Ordering};

/// The payload of a Long up to this many bytes travels in its packet: less than a put and a packet
/// cost, and than the largest message that providers send at once.
const PACKED_LIMIT: usize = 8 << 10;

/// Flags of a put that completes when its bytes are at the target.
const DELIVERED: u64 = bits::COMPLETION | bits::DELIVERY_COMPLETE;
/// Flags of a put that announces itself. Its completion is that of its source.
const ANNOUNCED: u64 = bits::COMPLETION | bits::REMOTE_CQ_DATA;

/// Numbers of puts that announce themselves.
static NEXT_NUMBER: AtomicU32 = AtomicU32::new(0);

/// The local memory of an operation, ready for the provider.
struct Ready {
    held: Held,
    source: Source,
    /// It is a copy, or injected.
    is_copy: bool,
}

impl Net {
    /// The peer of an operation, in the address vector.
    pub fn target(&self, peer: JobRank) -> Result<u64, Busy> {
        if self.stopped.load(Ordering::Relaxed) || !self.peers.fates.is_present(peer) {
            return Err(Busy);
        }
        self.number(peer)
    }

    /// Prepares local memory: `copies` allows a copy, which is filled later.
    /// `access`: [`bits::WRITE`] of the source of a put, which may be read-only memory, or
    /// [`bits::READ`] of the destination of a get.
    fn ready(
        &self,
        memory: &LocalMemory,
        bytes: usize,
        (copies, access): (bool, u64),
        peer: JobRank,
    ) -> Result<Ready, Busy> {
        let known = self.segments.local(&self.endpoint, memory, bytes);
        let small = bytes <= self.bounces.bytes();
        if small && (copies || known.is_none()) {
            let held = self.bounces.take(&self.endpoint).ok_or(Busy)?;
            let source = held.source(bytes);
            return Ok(Ready {
                held,
                source,
                is_copy: true,
            });
        }
        let mut held = self.operations.take(&self.endpoint).ok_or(Busy)?;
        if let Some(source) = known {
            return Ok(Ready {
                held,
                source,
                is_copy: false,
            });
        }
        // SAFETY: the runtime keeps the memory until the operation is complete.
        let region = unsafe { self.endpoint.register(memory.address, bytes, access) };
        match region {
            Ok(region) => {
                let source = Source {
                    address: memory.address,
                    bytes,
                    descriptor: region.descriptor(),
                };
                held.region = Some(Box::new(region));
                Ok(Ready {
                    held,
                    source,
                    is_copy: false,
                })
            }
            Err(why) => {
                held.release();
                Err(self.refused(peer, "registering local memory", why))
            }
        }
    }

    /// Starts a put, from a copy if `copies` allows that. `kind` depends on whether it does.
    fn begin_put(
        &self,
        put: &Put,
        remote: Remote,
        copies: bool,
        kind: impl FnOnce(bool) -> Kind,
    ) -> Result<LocalCompletion, Busy> {
        let mut ready = self.ready(&put.from, put.bytes, (copies, bits::WRITE), put.to.peer)?;
        if ready.is_copy {
            copy_in(&mut ready.held, put.from.address, put.bytes);
        }
        ready.held.kind = kind(ready.is_copy);
        ready.held.cookie = put.cookie;
        self.begin(ready.held, ready.source, remote, put.to.peer)?;
        Ok(if ready.is_copy {
            LocalCompletion::AtReturn
        } else {
            LocalCompletion::Later
        })
    }

    /// Starts a put or get, or its first part.
    fn begin(&self, mut held: Held, local: Source, remote: Remote, peer: JobRank) -> Result<(), Busy> {
        held.peer = peer;
        held.rest = Some(Rest { local, remote });
        match self.advance(held) {
            Ok(()) => Ok(()),
            // Connecting may need polls of the peer, for which a client need not wait.
            Err((held, Errno::AGAIN)) if self.stalled_count.load(Ordering::Relaxed) < STALLED => {
                self.stall(Stalled::Rest(held));
                Ok(())
            }
            Err((held, why)) => {
                let what = held.kind.name();
                held.release();
                Err(self.refused(peer, what, why))
            }
        }
    }

    /// Starts the next part of a put or get.
    fn advance(&self, mut held: Held) -> Result<(), (Held, Errno)> {
        let Some(whole) = held.rest.take() else {
            panic!("defect: {:?} has no part left", held.kind);
        };
        let bytes = whole.local.bytes.min(self.endpoint.info().max_bytes());
        let part = Source { bytes, ..whole.local };
        if bytes < whole.local.bytes {
            held.rest = Some(Rest {
                local: Source {
                    address: whole.local.address + bytes,
                    bytes: whole.local.bytes - bytes,
                    ..whole.local
                },
                remote: Remote {
                    address: whole.remote.address + bytes as u64,
                    ..whole.remote
                },
            });
        }
        let context = held.context();
        // SAFETY: the runtime keeps the memory, and the operation is the provider's, until
        // completion.
        let started = unsafe {
            match held.kind {
                Kind::Get { .. } => self.endpoint.read(part, whole.remote, context),
                Kind::PutNotify { data, .. } => self.endpoint.write(part, whole.remote, context, (ANNOUNCED, data)),
                _ => self.endpoint.write(part, whole.remote, context, (DELIVERED, 0)),
            }
        };
        match started {
            Ok(()) => {
                held.into_context();
                Ok(())
            }
            Err(why) => {
                held.rest = Some(whole);
                Err((held, why))
            }
        }
    }

    /// Starts the next part of a put or get that was taken; later if there is no room now.
    /// Whether it started, or failed.
    pub fn go_on(&self, held: Held) -> bool {
        let peer = held.peer;
        match self.advance(held) {
            Ok(()) => {}
            Err((held, Errno::AGAIN)) => {
                self.stall(Stalled::Rest(held));
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
fn copy_in(held: &mut Held, from: usize, bytes: usize) {
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
                // A copy of it waits for room.
                Err(Errno::AGAIN) => {}
                Err(why) => return Err(self.refused(put.to.peer, "a put", why)),
            }
        }
        let copies = is_host && (injects || put.source == SourceUse::Now);
        self.begin_put(put, remote, copies, |source_is_free| Kind::Put { source_is_free })
    }

    fn get(&self, get: &Get) -> Result<(), Busy> {
        let remote = self.segments.remote(&get.from, self.target(get.from.peer)?);
        let mut ready = self.ready(&get.to, get.bytes, (false, bits::READ), get.from.peer)?;
        ready.held.kind = Kind::Get {
            copy_to: ready.is_copy.then_some((get.to.address, get.bytes)),
        };
        ready.held.cookie = get.cookie;
        self.begin(ready.held, ready.source, remote, get.from.peer)
    }
}

impl PutNotify for Net {
    fn packed_limit(&self) -> usize {
        PACKED_LIMIT.min(self.settings.max_packet / 2)
    }

    fn put_and_notify(
        &self,
        put: &Put,
        reserved: Option<SendBuffer>,
        class: Class,
        parts: &[&[u8]],
    ) -> Result<LocalCompletion, Busy> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        let count = put.bytes.div_ceil(self.endpoint.info().max_bytes());
        let kind = wire::Kind::Notice(class, number, count as u32);
        let front = self.header(kind, 0).bytes();
        let message = front + bytes + padding(bytes);
        let peer = put.to.peer;
        let Some(grant) = self.grant(peer, class, message)? else {
            let _ = reserved.map(|buffer| gasnet_conduit::SendBuffers::release(self, buffer));
            return Ok(LocalCompletion::AtReturn);
        };
        let busy = |why| {
            self.revoke(&grant);
            why
        };
        let mut packet = self.send_buffer(class, message).ok_or(Busy).map_err(busy)?;
        let room = packet.bytes(message);
        self.header(kind, grant.credits).encode(bytes, room);
        concatenate(parts, &mut room[front..]);
        let started = self.announce(put, reserved, self.notices.data(self.rank, number), grant.number);
        match started {
            Ok(local) => {
                self.transmit_later(packet, message, &grant, class);
                Ok(local)
            }
            Err(why) => {
                packet.release();
                Err(busy(why))
            }
        }
    }
}

impl Net {
    /// Starts the put of a Long, with this data for the target's queue.
    fn announce(
        &self,
        put: &Put,
        reserved: Option<SendBuffer>,
        data: u64,
        number: u64,
    ) -> Result<LocalCompletion, Busy> {
        let remote = self.segments.remote(&put.to, number);
        if let Some(buffer) = reserved {
            let mut held = crate::send::held_of(buffer);
            let source = Source {
                address: put.from.address,
                ..held.source(put.bytes)
            };
            held.kind = Kind::PutNotify { data, reports: false };
            held.peer = put.to.peer;
            held.rest = Some(Rest { local: source, remote });
            return match self.advance(held) {
                Ok(()) => Ok(LocalCompletion::AtReturn),
                Err((mut held, why)) => {
                    held.rest = None;
                    let what = held.kind.name();
                    held.into_context();
                    Err(self.refused(put.to.peer, what, why))
                }
            };
        }
        let copies = put.source == SourceUse::Now && put.from.device.is_none();
        self.begin_put(put, remote, copies, |is_copy| Kind::PutNotify {
            data,
            reports: !is_copy,
        })
    }
}
