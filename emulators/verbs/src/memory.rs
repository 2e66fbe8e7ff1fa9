//! Protection domains, memory regions, and XRC domains, as C calls.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use emulator_common::wait::Using;
use gasnet_ibv_abi as abi;

use crate::config::Call;
use crate::device_memory::{Mapping, PAGE};
use crate::handle::{check_end, context_of, load, misuse, null, Context, Mr, Object, Pd, Xrcd};
use crate::landing;
use crate::mr::{self, Region};
use crate::process::Process;

/// A number for a PD or an XRCD; never 0.
fn number(process: &Process) -> u32 {
    process.fabric.numbers.fetch_add(1, Relaxed) + 1
}

#[no_mangle]
extern "C" fn ibv_alloc_pd(context: *mut abi::ibv_context) -> *mut abi::ibv_pd {
    let owner = Context::of(context);
    if let Err(errno) = owner.process.check(owner.device) {
        return null(errno);
    }
    let number = number(owner.process);
    let visible = UnsafeCell::new(abi::ibv_pd {
        context,
        handle: number,
    });
    Pd {
        visible,
        number,
        context: Using::of(&owner.users),
        users: AtomicU32::new(0),
    }
    .handle()
}

#[no_mangle]
extern "C" fn ibv_dealloc_pd(pd: *mut abi::ibv_pd) -> c_int {
    if let Err(errno) = check_end(context_of(pd), Pd::of(pd).users.load(Relaxed)) {
        return errno;
    }
    Pd::free(pd);
    0
}

/// Registers memory and makes its handle, with the program's address and the mapping of memory of a
/// device.
fn register(pd: *mut abi::ibv_pd, addr: *mut c_void, region: &Region, mapping: Option<Mapping>) -> *mut abi::ibv_mr {
    let (context, length) = (context_of(pd), region.length as usize);
    let index = match mr::register(context.process, region) {
        Ok(index) => index,
        Err(error) => return null(error),
    };
    let key = context.process.fabric.mr_key(index);
    let visible = abi::ibv_mr {
        context: context.pointer(),
        pd,
        addr,
        length,
        handle: index,
        lkey: key,
        rkey: key,
    };
    Mr {
        visible: UnsafeCell::new(visible),
        index,
        pd: Using::of(&Pd::of(pd).users),
        mapping,
    }
    .handle()
}

#[no_mangle]
extern "C" fn ibv_reg_mr_iova2(
    pd: *mut abi::ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: u32,
) -> *mut abi::ibv_mr {
    let context = context_of(pd);
    let on_demand = access & abi::IBV_ACCESS_ON_DEMAND != 0;
    let mapping = (context.process.config.peer_memory && !on_demand)
        .then(|| Mapping::of_peer_memory(addr as u64, length as u64).ok())
        .flatten();
    let region = Region {
        device: context.device,
        pd: Pd::of(pd).number,
        addr: mapping.as_ref().map_or(addr as u64, Mapping::addr),
        length: length as u64,
        iova,
        access,
    };
    let is_watched = mapping.is_none() && !on_demand;
    let mr = register(pd, addr, &region, mapping);
    if let Some(watch) = context.process.watch.as_ref().filter(|_| is_watched && !mr.is_null()) {
        watch.add(addr as u64, length as u64);
    }
    mr
}

#[no_mangle]
extern "C" fn ibv_reg_mr_iova(
    pd: *mut abi::ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut abi::ibv_mr {
    ibv_reg_mr_iova2(pd, addr, length, iova, access as u32)
}

#[no_mangle]
extern "C" fn ibv_reg_mr(pd: *mut abi::ibv_pd, addr: *mut c_void, length: usize, access: c_int) -> *mut abi::ibv_mr {
    ibv_reg_mr_iova2(pd, addr, length, addr as u64, access as u32)
}

/// `offset` and `iova` must have the same offset in a page (ibv_reg_mr(3)).
#[no_mangle]
extern "C" fn ibv_reg_dmabuf_mr(
    pd: *mut abi::ibv_pd,
    offset: u64,
    length: usize,
    iova: u64,
    fd: c_int,
    access: c_int,
) -> *mut abi::ibv_mr {
    const RELAXED_ORDERING: u32 = abi::IBV_ACCESS_OPTIONAL_FIRST;
    const OFFERED: u32 = abi::IBV_ACCESS_LOCAL_WRITE
        | abi::IBV_ACCESS_REMOTE_WRITE
        | abi::IBV_ACCESS_REMOTE_READ
        | abi::IBV_ACCESS_REMOTE_ATOMIC
        | RELAXED_ORDERING;
    let context = context_of(pd);
    let access = access as u32;
    if !context.process.config.dmabuf {
        return null(libc::EOPNOTSUPP);
    }
    if access & !OFFERED != 0 || offset % PAGE != iova % PAGE {
        return null(libc::EINVAL);
    }
    let mapping = match Mapping::of_dmabuf(fd, offset, length as u64) {
        Ok(mapping) => mapping,
        Err(error) => return null(error),
    };
    let region = Region {
        device: context.device,
        pd: Pd::of(pd).number,
        addr: mapping.addr(),
        length: length as u64,
        iova,
        access,
    };
    register(pd, std::ptr::null_mut(), &region, Some(mapping))
}

#[no_mangle]
extern "C" fn ibv_dereg_mr(mr: *mut abi::ibv_mr) -> c_int {
    let (object, context) = (Mr::of(mr), context_of(mr));
    // Nothing is made of a region.
    if let Err(errno) = check_end(context, 0) {
        return errno;
    }
    if context.process.fabric.mrs.at(object.index).queued.load(Relaxed) != 0 {
        misuse("ibv_dereg_mr while queued work requests name the region");
    }
    if context.process.config.early_completion {
        landing::settle(context.process, context.device);
    }
    mr::deregister(context.process, object.index);
    Mr::free(mr);
    0
}

/// Prefetching is advice; nothing is ever absent.
pub extern "C" fn advise_mr(
    _pd: *mut abi::ibv_pd,
    _advice: u32,
    _flags: u32,
    _list: *mut abi::ibv_sge,
    _count: u32,
) -> c_int {
    0
}

/// A domain without a file belongs to this process; one with a file, to all that name it.
pub extern "C" fn open_xrcd(context: *mut abi::ibv_context, attr: *mut abi::ibv_xrcd_init_attr) -> *mut abi::ibv_xrcd {
    let attr = load(attr);
    let both = abi::IBV_XRCD_INIT_ATTR_FD | abi::IBV_XRCD_INIT_ATTR_OFLAGS;
    if attr.comp_mask & both != both {
        return null(libc::EINVAL);
    }
    let owner = Context::of(context);
    let checked = owner.process.check(owner.device);
    if let Err(errno) = checked.and_then(|()| owner.process.count(Call::OpenXrcd)) {
        return null(errno);
    }
    let number = match attr.fd {
        -1 => number(owner.process),
        fd => {
            // SAFETY: the call writes the struct.
            let (result, file) = unsafe {
                let mut file: libc::stat = std::mem::zeroed();
                (libc::fstat(fd, &mut file), file)
            };
            if result != 0 {
                return null(libc::EBADF);
            }
            // Beyond the numbers that are counted.
            (file.st_ino ^ file.st_dev.rotate_left(16)) as u32 | 1 << 31
        }
    };
    Xrcd {
        visible: UnsafeCell::new(abi::ibv_xrcd { context }),
        number,
        context: Using::of(&owner.users),
        users: AtomicU32::new(0),
    }
    .handle()
}

pub extern "C" fn close_xrcd(xrcd: *mut abi::ibv_xrcd) -> c_int {
    if let Err(errno) = check_end(context_of(xrcd), Xrcd::of(xrcd).users.load(Relaxed)) {
        return errno;
    }
    Xrcd::free(xrcd);
    0
}
