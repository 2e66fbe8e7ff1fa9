//! Fabrics, domains and address vectors.

use crate::offer::{self, Offer};
use crate::plan::{Kind, AV_MAP, ONE_THREAD, THREAD_DOMAIN, WAIT_FD};
use crate::queue::Queue;
use crate::rules::State;
use crate::unordered::Delayed;
use crate::{endpoint, ffi, queue, region, Real};
use emulator_common::frames::Frames;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// The head of an object whose class nobody asks for.
pub const fn head(ops: *const ffi::fi_ops, context: *mut c_void) -> ffi::fid {
    ffi::fid {
        fclass: 0,
        context,
        ops: ops.cast_mut(),
    }
}

/// Stores a new object where the user wants it, if the provider has opened its own.
pub unsafe fn publish<T, F>(code: c_int, object: impl FnOnce() -> T, place: *mut *mut F) -> c_int {
    if code == 0 {
        *place = Box::into_raw(Box::new(object())).cast();
    }
    code
}

#[repr(C)]
struct Fabric {
    fid: ffi::fid_fabric,
    real: *mut ffi::fid_fabric,
}

table! { FABRIC_FID: fi_ops { close: close_fabric } }
table! { FABRIC: fi_ops_fabric { domain: open_domain, trywait: trywait } }

/// `fi_fabric`.
pub unsafe fn open_fabric(
    attributes: *mut ffi::fi_fabric_attr,
    fabric: *mut *mut ffi::fid_fabric,
    context: *mut c_void,
) -> c_int {
    offer::check_variables();
    let offer = Offer::of(attributes);
    let newest = offer.plan.interface.unwrap_or_else(|| crate::fi_version());
    if (*attributes).api_version < newest.min(0x1_0012) {
        violated!("api_version: efa turns the device's RDMA off below 1.18");
    }
    let mut real = ptr::null_mut();
    let code = (Real::get().fabric)((*offer.real).fabric_attr, &raw mut real, ptr::null_mut());
    let object = || Fabric {
        fid: ffi::fid_fabric {
            fid: head(&raw const FABRIC_FID, context),
            ops: (&raw const FABRIC).cast_mut(),
            api_version: (*real).api_version,
        },
        real,
    };
    publish(code, object, fabric)
}

unsafe extern "C" fn close_fabric(fid: *mut ffi::fid) -> c_int {
    let fabric = Box::from_raw(fid.cast::<Fabric>());
    real!(&raw mut (*fabric.real).fid, ops.close())
}

/// `fi_trywait`, on queues.
unsafe extern "C" fn trywait(fabric: *mut ffi::fid_fabric, fids: *mut *mut ffi::fid, count: c_int) -> c_int {
    let queues = std::slice::from_raw_parts(fids, count as usize);
    for queue in queues {
        let queue = &*queue.cast::<Queue>();
        let _inside = queue.domain.enter();
        if queue.has_something() {
            return -(ffi::FI_EAGAIN as c_int);
        }
        let mut real = queue.real.cast();
        let code = real!((*fabric.cast::<Fabric>()).real, ops.trywait(&raw mut real, 1));
        if code != 0 {
            return code;
        }
    }
    0
}

/// A domain, which knows everything about its user.
#[repr(C)]
pub struct Domain {
    fid: ffi::fid_domain,
    pub real: *mut ffi::fid_domain,
    pub offer: &'static Offer,
    is_inside: AtomicBool,
    state: Mutex<State>,
    /// For `stale_pages`.
    pub frames: Option<Frames>,
    /// For `unordered`.
    pub delayed: Delayed,
}

table! { DOMAIN_FID: fi_ops { close: close_domain, control: control } }
table! { DOMAIN: fi_ops_domain { av_open: open_av, cq_open: open_queue, endpoint: endpoint::open } }

/// A thread is inside the domain as long as this lives.
pub struct Inside<'a>(&'a Domain);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.is_inside.store(false, Ordering::Release);
    }
}

impl Domain {
    /// A call of the user enters the domain or one of its objects.
    pub fn enter(&self) -> Inside<'_> {
        let is_alone = self.offer.plan.demands(THREAD_DOMAIN | ONE_THREAD);
        if self.is_inside.swap(true, Ordering::Acquire) && is_alone {
            violated!("FI_THREAD_DOMAIN: two threads are inside a domain");
        }
        // So that a second thread gets a chance to come.
        if is_alone && self.state().random(8) == 0 {
            std::thread::yield_now();
        }
        Inside(self)
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Registration of [`fork`], for the life of the process.
static FORK_ABORTS: Once = Once::new();

/// A process with a domain of efa forks (libfabric v2.6.0, efa/src/efa_fork_support.c).
unsafe extern "C" fn fork() {
    violated!("the process forks: efa ends it without support of forks");
}

unsafe extern "C" fn open_domain(
    fabric: *mut ffi::fid_fabric,
    info: *mut ffi::fi_info,
    domain: *mut *mut ffi::fid_domain,
    context: *mut c_void,
) -> c_int {
    /// So that the domains of a process have other random numbers.
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let offer = Offer::of((*info).fabric_attr);
    if offer.is_twin {
        violated!("efa-direct is opened, which has no receive buffers for many messages and no atomics");
    }
    if offer.plan.fork_aborts {
        FORK_ABORTS.call_once(|| {
            libc::pthread_atfork(Some(fork), None, None);
        });
    }
    // opx refuses a record without the bit that it has set.
    if (*(*info).domain_attr).mr_mode & offer.mr_mode != offer.mr_mode {
        return -libc::EINVAL;
    }
    let fabric = (*fabric.cast::<Fabric>()).real;
    let mut real = ptr::null_mut();
    let code = real!(fabric, ops.domain(offer.real, &raw mut real, ptr::null_mut()));
    let seed = offer.plan.seed << 32 | COUNT.fetch_add(1, Ordering::Relaxed);
    let frames = offer.plan.stale_pages.then(|| match Frames::new() {
        Ok(frames) => frames,
        Err(why) => violated!("stale_pages: /proc/self/pagemap: {why}"),
    });
    let object = || Domain {
        fid: ffi::fid_domain {
            fid: head(&raw const DOMAIN_FID, context),
            ops: (&raw const DOMAIN).cast_mut(),
            mr: (&raw const region::MR).cast_mut(),
        },
        real,
        offer,
        is_inside: AtomicBool::new(false),
        state: Mutex::new(State::new(seed)),
        frames,
        delayed: Delayed::default(),
    };
    publish(code, object, domain)
}

unsafe extern "C" fn close_domain(fid: *mut ffi::fid) -> c_int {
    let domain = Box::from_raw(fid.cast::<Domain>());
    real!(&raw mut (*domain.real).fid, ops.close())
}

unsafe extern "C" fn control(fid: *mut ffi::fid, command: c_int, argument: *mut c_void) -> c_int {
    let domain = &*fid.cast::<Domain>();
    let _inside = domain.enter();
    match command as u32 {
        ffi::FI_MAP_RAW_MR => region::map_key(domain, &*argument.cast()),
        ffi::FI_UNMAP_KEY => region::unmap_key(domain, *argument.cast()),
        _ => -libc::ENOSYS,
    }
}

unsafe extern "C" fn open_queue(
    domain: *mut ffi::fid_domain,
    attributes: *mut ffi::fi_cq_attr,
    cq: *mut *mut ffi::fid_cq,
    context: *mut c_void,
) -> c_int {
    let domain = &*domain.cast::<Domain>();
    if (*attributes).format != ffi::FI_CQ_FORMAT_DATA {
        violated!(
            "a queue of format {}: conduit-ofi has FI_CQ_FORMAT_DATA",
            (*attributes).format
        );
    }
    if domain.offer.plan.lacks(WAIT_FD) && (*attributes).wait_obj != ffi::FI_WAIT_NONE {
        return -libc::ENOSYS;
    }
    let mut real = ptr::null_mut();
    let code = real!(domain.real, ops.cq_open(attributes, &raw mut real, ptr::null_mut()));
    publish(code, || queue::new(real, domain, context), cq)
}

/// An address vector.
#[repr(C)]
pub struct Av {
    fid: ffi::fid_av,
    pub real: *mut ffi::fid_av,
    domain: &'static Domain,
}

table! { AV_FID: fi_ops { close: close_av } }
table! { AV: fi_ops_av { insert: insert } }

unsafe extern "C" fn open_av(
    domain: *mut ffi::fid_domain,
    attributes: *mut ffi::fi_av_attr,
    av: *mut *mut ffi::fid_av,
    context: *mut c_void,
) -> c_int {
    let domain = &*domain.cast::<Domain>();
    // opx before 1.21 takes the type of its record only, and no vector without a type.
    let is_refused = match (*attributes).type_ {
        ffi::FI_AV_UNSPEC => true,
        ffi::FI_AV_TABLE => domain.offer.plan.demands(AV_MAP),
        _ => false,
    };
    if is_refused {
        return -libc::EINVAL;
    }
    let mut real = ptr::null_mut();
    let code = real!(domain.real, ops.av_open(attributes, &raw mut real, ptr::null_mut()));
    let object = || Av {
        fid: ffi::fid_av {
            fid: head(&raw const AV_FID, context),
            ops: (&raw const AV).cast_mut(),
        },
        real,
        domain,
    };
    publish(code, object, av)
}

unsafe extern "C" fn close_av(fid: *mut ffi::fid) -> c_int {
    let av = Box::from_raw(fid.cast::<Av>());
    real!(&raw mut (*av.real).fid, ops.close())
}

/// Mapping of the provider's addresses to the user's: any numbers, as with `FI_AV_MAP`.
pub const ADDRESS_MASK: u64 = 0xa5a5_0000_5a5a_0000;

unsafe extern "C" fn insert(
    av: *mut ffi::fid_av,
    address: *const c_void,
    count: usize,
    numbers: *mut u64,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    let Av { real, domain, .. } = &*av.cast::<Av>();
    let _inside = domain.enter();
    if domain.state().is_used {
        violated!("fi_av_insert beside operations: efa up to 2.6 crashes, or sends to another peer");
    }
    if domain.state().refuses(&domain.offer.plan, Kind::Address) {
        std::slice::from_raw_parts_mut(numbers, count).fill(u64::MAX);
        return 0;
    }
    let code = real!(*real, ops.insert(address, count, numbers, flags, context));
    for number in std::slice::from_raw_parts_mut(numbers, count) {
        *number ^= ADDRESS_MASK;
        domain.state().addresses.insert(*number);
    }
    code
}
