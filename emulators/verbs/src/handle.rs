//! The objects behind the pointers that programs hold. Each begins with the struct of
//! `<infiniband/verbs.h>`, which programs may read; fields of the emulator follow.

use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use emulator_common::lock::locked;
use emulator_common::wait::{Misses, Using};
use gasnet_ibv_abi as abi;

use crate::address::Vector;
use crate::copy::Sge;
use crate::cq::Cqe;
use crate::device_memory::Mapping;
use crate::footprint::Locked;
use crate::fork;
use crate::process::Process;
use crate::qp;
use crate::shm;
use crate::single_thread::OnlyThread;
use crate::wqe::Wqe;

/// Counts events that were delivered and acknowledged. The destruction of an object waits until all
/// are acknowledged.
#[derive(Default)]
pub struct Acknowledged {
    pending: Mutex<u32>,
    none: Condvar,
}

impl Acknowledged {
    pub fn deliver(&self) {
        *locked(&self.pending) += 1;
    }

    pub fn acknowledge(&self, events: u32) {
        let mut pending = locked(&self.pending);
        *pending = pending.saturating_sub(events);
        if *pending == 0 {
            self.none.notify_all();
        }
    }

    pub fn wait(&self) {
        let mut pending = locked(&self.pending);
        while *pending != 0 {
            pending = self.none.wait(pending).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// `ibv_device`. Never freed.
#[repr(C)]
pub struct Device {
    pub visible: UnsafeCell<abi::ibv_device>,
    pub index: u32,
}

/// `ibv_context` lies inside.
#[repr(C)]
pub struct Context {
    pub visible: UnsafeCell<abi::verbs_context>,
    pub process: &'static Process,
    pub device: u32,
    /// Asynchronous events.
    pub events: u32,
    pub descriptor: OwnedFd,
    pub open: Arc<AtomicBool>,
    /// Objects made of it: PDs, completion channels, CQs and XRC domains.
    pub users: AtomicU32,
    /// Polls of its CQs, if `resolve-polls` counts them.
    pub polls: AtomicU64,
}

#[repr(C)]
pub struct Pd {
    pub visible: UnsafeCell<abi::ibv_pd>,
    pub number: u32,
    pub context: Using<'static>,
    /// Objects made of it.
    pub users: AtomicU32,
}

#[repr(C)]
pub struct Mr {
    pub visible: UnsafeCell<abi::ibv_mr>,
    pub index: u32,
    pub pd: Using<'static>,
    /// Second mapping of memory of a device.
    pub mapping: Option<Mapping>,
}

#[repr(C)]
pub struct Channel {
    pub visible: UnsafeCell<abi::ibv_comp_channel>,
    pub events: u32,
    pub descriptor: OwnedFd,
    pub context: Using<'static>,
    pub users: AtomicU32,
}

#[repr(C)]
pub struct Cq {
    pub visible: UnsafeCell<abi::ibv_cq_ex>,
    pub process: &'static Process,
    pub shared: &'static shm::Cq,
    pub index: u32,
    pub key: u32,
    pub context: Using<'static>,
    pub channel: Option<Using<'static>>,
    pub users: AtomicU32,
    pub poller: OnlyThread,
    pub misses: Misses,
    pub completions: Acknowledged,
    pub asynchronous: Acknowledged,
    pub locked: Locked,
    /// Between `ibv_start_poll` and `ibv_end_poll`.
    pub current: UnsafeCell<Option<Cqe>>,
}

#[repr(C)]
pub struct Srq {
    pub visible: UnsafeCell<abi::ibv_srq>,
    pub process: &'static Process,
    pub shared: &'static shm::Srq,
    pub index: u32,
    pub key: u32,
    pub max_wr: u32,
    pub is_xrc: bool,
    /// Its PD, and the domain and the CQ of an XRC SRQ.
    pub uses: Vec<Using<'static>>,
    pub users: AtomicU32,
    pub poster: OnlyThread,
    pub asynchronous: Acknowledged,
    pub locked: Locked,
}

#[repr(C)]
#[allow(clippy::struct_field_names)]
pub struct Qp {
    pub visible: UnsafeCell<abi::ibv_qp_ex>,
    pub qp: Arc<qp::Qp>,
    /// Its PD, CQs and SRQ, or the domain of an XRC receive QP.
    pub uses: Vec<Using<'static>>,
    /// The threads that post to its send and receive queues.
    pub sender: OnlyThread,
    pub receiver: OnlyThread,
    pub asynchronous: Acknowledged,
    /// None: opened.
    pub locked: Option<Locked>,
    /// Between `ibv_wr_start` and `ibv_wr_complete`.
    pub batch: UnsafeCell<Vec<Wqe>>,
}

#[repr(C)]
pub struct Ah {
    pub visible: UnsafeCell<abi::ibv_ah>,
    pub pd: Using<'static>,
    pub vector: Vector,
    /// Datagrams that have not completed.
    pub queued: AtomicU32,
}

#[repr(C)]
pub struct Xrcd {
    pub visible: UnsafeCell<abi::ibv_xrcd>,
    pub number: u32,
    pub context: Using<'static>,
    pub users: AtomicU32,
}

/// An object and the C type of its handle.
pub trait Object: Sized + 'static {
    type Handle;

    /// The object of a handle.
    fn of(handle: *mut Self::Handle) -> &'static Self {
        check(handle, std::any::type_name::<Self>());
        Self::check_process(handle);
        // SAFETY: programs pass handles that `handle` made, and this one was not ended; the object
        // begins with what the handle points to.
        unsafe { &*handle.cast::<Self>() }
    }

    /// Aborts if the process is a fork of the one that made the object.
    fn check_process(handle: *mut Self::Handle) {
        context_of(handle);
    }

    /// A handle, valid until `free`.
    fn handle(self) -> *mut Self::Handle {
        Box::into_raw(Box::new(self)).cast()
    }

    /// Ends a handle; a later use of it aborts.
    fn free(handle: *mut Self::Handle) {
        bury(handle, std::ptr::from_ref(Self::of(handle)).cast_mut());
    }
}

/// First word of an object of C that was ended.
const ENDED: usize = usize::from_ne_bytes([0xde; size_of::<usize>()]);

/// Aborts if the object of a handle was ended: the device's driver would use freed memory.
#[inline]
pub fn check<T>(handle: *const T, what: &str) {
    // SAFETY: handles are pointers to structs, which stay readable for a while after their end.
    if unsafe { handle.cast::<usize>().read() } == ENDED {
        let what = what.rsplit("::").next().unwrap_or(what);
        misuse(&format!("use of a {what} that was destroyed"));
    }
}

/// Reports misuse, and aborts.
#[cold]
pub fn misuse(what: &str) -> ! {
    eprintln!("emulator of verbs: {what}");
    std::process::abort();
}

/// Ends an object, and keeps its memory with a mark for a while.
fn bury<T, H>(handle: *mut H, object: *mut T) {
    /// Objects that are kept.
    const MOST: usize = 1 << 14;
    static ENDED_ONES: Mutex<VecDeque<(usize, Layout)>> = Mutex::new(VecDeque::new());
    // SAFETY: made by `handle`; `of` has found that this is its first end. The handle points into it.
    unsafe {
        object.drop_in_place();
        handle.cast::<usize>().write(ENDED);
    }
    let mut ended = locked(&ENDED_ONES);
    ended.push_back((object as usize, Layout::new::<T>()));
    if ended.len() > MOST {
        if let Some((object, layout)) = ended.pop_front() {
            // SAFETY: allocated as a box of that layout, which nobody frees elsewhere.
            unsafe { std::alloc::dealloc(object as *mut u8, layout) };
        }
    }
}

macro_rules! objects {
    ($($object:ty: $handle:ty),* $(,)?) => { $(impl Object for $object {
        type Handle = $handle;
    })* };
}
objects! {
    Pd: abi::ibv_pd,
    Mr: abi::ibv_mr,
    Channel: abi::ibv_comp_channel,
    Cq: abi::ibv_cq,
    Srq: abi::ibv_srq,
    Qp: abi::ibv_qp,
    Ah: abi::ibv_ah,
    Xrcd: abi::ibv_xrcd,
}

/// Devices are the same in all processes.
impl Object for Device {
    type Handle = abi::ibv_device;

    fn check_process(_: *mut abi::ibv_device) {}
}

/// The handle is inside the object, whose C part grows to the front.
impl Object for Context {
    type Handle = abi::ibv_context;

    fn of(handle: *mut abi::ibv_context) -> &'static Context {
        check(handle, "Context");
        // SAFETY: as above, and the context's place in its struct is part of the ABI.
        let context: &Context = unsafe {
            &*handle
                .cast::<u8>()
                .sub(std::mem::offset_of!(abi::verbs_context, context))
                .cast()
        };
        if fork::is_child_of(context.process) {
            misuse("use of an object in a forked child, whose parent has made it");
        }
        context
    }

    fn handle(self) -> *mut abi::ibv_context {
        Box::leak(Box::new(self)).pointer()
    }
}

impl Context {
    /// The pointer that programs have.
    pub fn pointer(&self) -> *mut abi::ibv_context {
        // SAFETY: inside the object, which outlives its handle.
        unsafe { &raw mut (*self.visible.get()).context }
    }
}

/// The context of an object whose C struct begins with it.
pub fn context_of<T>(handle: *mut T) -> &'static Context {
    check(handle, std::any::type_name::<T>());
    // SAFETY: all objects of verbs but contexts and devices begin with their context.
    Context::of(unsafe { *handle.cast::<*mut abi::ibv_context>() })
}

/// Whether an object of a device may be ended. Err: errno, if others use it, or the device has
/// failed with option `destroy-fails`.
pub fn check_end(context: &Context, users: u32) -> Result<(), i32> {
    if context.process.config.destroy_fails {
        context.process.check(context.device)?;
    }
    match users {
        0 => Ok(()),
        _ => Err(libc::EBUSY),
    }
}

/// A struct of verbs, all zero.
pub fn zeroed<T>() -> T {
    // SAFETY: all zero is valid for the structs of verbs: numbers, and pointers and calls that may
    // be null.
    unsafe { std::mem::zeroed() }
}

/// Writes a value where a program wants it.
pub fn store<T>(place: *mut T, value: T) {
    // SAFETY: verbs' callers pass valid places for results.
    unsafe { place.write(value) };
}

/// Reads a struct that a program passes.
pub fn load<T>(place: *const T) -> T {
    // SAFETY: verbs' callers pass valid structs.
    unsafe { place.read() }
}

/// The SGEs of a list in C.
pub fn sges(list: *const abi::ibv_sge, count: usize) -> Vec<Sge> {
    (0..count)
        .map(|n| load(list.wrapping_add(n)))
        .map(|sge| Sge {
            addr: sge.addr,
            length: sge.length,
            lkey: sge.lkey,
        })
        .collect()
}

/// Sets errno to that of a failure and returns null.
pub fn null_for<T>(error: &std::io::Error) -> *mut T {
    null(error.raw_os_error().unwrap_or(libc::EIO))
}

/// Sets errno and returns null.
pub fn null<T>(errno: i32) -> *mut T {
    // SAFETY: this thread's errno.
    unsafe { *libc::__errno_location() = errno };
    std::ptr::null_mut()
}
