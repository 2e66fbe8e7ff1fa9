//! Registered memory and keys.

use crate::domain::{head, Domain};
use crate::endpoint::Endpoint;
use crate::ffi;
use crate::offer::{Offer, RAW_KEY_BYTES};
use crate::plan::{Plan, READ_ONLY};
use crate::rules::State;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Last bytes of the raw keys of this library.
const MARK: u64 = 0x7075_6e69_7368_6564;

/// A region. `FI_MR_ENDPOINT`: the provider underneath registers it when it is enabled, so that no
/// peer reaches it before.
#[repr(C)]
pub struct Region {
    fid: ffi::fid_mr,
    real: *mut ffi::fid_mr,
    domain: &'static Domain,
    base: usize,
    bytes: usize,
    /// Device memory. Nobody may touch it; its contents are the as many bytes behind it.
    on_device: bool,
    access: u64,
    requested_key: u64,
    is_bound: AtomicBool,
    is_enabled: AtomicBool,
}

table! { OPS: fi_ops { close: close, bind: bind, control: control } }
table! { pub MR: fi_ops_mr { reg: register, regattr: register_device } }

impl Region {
    /// Whether it has all these bytes.
    pub fn covers(&self, address: usize, bytes: usize) -> bool {
        let base = self.contents();
        base <= address && address + bytes <= base + self.bytes
    }

    /// Its address for the provider underneath.
    fn contents(&self) -> usize {
        self.base + if self.on_device { self.bytes } else { 0 }
    }

    /// Whether it allows this access.
    pub fn allows(&self, access: u32) -> bool {
        self.access & u64::from(access) != 0
    }

    /// Verifies that it is enabled, if that is demanded.
    pub fn check_enabled(&self, plan: &Plan) {
        if plan.demands(ffi::FI_MR_ENDPOINT.into()) && !self.is_enabled.load(SeqCst) {
            violated!("FI_MR_ENDPOINT: a region is used that was not enabled");
        }
    }

    /// Registers it with the provider underneath.
    unsafe fn open(&mut self) -> c_int {
        let offer = self.domain.offer;
        let raw = offer.plan.demands(ffi::FI_MR_RAW.into());
        let key = if offer.plan.demands(ffi::FI_MR_PROV_KEY.into()) {
            let bits = 8 * offer.plan.key_bytes.unwrap_or(8).min(8);
            self.domain.state().random(u64::MAX) >> (64 - bits)
        } else {
            self.requested_key
        };
        // Offsets in a region of all memory are virtual addresses. A raw key has the base.
        let (base, bytes) = if offer.translates && !raw {
            (ptr::null(), usize::MAX >> 1)
        } else {
            (self.contents() as *const c_void, self.bytes)
        };
        let mr = &raw mut self.real;
        let (access, context) = (self.access, ptr::null_mut());
        let code = real!(self.domain.real, mr.reg(base, bytes, access, 0, key, 0, mr, context));
        if code == 0 {
            self.fid.key = if raw { u64::MAX } else { (*self.real).key };
        }
        code
    }
}

/// `fi_mr_reg`. The key is requested, unless `FI_MR_PROV_KEY`.
unsafe extern "C" fn register(
    fid: *mut ffi::fid,
    buf: *const c_void,
    len: usize,
    access: u64,
    offset: u64,
    requested_key: u64,
    flags: u64,
    mr: *mut *mut ffi::fid_mr,
    context: *mut c_void,
) -> c_int {
    if offset != 0 || flags != 0 {
        violated!("fi_mr_reg: offset {offset}, flags {flags:#x}");
    }
    let memory = (buf, len, false);
    add(&*fid.cast(), memory, (access, requested_key), mr, context)
}

/// `fi_mr_regattr`, for device memory.
unsafe extern "C" fn register_device(
    fid: *mut ffi::fid,
    attributes: *const ffi::fi_mr_attr,
    flags: u64,
    mr: *mut *mut ffi::fid_mr,
) -> c_int {
    let (domain, attributes) = (&*fid.cast::<Domain>(), &*attributes);
    if !domain.offer.plan.demands(ffi::FI_MR_HMEM.into()) || attributes.iface == ffi::FI_HMEM_SYSTEM {
        violated!("FI_MR_HMEM: fi_mr_regattr of memory of interface {}", attributes.iface);
    }
    if attributes.offset != 0 || flags != 0 || attributes.iov_count != 1 {
        violated!("fi_mr_regattr: flags {flags:#x}");
    }
    let memory = (
        (*attributes.mr_iov).iov_base.cast_const(),
        (*attributes.mr_iov).iov_len,
        true,
    );
    let how = (attributes.access, attributes.requested_key);
    add(domain, memory, how, mr, attributes.context)
}

/// Registers memory, of a device or not, with this access and key.
unsafe fn add(
    domain: &'static Domain,
    (buf, len, on_device): (*const c_void, usize, bool),
    (access, requested_key): (u64, u64),
    mr: *mut *mut ffi::fid_mr,
    context: *mut c_void,
) -> c_int {
    let plan = &domain.offer.plan;
    let _inside = domain.enter();
    if plan.demands(ffi::FI_MR_ALLOCATED.into()) && !is_mapped(buf as usize, len) {
        violated!("FI_MR_ALLOCATED: {len} bytes at {buf:p} are not mapped");
    }
    let has_key = !plan.demands(ffi::FI_MR_PROV_KEY.into());
    if has_key
        && plan
            .key_bytes
            .is_some_and(|bytes| bytes < 8 && requested_key >> (8 * bytes) != 0)
    {
        return -(ffi::FI_EKEYREJECTED as c_int);
    }
    if plan.lacks(READ_ONLY) && !on_device && !is_writable(buf as usize, len) {
        return -(ffi::FI_EFAULT as c_int);
    }
    let mut state = domain.state();
    if has_key && state.chance(plan.enokey) {
        return -(ffi::FI_ENOKEY as c_int);
    }
    if state.chance(plan.reg_eagain) {
        return -(ffi::FI_EAGAIN as c_int);
    }
    if plan.regs.is_some_and(|most| state.regions.len() >= most) {
        return -(ffi::FI_ENOMEM as c_int);
    }
    drop(state);
    let mut region = Box::new(Region {
        fid: ffi::fid_mr {
            fid: head(&raw const OPS, context),
            mem_desc: ptr::null_mut(),
            key: u64::MAX,
        },
        real: ptr::null_mut(),
        domain,
        base: buf as usize,
        bytes: len,
        on_device,
        access,
        requested_key,
        is_bound: AtomicBool::new(false),
        is_enabled: AtomicBool::new(false),
    });
    if !plan.demands(ffi::FI_MR_ENDPOINT.into()) {
        let code = region.open();
        if code != 0 {
            return code;
        }
    }
    let region = Box::into_raw(region);
    (*region).fid.mem_desc = region.cast();
    domain.state().regions.insert(region as usize);
    *mr = region.cast();
    0
}

/// Whether all pages of some memory are mapped.
unsafe fn is_mapped(address: usize, bytes: usize) -> bool {
    let page = libc::sysconf(libc::_SC_PAGESIZE) as usize;
    let start = address / page * page;
    let length = address + bytes - start;
    let mut resident = vec![0_u8; length.div_ceil(page)];
    libc::mincore(start as *mut c_void, length, resident.as_mut_ptr()) == 0
}

/// Whether no page of some memory is protected from writing.
pub fn is_writable(address: usize, bytes: usize) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let is_protected = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let [start, end] = [start, end].map(|text| usize::from_str_radix(text, 16).unwrap_or(0));
        let overlaps = start < address + bytes && address < end;
        Some(overlaps && rest.as_bytes().get(1) != Some(&b'w'))
    };
    !maps.lines().any(|line| is_protected(line).unwrap_or(false))
}

unsafe extern "C" fn bind(fid: *mut ffi::fid, endpoint: *mut ffi::fid, _flags: u64) -> c_int {
    let region = &*fid.cast::<Region>();
    if !(*endpoint.cast::<Endpoint>()).is_enabled() {
        violated!("FI_MR_ENDPOINT: a region is bound to an endpoint that was not enabled (cxi)");
    }
    let _inside = region.domain.enter();
    region.is_bound.store(true, SeqCst);
    0
}

unsafe extern "C" fn control(fid: *mut ffi::fid, command: c_int, argument: *mut c_void) -> c_int {
    let region = fid.cast::<Region>();
    let domain = (*region).domain;
    let _inside = domain.enter();
    match command as u32 {
        ffi::FI_ENABLE => {
            if !(*region).is_bound.load(SeqCst) {
                violated!("FI_MR_ENDPOINT: a region is enabled that was not bound");
            }
            if domain.state().chance(domain.offer.plan.reg_eagain) {
                return -(ffi::FI_EAGAIN as c_int);
            }
            if (*region).is_enabled.swap(true, SeqCst) || !domain.offer.plan.demands(ffi::FI_MR_ENDPOINT.into()) {
                violated!("fi_mr_enable of an enabled region");
            }
            (*region).open()
        }
        ffi::FI_GET_RAW_MR => {
            let attributes = &mut *argument.cast::<ffi::fi_mr_raw_attr>();
            let room = std::mem::replace(&mut *attributes.key_size, RAW_KEY_BYTES);
            if room < RAW_KEY_BYTES {
                return -(ffi::FI_ETOOSMALL as c_int);
            }
            (*region).check_enabled(&domain.offer.plan);
            *attributes.base_addr = (*region).base as u64;
            let words = [(*(*region).real).key, (*region).base as u64, MARK].map(u64::to_ne_bytes);
            attributes
                .raw_key
                .copy_from_nonoverlapping(words.as_flattened().as_ptr(), RAW_KEY_BYTES);
            0
        }
        _ => -libc::ENOSYS,
    }
}

unsafe extern "C" fn close(fid: *mut ffi::fid) -> c_int {
    let region = Box::from_raw(fid.cast::<Region>());
    let _inside = region.domain.enter();
    let mut state = region.domain.state();
    if let Some(kind) = state.user_of(fid.cast()) {
        violated!("a region is closed that a {kind:?} uses");
    }
    // Issue 6474: with its cache and support of forks, efa touches the pages. Segments are left to
    // the runtime.
    let is_buffer = !region.on_device && !region.allows(ffi::FI_REMOTE_WRITE);
    let is_gone = is_buffer && !is_mapped(region.base, region.bytes);
    if is_gone && region.domain.offer.plan.demands(ffi::FI_MR_ALLOCATED.into()) {
        violated!("memory of a region is unmapped before the region is closed (efa)");
    }
    state.regions.remove(&(fid as usize));
    if region.real.is_null() {
        0
    } else {
        real!(&raw mut (*region.real).fid, ops.close())
    }
}

/// `fi_mr_map_raw`.
pub unsafe fn map_key(domain: &Domain, arguments: &ffi::fi_mr_map_raw) -> c_int {
    let words = match arguments.key_size {
        RAW_KEY_BYTES => arguments.raw_key.cast::<[u64; 3]>().read_unaligned(),
        other => violated!("FI_MR_RAW: a raw key of {other} bytes"),
    };
    let [key, base, mark] = words;
    if mark != MARK || base != arguments.base_addr {
        violated!("FI_MR_RAW: a raw key that no region has");
    }
    let mut state = domain.state();
    let number = state.random(u64::MAX);
    state.keys.insert(number, (key, base));
    *arguments.key = number;
    0
}

/// `fi_mr_unmap_key`.
pub unsafe fn unmap_key(domain: &Domain, number: u64) -> c_int {
    if domain.state().keys.remove(&number).is_none() {
        violated!("FI_MR_RAW: a key is unmapped that is not mapped");
    }
    0
}

/// The provider's address of local memory.
pub unsafe fn local(domain: &Domain, descriptor: *mut c_void, address: *mut c_void) -> *mut c_void {
    if !domain.state().regions.contains(&(descriptor as usize)) {
        return address;
    }
    let region = &*descriptor.cast::<Region>();
    address.wrapping_byte_add(region.contents() - region.base)
}

/// The provider's address and key of remote memory.
pub fn remote(offer: &Offer, state: &State, (address, key): (u64, u64)) -> (u64, u64) {
    if !offer.plan.demands(ffi::FI_MR_RAW.into()) {
        return (address, key);
    }
    let Some(&(key, base)) = state.keys.get(&key) else {
        violated!("FI_MR_RAW: a key is used that is not mapped");
    };
    (address.wrapping_sub(if offer.translates { base } else { 0 }), key)
}
