//! Operations in another order than that of their calls, as with providers without order (cxi, efa,
//! opx): calls that take effect later, and puts whose last bytes arrive first.

use crate::domain::Domain;
use crate::ffi;
use crate::plan::Kind;
use crate::queue::Queue;
use crate::rules::Op;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, PoisonError};

/// Most reads of the queue before a delayed call takes effect.
const MOST_READS: u64 = 8;

/// A call of the provider underneath, which may be repeated when it has no room.
pub type Again = Box<dyn FnMut() -> isize>;

/// Calls that were accepted and take effect later.
#[derive(Default)]
pub struct Delayed(Mutex<Vec<Entry>>);

struct Entry {
    /// Reads of the queue until then.
    reads: u64,
    kind: Kind,
    /// The user's context, null for an injected message.
    context: *mut c_void,
    call: Again,
}

// SAFETY: the pointers are the user's, who may call from any thread.
unsafe impl Send for Entry {}

impl Delayed {
    fn entries(&self) -> std::sync::MutexGuard<'_, Vec<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a read of the queue may start something.
    pub fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }

    fn push(&self, reads: u64, kind: Kind, context: *mut c_void, call: Again) {
        self.entries().push(Entry {
            reads,
            kind,
            context,
            call,
        });
    }

    /// The queue is read: makes the calls that are due.
    pub fn run(&self, queue: &Queue) {
        let mut entries = std::mem::take(&mut *self.entries());
        entries.retain_mut(|entry| {
            entry.reads = entry.reads.saturating_sub(1);
            if entry.reads > 0 {
                return true;
            }
            match (entry.call)() {
                0 => false,
                code if code == -(ffi::FI_EAGAIN as isize) => true,
                _ => {
                    queue.fail(entry.context, entry.kind);
                    false
                }
            }
        });
        self.entries().append(&mut entries);
    }

    /// The endpoint is closed: nothing takes effect any more.
    pub fn clear(&self) {
        self.entries().clear();
    }
}

/// Makes a call now, or later if the plan wants that.
pub fn issue(domain: &Domain, kind: Kind, context: *mut c_void, mut call: Again) -> isize {
    let reads = {
        let mut state = domain.state();
        let is_late = state.chance(domain.offer.plan.unordered);
        is_late.then(|| 1 + state.random(MOST_READS))
    };
    match reads {
        None => call(),
        Some(reads) => {
            domain.delayed.push(reads, kind, context, call);
            0
        }
    }
}

/// A put or get, or a part of one, for the provider underneath.
#[derive(Clone, Copy)]
pub struct Transfer {
    pub ep: *mut ffi::fid_ep,
    pub kind: Kind,
    /// Local memory: address and bytes.
    pub local: (usize, usize),
    pub peer: u64,
    /// Remote address and key.
    pub remote: (u64, u64),
    /// An [`Op`].
    pub context: *mut c_void,
    pub data: u64,
    pub flags: u64,
}

impl Transfer {
    unsafe fn call(&self) -> isize {
        let vector = libc::iovec {
            iov_base: self.local.0 as *mut c_void,
            iov_len: self.local.1,
        };
        let remote = ffi::fi_rma_iov {
            addr: self.remote.0,
            len: self.local.1,
            key: self.remote.1,
        };
        let mut descriptor = ptr::null_mut();
        let message = ffi::fi_msg_rma {
            msg_iov: (&raw const vector).cast(),
            desc: &raw mut descriptor,
            iov_count: 1,
            addr: self.peer,
            rma_iov: &raw const remote,
            rma_iov_count: 1,
            context: self.context,
            data: self.data,
        };
        if self.kind == Kind::Get {
            real!(self.ep, rma.readmsg(&raw const message, self.flags))
        } else {
            real!(self.ep, rma.writemsg(&raw const message, self.flags))
        }
    }

    fn again(self) -> Again {
        // SAFETY: memory and context are the provider's until completion.
        Box::new(move || unsafe { self.call() })
    }

    /// The part of these bytes.
    fn part(self, first: usize, bytes: usize) -> Self {
        Self {
            local: (self.local.0 + first, bytes),
            remote: (self.remote.0 + first as u64, self.remote.1),
            ..self
        }
    }

    /// Starts it. A put may go in two parts, the last one first; the other one starts when that is
    /// at the target.
    pub unsafe fn start(mut self, domain: &Domain) -> isize {
        let (address, bytes) = self.local;
        let is_parted = self.kind == Kind::Put && bytes > 1 && domain.state().chance(domain.offer.plan.unordered);
        let Some(op) = self.context.cast::<Op>().as_mut().filter(|_| is_parted) else {
            return self.call();
        };
        let user = op.context as *mut c_void;
        let inject = u64::from(ffi::FI_INJECT);
        if self.flags & inject != 0 {
            op.altered = std::slice::from_raw_parts(address as *const u8, bytes).to_vec();
            self.local.0 = op.altered.as_ptr() as usize;
            self.flags &= !inject;
        }
        let half = bytes / 2;
        let mut last = self.part(half, bytes - half);
        last.flags &= !u64::from(ffi::FI_REMOTE_CQ_DATA);
        last.flags |= u64::from(ffi::FI_DELIVERY_COMPLETE);
        op.rest = Some(self.part(0, half).again());
        issue(domain, self.kind, user, last.again())
    }
}

/// The rest of an operation of which a part is complete, if there is one: starts it.
pub unsafe fn go_on(domain: &Domain, op: *mut Op) -> bool {
    let Some(op) = op.as_mut() else { return false };
    let Some(rest) = op.rest.take() else { return false };
    let reads = 1 + domain.state().random(MOST_READS);
    domain.delayed.push(reads, op.kind, op.context as *mut c_void, rest);
    true
}
