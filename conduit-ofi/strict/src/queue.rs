//! Completion queues: completions that come late, in any order, or are errors.

use crate::damage;
use crate::domain::{head, Domain};
use crate::ends::{self, FORGED};
use crate::ffi;
use crate::outsiders;
use crate::plan::End;
use crate::plan::Kind;
use crate::plan::{CUT_LENGTH, ERROR_FLAGS, GET_WAIT, INJECTED, WAKES};
use crate::rules::{Op, State};
use crate::unordered;
use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void, CStr};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The provider's text of injected errors.
const TEXT: &CStr = c"as the plan wanted";
/// Most completions that are held back.
const MOST: usize = 1024;
/// Most completions that are read at once.
const BATCH: usize = 64;

/// A queue.
#[repr(C)]
pub struct Queue {
    fid: ffi::fid_cq,
    pub real: *mut ffi::fid_cq,
    pub domain: &'static Domain,
    pending: Mutex<Pending>,
    /// Text of the last error. The next read of completions or errors frees it (efa).
    text: AtomicPtr<c_char>,
}

/// Entries that the user has not read yet. Contexts are the user's.
#[derive(Default)]
struct Pending {
    completions: Vec<ffi::fi_cq_data_entry>,
    errors: VecDeque<ffi::fi_cq_err_entry>,
}

// SAFETY: the pointers are not followed.
unsafe impl Send for Pending {}

table! { FID: fi_ops { close: close, control: control } }
table! { OPS: fi_ops_cq { read: read, readerr: read_error, strerror: text } }

/// A queue around one of the provider's.
pub fn new(real: *mut ffi::fid_cq, domain: &'static Domain, context: *mut c_void) -> Queue {
    Queue {
        fid: ffi::fid_cq {
            fid: head(&raw const FID, context),
            ops: (&raw const OPS).cast_mut(),
        },
        real,
        domain,
        pending: Mutex::default(),
        text: AtomicPtr::default(),
    }
}

/// The record of an injected error.
pub fn injected(context: *mut c_void, flags: u64, errno: u32) -> ffi::fi_cq_err_entry {
    // SAFETY: all zero is a valid value.
    let none: ffi::fi_cq_err_entry = unsafe { std::mem::zeroed() };
    ffi::fi_cq_err_entry {
        op_context: context,
        flags,
        err: errno as c_int,
        prov_errno: INJECTED,
        ..none
    }
}

impl Queue {
    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a read may return something without the provider's help.
    pub fn has_something(&self) -> bool {
        let pending = self.pending();
        !pending.completions.is_empty() || !pending.errors.is_empty() || !self.domain.delayed.is_empty()
    }

    /// An operation of the user fails. The record has the flags of its completion (`fi_cq(3)`).
    pub fn fail(&self, context: *mut c_void, kind: Kind) {
        let flags = match kind {
            Kind::Send => ffi::FI_MSG | ffi::FI_SEND,
            Kind::Put => ffi::FI_RMA | ffi::FI_WRITE,
            Kind::Get => ffi::FI_RMA | ffi::FI_READ,
            Kind::Atomic => ffi::FI_ATOMIC | ffi::FI_READ,
            Kind::Receive | Kind::Queue | Kind::Address => 0,
        };
        let plan = &self.domain.offer.plan;
        let flags = u64::from(flags) * u64::from(!plan.lacks(ERROR_FLAGS));
        let (errno, prov_errno) = plan.error();
        let error = injected(context, flags, errno);
        self.pending()
            .errors
            .push_back(ffi::fi_cq_err_entry { prov_errno, ..error });
    }

    /// Takes what the provider has. `-FI_EAVAIL`: an error is among it.
    unsafe fn fill(&self, pending: &mut Pending) -> isize {
        let mut room = [const { std::mem::MaybeUninit::<ffi::fi_cq_data_entry>::uninit() }; BATCH];
        if pending.completions.len() > MOST {
            return 0;
        }
        let code = real!(self.real, ops.read(room.as_mut_ptr().cast(), BATCH));
        if code == -(ffi::FI_EAVAIL as isize) {
            let mut error = injected(std::ptr::null_mut(), 0, 0);
            if real!(self.real, ops.readerr(&raw mut error, 0)) > 0 {
                error.op_context = users(error.op_context);
                pending.errors.push_back(error);
            }
            return code;
        }
        for entry in &room[..code.max(0) as usize] {
            let mut entry = entry.assume_init();
            let plan = &self.domain.offer.plan;
            if unordered::go_on(self.domain, entry.op_context.cast()) {
                continue;
            }
            if let Some(op) = entry
                .op_context
                .cast::<Op>()
                .as_ref()
                .filter(|op| op.kind != Kind::Receive)
            {
                damage::alter_get(plan, op);
                if self.domain.state().loses(plan, op.kind) {
                    continue;
                }
            }
            let end = ends::shape(plan, &mut entry, self.domain.state().minimum);
            let is_message = entry.flags & u64::from(ffi::FI_RECV) != 0;
            let count = is_message.then(|| self.domain.state().count_message());
            let errno = count.and_then(|count| State::error_of_message(plan, count));
            if let Some(count) = count {
                outsiders::change(plan, &mut entry, count);
                pending.errors.extend(outsiders::stray(plan, count));
            }
            let full = full(entry.op_context);
            entry.op_context = users(entry.op_context);
            match errno {
                Some(errno) => {
                    let mut error = injected(entry.op_context, entry.flags, errno);
                    if errno == ffi::FI_ETRUNC && !plan.lacks(CUT_LENGTH) {
                        // The end of the buffer cut it off.
                        let left = 8.min(entry.len);
                        let place = full + left - entry.len;
                        (error.buf, error.len, error.olen) = (place as *mut c_void, entry.len, left);
                    }
                    pending.errors.push_back(error);
                }
                None => pending.completions.push(entry),
            }
            pending.completions.extend(end);
        }
        code
    }

    /// Whether a message in this receive was not read yet.
    pub fn has_message_of(&self, context: *mut c_void) -> bool {
        let mut completions = self.pending().completions.clone().into_iter();
        completions.any(|entry| entry.op_context == context && entry.flags & u64::from(ffi::FI_RECV) != 0)
    }
}

/// The user's context of an operation of the provider.
unsafe fn users(context: *mut c_void) -> *mut c_void {
    match context.cast::<Op>().as_ref() {
        Some(op) => op.context as *mut c_void,
        None => context,
    }
}

/// End of the buffer of an operation of the provider.
unsafe fn full(context: *mut c_void) -> usize {
    let buffer = context.cast::<Op>().as_ref().and_then(|op| op.buffers.first());
    buffer.map_or(0, |buffer| buffer.address + buffer.bytes)
}

/// `fi_cq_read`.
unsafe extern "C" fn read(cq: *mut ffi::fid_cq, buf: *mut c_void, count: usize) -> isize {
    let queue = &*cq.cast::<Queue>();
    let (domain, plan) = (queue.domain, &queue.domain.offer.plan);
    let _inside = domain.enter();
    queue.text.store(ptr::null_mut(), SeqCst);
    domain.state().connect();
    domain.delayed.run(queue);
    if domain.state().refuses(plan, Kind::Queue) {
        return -(ffi::FI_EIO as isize);
    }
    let mut pending = queue.pending();
    if pending.errors.is_empty() {
        let code = queue.fill(&mut pending);
        if code < 0 && code != -(ffi::FI_EAGAIN as isize) && pending.errors.is_empty() {
            return code;
        }
    }
    if !pending.errors.is_empty() {
        return -(ffi::FI_EAVAIL as isize);
    }
    let mut state = domain.state();
    let mut taken = 0;
    let mut at = 0;
    while taken < count && at < pending.completions.len() {
        if plan.late > 0 {
            let rest = (pending.completions.len() - at) as u64;
            let other = at + state.random(rest) as usize;
            pending.completions.swap(at, other);
        }
        // The end of a receive buffer comes after its messages.
        let mut entry = pending.completions[at];
        let is_last = entry.flags & (u64::from(ffi::FI_MULTI_RECV) | FORGED) == u64::from(ffi::FI_MULTI_RECV);
        let same = pending
            .completions
            .iter()
            .filter(|other| other.op_context == entry.op_context);
        let waits = is_last && plan.end != End::Early && same.count() > 1;
        if waits || state.chance(plan.late) {
            at += 1;
            continue;
        }
        pending.completions.remove(at);
        if let Some(error) = ends::error(&entry) {
            pending.errors.push_back(error);
            break;
        }
        state.end(plan, entry.op_context as usize, is_last);
        entry.flags &= !FORGED;
        buf.cast::<ffi::fi_cq_data_entry>().add(taken).write(entry);
        taken += 1;
    }
    match taken {
        0 if !pending.errors.is_empty() => -(ffi::FI_EAVAIL as isize),
        0 => -(ffi::FI_EAGAIN as isize),
        _ => taken as isize,
    }
}

/// `fi_cq_readerr`.
unsafe extern "C" fn read_error(cq: *mut ffi::fid_cq, buf: *mut ffi::fi_cq_err_entry, _flags: u64) -> isize {
    let queue = &*cq.cast::<Queue>();
    let _inside = queue.domain.enter();
    queue.text.store(ptr::null_mut(), SeqCst);
    let Some(mut error) = queue.pending().errors.pop_front() else {
        return -(ffi::FI_EAGAIN as isize);
    };
    let plan = &queue.domain.offer.plan;
    if error.prov_errno != 0 && plan.injects(error.prov_errno) && (*buf).err_data_size == 0 {
        // Never freed, so that no later text has its address.
        let text = TEXT.to_owned().into_raw();
        (error.err_data, error.err_data_size) = (text.cast(), TEXT.count_bytes() + 1);
        queue.text.store(text, SeqCst);
    }
    let is_last = error.flags & u64::from(ffi::FI_MULTI_RECV) != 0;
    queue.domain.state().end(plan, error.op_context as usize, is_last);
    *buf = error;
    // Later versions of the record are longer.
    let known = size_of_val(&error);
    buf.byte_add(known)
        .cast::<u8>()
        .write_bytes(0xa5, plan.record.saturating_sub(known));
    // So that another thread gets a chance to free the text.
    std::thread::yield_now();
    1
}

/// `fi_cq_strerror`.
unsafe extern "C" fn text(
    cq: *mut ffi::fid_cq,
    errno: c_int,
    data: *const c_void,
    buf: *mut c_char,
    len: usize,
) -> *const c_char {
    let queue = &*cq.cast::<Queue>();
    let _inside = queue.domain.enter();
    if errno != 0 && queue.domain.offer.plan.injects(errno) {
        if data.is_null() || data != queue.text.load(SeqCst).cast() {
            violated!("err_data: the text of an error is used after another read has freed it (efa)");
        }
        return data.cast();
    }
    match (*(*queue.real).ops).strerror {
        Some(text) => text(queue.real, errno, data, buf, len),
        None => std::ptr::null(),
    }
}

unsafe extern "C" fn control(fid: *mut ffi::fid, command: c_int, argument: *mut c_void) -> c_int {
    /// A descriptor that is never readable.
    static ASLEEP: OnceLock<c_int> = OnceLock::new();
    let queue = &*fid.cast::<Queue>();
    let plan = &queue.domain.offer.plan;
    if command as u32 == ffi::FI_GETWAIT && plan.lacks(GET_WAIT) {
        return -libc::ENOSYS;
    }
    if command as u32 == ffi::FI_GETWAIT && plan.lacks(WAKES) {
        *argument.cast() = *ASLEEP.get_or_init(|| libc::eventfd(0, libc::EFD_CLOEXEC));
        return 0;
    }
    real!(&raw mut (*queue.real).fid, ops.control(command, argument))
}

unsafe extern "C" fn close(fid: *mut ffi::fid) -> c_int {
    let queue = Box::from_raw(fid.cast::<Queue>());
    real!(&raw mut (*queue.real).fid, ops.close())
}
