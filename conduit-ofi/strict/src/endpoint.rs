//! Endpoints: every operation is checked, perhaps refused or failed, and passed on.

use crate::damage;
use crate::domain::{head, publish, Av, Domain, ADDRESS_MASK};
use crate::offer::Offer;
use crate::plan::{Kind, Minimum, Plan, ATOMIC_PROD, ATOMIC_READ, INJECT_ENTRIES, INJECT_ERRORS, READ_ONLY};
use crate::queue::Queue;
use crate::rules::{Buffer, Op};
use crate::unordered::{self, Transfer};
use crate::{ffi, region};
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// An endpoint.
#[repr(C)]
pub struct Endpoint {
    fid: ffi::fid_ep,
    real: *mut ffi::fid_ep,
    domain: &'static Domain,
    queue: AtomicPtr<Queue>,
    is_enabled: AtomicBool,
}

table! { FID: fi_ops { close: close, bind: bind, control: control } }
table! { EP: fi_ops_ep { setopt: set_option } }
table! { CM: fi_ops_cm { getname: name } }
table! { MSG: fi_ops_msg { recvmsg: receive, send: send, inject: inject } }
table! { RMA: fi_ops_rma { readmsg: get, writemsg: put } }
table! { ATOMIC: fi_ops_atomic {
    readwrite: fetch, compwrite: compare, readwritevalid: can_fetch, compwritevalid: can_compare
} }

impl Endpoint {
    /// Whether the user has enabled it.
    pub fn is_enabled(&self) -> bool {
        self.is_enabled.load(SeqCst)
    }
}

/// `fi_endpoint`.
pub unsafe extern "C" fn open(
    domain: *mut ffi::fid_domain,
    asked: *mut ffi::fi_info,
    ep: *mut *mut ffi::fid_ep,
    context: *mut c_void,
) -> c_int {
    let domain = &*domain.cast::<Domain>();
    let mut real = ptr::null_mut();
    let info = Offer::of((*asked).fabric_attr).real;
    let flags = (*(*asked).tx_attr).op_flags;
    if flags & u64::from(ffi::FI_DELIVERY_COMPLETE) != 0 {
        violated!("op_flags: FI_DELIVERY_COMPLETE is the default of every fi_send of the endpoint");
    }
    (*(*info).tx_attr).op_flags = flags;
    let code = real!(domain.real, ops.endpoint(info, &raw mut real, ptr::null_mut()));
    let object = || Endpoint {
        fid: ffi::fid_ep {
            fid: head(&raw const FID, context),
            ops: (&raw const EP).cast_mut(),
            cm: (&raw const CM).cast_mut(),
            msg: (&raw const MSG).cast_mut(),
            rma: (&raw const RMA).cast_mut(),
            tagged: ptr::null_mut(),
            atomic: (&raw const ATOMIC).cast_mut(),
            collective: ptr::null_mut(),
        },
        real,
        domain,
        queue: AtomicPtr::new(ptr::null_mut()),
        is_enabled: AtomicBool::new(false),
    };
    publish(code, object, ep)
}

unsafe extern "C" fn close(fid: *mut ffi::fid) -> c_int {
    let ep = Box::from_raw(fid.cast::<Endpoint>());
    let _inside = ep.domain.enter();
    let code = real!(&raw mut (*ep.real).fid, ops.close());
    ep.domain.delayed.clear();
    ep.domain.state().cancel_all(&ep.domain.offer.plan);
    code
}

/// `fi_ep_bind`: first the address vector, with no flags, and then the queue.
unsafe extern "C" fn bind(fid: *mut ffi::fid, other: *mut ffi::fid, flags: u64) -> c_int {
    let ep = &*fid.cast::<Endpoint>();
    let real = if flags == 0 {
        (*other.cast::<Av>()).real.cast()
    } else {
        ep.queue.store(other.cast(), SeqCst);
        (*other.cast::<Queue>()).real.cast()
    };
    real!(&raw mut (*ep.real).fid, ops.bind(real, flags))
}

unsafe extern "C" fn control(fid: *mut ffi::fid, command: c_int, argument: *mut c_void) -> c_int {
    let ep = &*fid.cast::<Endpoint>();
    ep.is_enabled.store(true, SeqCst);
    real!(&raw mut (*ep.real).fid, ops.control(command, argument))
}

unsafe extern "C" fn set_option(
    fid: *mut ffi::fid,
    level: c_int,
    option: c_int,
    value: *const c_void,
    len: usize,
) -> c_int {
    let ep = &*fid.cast::<Endpoint>();
    if option as u32 == ffi::FI_OPT_MIN_MULTI_RECV {
        let minimum = value.cast::<usize>().read_unaligned();
        if minimum >= 1 << 24 {
            violated!("FI_OPT_MIN_MULTI_RECV: cxi refuses {minimum} bytes");
        }
        match (ep.domain.offer.plan.minimum, ep.is_enabled()) {
            (Minimum::Late, false) => violated!("FI_OPT_MIN_MULTI_RECV is set before there is a receive context"),
            // Without effect.
            (Minimum::Early, true) => return 0,
            _ => ep.domain.state().minimum = minimum,
        }
    }
    real!(ep.real, ops.setopt(level, option, value, len))
}

unsafe extern "C" fn name(fid: *mut ffi::fid, address: *mut c_void, len: *mut usize) -> c_int {
    let ep = &*fid.cast::<Endpoint>();
    real!(ep.real, cm.getname(address, len))
}

/// A call that starts an operation.
struct Call<'a> {
    ep: *mut ffi::fid_ep,
    kind: Kind,
    /// The user's context; null for an injected message.
    context: *mut c_void,
    peer: u64,
    /// Address and key of remote memory.
    remote: (u64, u64),
    /// Local memory: the source first.
    buffers: &'a [Buffer],
    flags: u64,
}

/// Buffers for the provider in place of the user's. There are no descriptors.
struct Ready {
    ep: *mut ffi::fid_ep,
    context: *mut c_void,
    peer: u64,
    address: u64,
    key: u64,
}

impl Call<'_> {
    /// Checks the call, and makes it.
    unsafe fn start(self, call: impl FnOnce(&Ready) -> isize) -> isize {
        let ep = &*self.ep.cast::<Endpoint>();
        let (domain, kind) = (ep.domain, self.kind);
        let plan = &domain.offer.plan;
        let _inside = domain.enter();
        self.check(ep);
        if kind == Kind::Receive && (*ep.queue.load(SeqCst)).has_message_of(self.context) {
            violated!("a receive buffer is posted while a message arrives in it");
        }
        let mut state = domain.state();
        state.is_used |= kind != Kind::Receive;
        if kind == Kind::Receive && self.takes_many() && state.minimum == 0 {
            violated!("FI_OPT_MIN_MULTI_RECV is not set, so messages are cut off at the end of a buffer");
        }
        for buffer in self.buffers.iter().filter(|_| !self.is_injected()) {
            state.check_local(plan, kind, buffer);
        }
        if kind != Kind::Receive && !state.addresses.contains(&self.peer) {
            violated!("a {kind:?} to an address that was not inserted");
        }
        if kind != Kind::Receive && plan.first_call > 0 && state.is_first(self.peer) {
            drop(state);
            std::thread::sleep(Duration::from_millis(plan.first_call));
            state = domain.state();
        }
        let mut ready = Ready {
            ep: ep.real,
            context: ptr::null_mut(),
            peer: self.peer ^ ADDRESS_MASK,
            address: self.remote.0,
            key: self.remote.1,
        };
        if matches!(kind, Kind::Put | Kind::Get | Kind::Atomic) {
            (ready.address, ready.key) = region::remote(domain.offer, &state, self.remote);
        }
        let connects = kind != Kind::Receive && state.connects(plan, self.peer);
        if connects || state.chance(plan.eagain) || !state.has_room(plan, kind) {
            return -(ffi::FI_EAGAIN as isize);
        }
        if state.refuses(plan, kind) {
            return -(ffi::FI_EIO as isize);
        }
        if self.flags & plan.bad_flags != 0 {
            return -(ffi::FI_EBADFLAGS as isize);
        }
        if plan.lacks(READ_ONLY) && kind != Kind::Receive && !self.is_injected() {
            let buffer = &self.buffers[0];
            if !region::is_writable(buffer.address, buffer.bytes) {
                return -(ffi::FI_EFAULT as isize);
            }
        }
        if kind != Kind::Receive && state.fails(plan, kind) {
            if !(self.context.is_null() && plan.lacks(INJECT_ERRORS)) {
                (*ep.queue.load(SeqCst)).fail(self.context, kind);
            }
            return 0;
        }
        if !self.context.is_null() || !self.is_injected() {
            let mut op = Op::new(self.context, kind, self.buffers);
            op.many = self.takes_many();
            if plan.stale.is_some() && kind == Kind::Receive {
                let Buffer { address, bytes, .. } = self.buffers[0];
                op.before = std::slice::from_raw_parts(address as *const u8, bytes).to_vec();
            }
            let kept = matches!(kind, Kind::Send | Kind::Put) && !self.is_injected();
            ready.context = state.begin(plan, op, kept);
        }
        if kind == Kind::Get {
            let Buffer { address, bytes, .. } = self.buffers[0];
            (address as *mut u8).write_bytes(0xa5, bytes);
        }
        drop(state);
        let code = call(&ready);
        if code != 0 && !ready.context.is_null() {
            domain.state().end(plan, self.context as usize, true);
        }
        code
    }

    fn takes_many(&self) -> bool {
        self.flags & u64::from(ffi::FI_MULTI_RECV) != 0
    }

    fn is_injected(&self) -> bool {
        self.flags & u64::from(ffi::FI_INJECT) != 0
    }

    /// Checks what needs no knowledge of earlier calls.
    unsafe fn check(&self, ep: &Endpoint) {
        let (offer, kind) = (ep.domain.offer, self.kind);
        let bytes = self.buffers.first().map_or(0, |buffer| buffer.bytes);
        if !ep.is_enabled() {
            violated!("a {kind:?} on an endpoint that was not enabled");
        }
        if self.is_injected() && bytes > offer.inject {
            violated!(
                "inject_size: a {kind:?} injects {bytes} bytes; the limit is {}",
                offer.inject
            );
        }
        if kind != Kind::Receive && bytes > offer.max_msg {
            violated!(
                "max_msg_size: a {kind:?} of {bytes} bytes; the limit is {}",
                offer.max_msg
            );
        }
        let needed = match kind {
            Kind::Put | Kind::Get => ffi::FI_RMA,
            Kind::Atomic => ffi::FI_ATOMIC,
            _ => 0,
        };
        if offer.plan.lacks(self.flags | u64::from(needed)) {
            violated!("a {kind:?} needs what the provider lacks: flags {:#x}", self.flags);
        }
        let has = |flags: u32| self.flags & u64::from(flags) != 0;
        if matches!(kind, Kind::Put | Kind::Get | Kind::Receive) && !has(ffi::FI_COMPLETION) {
            violated!("a {kind:?} without FI_COMPLETION: opx does not report its end");
        }
        if kind == Kind::Put && !has(ffi::FI_DELIVERY_COMPLETE | ffi::FI_REMOTE_CQ_DATA) {
            violated!("a Put without FI_DELIVERY_COMPLETE: its completion says nothing of the target (cxi, efa, psm)");
        }
        if kind == Kind::Put && self.is_injected() && offer.plan.lacks(INJECT_ENTRIES) {
            violated!("FI_INJECT: ofi_rxd does not report the end of an injected put");
        }
        let of_plan = match kind {
            Kind::Put => offer.plan.put_flags,
            Kind::Get => offer.plan.get_flags,
            Kind::Receive => offer.plan.receive_flags,
            _ => None,
        };
        if of_plan.is_some_and(|known| self.flags & !known != 0) {
            violated!(
                "a {kind:?} with flags {:#x}, which the provider does not know",
                self.flags
            );
        }
        let known = match kind {
            Kind::Get => ffi::FI_COMPLETION,
            Kind::Receive => ffi::FI_COMPLETION | ffi::FI_MULTI_RECV,
            _ => return self.check_data(offer),
        };
        if self.flags & !u64::from(known) != 0 {
            violated!("a {kind:?} with flags {:#x}, which cxi refuses", self.flags);
        }
    }

    /// Checks the data that a put carries.
    fn check_data(&self, offer: &Offer) {
        let kind = self.kind;
        if self.flags & u64::from(ffi::FI_REMOTE_CQ_DATA) != 0 && offer.plan.cq_data.is_some_and(|bytes| bytes < 8) {
            violated!("cq_data_size: a {kind:?} carries 8 bytes");
        }
    }
}

/// Local memory of a call.
fn buffer(address: *const c_void, bytes: usize, descriptor: *mut c_void, access: u32) -> Buffer {
    Buffer {
        address: address as usize,
        bytes,
        descriptor,
        access,
    }
}

unsafe extern "C" fn inject(ep: *mut ffi::fid_ep, buf: *const c_void, len: usize, peer: u64) -> isize {
    let call = Call {
        ep,
        kind: Kind::Send,
        context: ptr::null_mut(),
        peer,
        remote: (0, 0),
        buffers: &[buffer(buf, len, ptr::null_mut(), ffi::FI_SEND)],
        flags: ffi::FI_INJECT.into(),
    };
    let domain = (*ep.cast::<Endpoint>()).domain;
    let bytes = std::slice::from_raw_parts(buf.cast::<u8>(), len).to_vec();
    call.start(|ready| {
        let (ep, peer) = (ready.ep, ready.peer);
        let call = move || real!(ep, msg.inject(bytes.as_ptr().cast(), bytes.len(), peer));
        unordered::issue(domain, Kind::Send, ptr::null_mut(), Box::new(call))
    })
}

unsafe extern "C" fn send(
    ep: *mut ffi::fid_ep,
    buf: *const c_void,
    len: usize,
    descriptor: *mut c_void,
    peer: u64,
    context: *mut c_void,
) -> isize {
    let call = Call {
        ep,
        kind: Kind::Send,
        context,
        peer,
        remote: (0, 0),
        buffers: &[buffer(buf, len, descriptor, ffi::FI_SEND)],
        flags: 0,
    };
    let domain = (*ep.cast::<Endpoint>()).domain;
    call.start(|ready| {
        let Ready {
            ep,
            peer,
            context: of_provider,
            ..
        } = *ready;
        let call = move || real!(ep, msg.send(buf, len, ptr::null_mut(), peer, of_provider));
        unordered::issue(domain, Kind::Send, context, Box::new(call))
    })
}

/// The only buffer of a message of these parts.
unsafe fn only(iov: *const libc::iovec, descriptors: *mut *mut c_void, count: usize, access: u32) -> Buffer {
    if count != 1 {
        violated!("{count} buffers: conduit-ofi has one");
    }
    buffer((*iov).iov_base, (*iov).iov_len, *descriptors, access)
}

unsafe extern "C" fn receive(ep: *mut ffi::fid_ep, message: *const ffi::fi_msg, flags: u64) -> isize {
    let mut message = *message;
    let call = Call {
        ep,
        kind: Kind::Receive,
        context: message.context,
        peer: message.addr,
        remote: (0, 0),
        buffers: &[only(message.msg_iov, message.desc, message.iov_count, ffi::FI_RECV)],
        flags,
    };
    call.start(|ready| {
        (message.desc, message.context) = (ptr::null_mut(), ready.context);
        real!(ready.ep, msg.recvmsg(&raw const message, flags))
    })
}

/// `fi_writemsg` and `fi_readmsg`.
unsafe fn rma(ep: *mut ffi::fid_ep, message: *const ffi::fi_msg_rma, flags: u64, (kind, access): (Kind, u32)) -> isize {
    let message = &*message;
    let (remote, domain) = (*message.rma_iov, (*ep.cast::<Endpoint>()).domain);
    let mut source = only(message.msg_iov, message.desc, message.iov_count, access);
    source.address = region::local(domain, source.descriptor, source.address as *mut c_void) as usize;
    let call = Call {
        ep,
        kind,
        context: message.context,
        peer: message.addr,
        remote: (remote.addr, remote.key),
        buffers: &[source],
        flags,
    };
    call.start(|ready| {
        let mut transfer = Transfer {
            ep: ready.ep,
            kind,
            local: (source.address, source.bytes),
            peer: ready.peer,
            remote: (ready.address, ready.key),
            context: ready.context,
            data: message.data,
            flags,
        };
        let altered = if kind == Kind::Put {
            damage::altered(domain, &source)
        } else {
            None
        };
        if let Some((op, data)) = ready.context.cast::<Op>().as_mut().zip(altered) {
            op.altered = data;
            transfer.local.0 = op.altered.as_ptr() as usize;
        }
        transfer.start(domain)
    })
}

unsafe extern "C" fn put(ep: *mut ffi::fid_ep, message: *const ffi::fi_msg_rma, flags: u64) -> isize {
    rma(ep, message, flags, (Kind::Put, ffi::FI_WRITE))
}

unsafe extern "C" fn get(ep: *mut ffi::fid_ep, message: *const ffi::fi_msg_rma, flags: u64) -> isize {
    rma(ep, message, flags, (Kind::Get, ffi::FI_READ))
}

/// The values of an atomic.
fn values(address: *const c_void, (count, datatype): (usize, u32), descriptor: *mut c_void, access: u32) -> Buffer {
    let bytes = match datatype {
        ffi::FI_INT32 | ffi::FI_UINT32 => 4,
        _ => 8,
    };
    buffer(address, count * bytes, descriptor, access)
}

unsafe extern "C" fn fetch(
    ep: *mut ffi::fid_ep,
    buf: *const c_void,
    count: usize,
    descriptor: *mut c_void,
    result: *mut c_void,
    result_descriptor: *mut c_void,
    peer: u64,
    address: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let (shape, none) = ((count, datatype), ptr::null_mut());
    if withheld(ep, op) {
        violated!("fi_query_atomic: the provider lacks operation {op}");
    }
    let call = Call {
        ep,
        kind: Kind::Atomic,
        context,
        peer,
        remote: (address, key),
        buffers: &[
            values(buf, shape, descriptor, ffi::FI_WRITE),
            values(result, shape, result_descriptor, ffi::FI_READ),
        ],
        flags: 0,
    };
    let done = damage::operation((*ep.cast::<Endpoint>()).domain, op);
    let result = if op == ffi::FI_ATOMIC_READ && plan_of(ep).lacks(ATOMIC_READ) {
        // The user's is left as it is. Atomics have one value of at most eight bytes.
        static LOST: AtomicU64 = AtomicU64::new(0);
        LOST.as_ptr().cast()
    } else {
        result
    };
    call.start(|ready| {
        let Ready {
            peer,
            address,
            key,
            context,
            ..
        } = *ready;
        real!(
            ready.ep,
            atomic.readwrite(buf, count, none, result, none, peer, address, key, datatype, done, context)
        )
    })
}

unsafe extern "C" fn compare(
    ep: *mut ffi::fid_ep,
    buf: *const c_void,
    count: usize,
    descriptor: *mut c_void,
    compare: *const c_void,
    compare_descriptor: *mut c_void,
    result: *mut c_void,
    result_descriptor: *mut c_void,
    peer: u64,
    address: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let (shape, none) = ((count, datatype), ptr::null_mut());
    let call = Call {
        ep,
        kind: Kind::Atomic,
        context,
        peer,
        remote: (address, key),
        buffers: &[
            values(buf, shape, descriptor, ffi::FI_WRITE),
            values(compare, shape, compare_descriptor, ffi::FI_WRITE),
            values(result, shape, result_descriptor, ffi::FI_READ),
        ],
        flags: 0,
    };
    call.start(|ready| {
        let Ready {
            peer,
            address,
            key,
            context,
            ..
        } = *ready;
        real!(
            ready.ep,
            atomic.compwrite(buf, count, none, compare, none, result, none, peer, address, key, datatype, op, context)
        )
    })
}

/// The plan of the provider of an endpoint.
unsafe fn plan_of<'a>(ep: *mut ffi::fid_ep) -> &'a Plan {
    &(*ep.cast::<Endpoint>()).domain.offer.plan
}

/// Whether the plan withholds an operation.
unsafe fn withheld(ep: *mut ffi::fid_ep, op: u32) -> bool {
    let plan = plan_of(ep);
    plan.lacks(ffi::FI_ATOMIC.into()) || op == ffi::FI_PROD && plan.lacks(ATOMIC_PROD)
}

unsafe extern "C" fn can_fetch(ep: *mut ffi::fid_ep, datatype: u32, op: u32, count: *mut usize) -> c_int {
    if withheld(ep, op) {
        -(ffi::FI_EOPNOTSUPP as c_int)
    } else {
        real!(
            (*ep.cast::<Endpoint>()).real,
            atomic.readwritevalid(datatype, op, count)
        )
    }
}

unsafe extern "C" fn can_compare(ep: *mut ffi::fid_ep, datatype: u32, op: u32, count: *mut usize) -> c_int {
    if withheld(ep, op) {
        -(ffi::FI_EOPNOTSUPP as c_int)
    } else {
        real!(
            (*ep.cast::<Endpoint>()).real,
            atomic.compwritevalid(datatype, op, count)
        )
    }
}
