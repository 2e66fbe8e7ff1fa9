//! Records of `fi_getinfo` for the user, edited as the plan says.

use crate::plan::{Plan, AV_MAP, SCALABLE, THREAD_DOMAIN, UNKNOWN};
use crate::{ffi, Real};
use std::ffi::{c_char, c_int, CStr, CString};
use std::sync::OnceLock;

/// Bytes of a key with `FI_MR_RAW`: the provider's key, the base address, and a mark.
pub const RAW_KEY_BYTES: usize = 24;

/// `FI_MR_BASIC` and `FI_MR_SCALABLE`, of libfabric before 1.5.
const OLD_MR_MODES: [c_int; 2] = [1, 2];

/// The provider that stands for others.
const UNDERNEATH: &str = "tcp;ofi_rxm";

/// Origin of an edited record. Records lead to it by a field that users leave alone, and
/// it lives as long as the process.
pub struct Offer {
    pub plan: Plan,
    /// The record as the provider made it.
    pub real: *mut ffi::fi_info,
    /// Most bytes of an injected message, as offered.
    pub inject: usize,
    /// Most bytes of an operation, as offered.
    pub max_msg: usize,
    /// Demands of registration, as offered.
    pub mr_mode: c_int,
    /// Of efa-direct, which no user should open.
    pub is_twin: bool,
    /// Remote addresses are virtual for the user, and offsets for the provider.
    pub translates: bool,
}

impl Offer {
    /// The offer of an edited record.
    pub unsafe fn of(attributes: *const ffi::fi_fabric_attr) -> &'static Self {
        let offer = (*attributes).fabric.cast::<Self>();
        if offer.is_null() {
            violated!("a record that is not of fi_getinfo");
        }
        &*offer
    }
}

/// Whether `FI_UNIVERSE_SIZE` was set when libfabric read it: at the first `fi_getinfo`.
static HAS_UNIVERSE: OnceLock<bool> = OnceLock::new();

/// Whether `FI_UNIVERSE_SIZE` is set now.
fn has_universe() -> bool {
    std::env::var_os("FI_UNIVERSE_SIZE").is_some()
}

/// Reads the variables of libfabric.
pub fn read_variables() {
    HAS_UNIVERSE.get_or_init(has_universe);
}

/// Verifies that none was set after it was read.
pub fn check_variables() {
    if has_universe() && HAS_UNIVERSE.get() == Some(&false) {
        violated!("FI_UNIVERSE_SIZE is set after libfabric has read its variables");
    }
}

/// The plan that stands in front of a provider's name, and the rest of the name.
fn split(name: &str) -> Option<(&str, &str)> {
    let (plan, provider) = name.split_once(';').unwrap_or((name, ""));
    plan.contains('=').then_some((plan, provider))
}

/// The records that `ask` returns for these hints, edited. `-FI_ENODATA` if the plan's provider has
/// not what they want, or demands what they do not allow.
pub unsafe fn edited(
    hints: *const ffi::fi_info,
    version: u32,
    ask: impl FnOnce(*const ffi::fi_info) -> c_int,
    info: *mut *mut ffi::fi_info,
) -> c_int {
    let text = |pointer: *const c_char| {
        if pointer.is_null() {
            String::new()
        } else {
            CStr::from_ptr(pointer).to_string_lossy().into_owned()
        }
    };
    let name = text((*(*hints).fabric_attr).prov_name);
    let (prefix, provider) = split(&name).unwrap_or(("", &name));
    let environment = std::env::var("STRICT_PLAN").unwrap_or_default();
    let wanted = if prefix.is_empty() { &environment } else { prefix };
    let plan: Plan = match wanted.parse() {
        Ok(plan) => plan,
        Err(why) => violated!("the plan '{wanted}': {why}"),
    };
    let reach = (*hints).caps & (ffi::FI_LOCAL_COMM | ffi::FI_REMOTE_COMM);
    if reach == ffi::FI_REMOTE_COMM {
        violated!("FI_REMOTE_COMM without FI_LOCAL_COMM: opx reaches no rank of this host then");
    }
    if OLD_MR_MODES
        .iter()
        .any(|old| (*(*hints).domain_attr).mr_mode & old != 0)
    {
        violated!("mr_mode: FI_MR_BASIC and FI_MR_SCALABLE are wanted alone, or not at all");
    }
    let has_key = (*(*hints).domain_attr).auth_key_size != 0;
    let is_psm = ["psm2", "psm3"].iter().any(|psm| plan.name.as_deref() == Some(*psm));
    if has_key && !is_psm {
        violated!("auth_key: cxi takes it for a VNI, and other providers refuse it");
    }
    if is_psm && !has_key && !(*(*hints).domain_attr).name.is_null() {
        violated!("auth_key: psm2 and psm3 mix up jobs of a host that have one number");
    }
    if (*(*hints).domain_attr).data_progress == ffi::FI_PROGRESS_AUTO {
        violated!("FI_PROGRESS_AUTO: providers with manual progress refuse it");
    }
    let threading = (*(*hints).domain_attr).threading;
    let one_thread = [ffi::FI_THREAD_UNSPEC, ffi::FI_THREAD_DOMAIN].contains(&threading);
    if is_missing(&plan, hints)
        || plan.demands(THREAD_DOMAIN) && !one_thread
        || plan.interface.is_some_and(|newest| version > newest)
    {
        return -(ffi::FI_ENODATA as c_int);
    }
    let copy = (Real::get().dupinfo)(hints);
    // The provider underneath takes no device memory.
    let device_memory = (*hints).caps
        & if plan.demands(ffi::FI_MR_HMEM.into()) {
            ffi::FI_HMEM
        } else {
            0
        };
    (*copy).caps &= !device_memory;
    let domain = &mut *(*copy).domain_attr;
    libc::free(domain.auth_key.cast());
    (domain.auth_key, domain.auth_key_size) = (std::ptr::null_mut(), 0);
    let provider = if plan.name.is_some() { UNDERNEATH } else { provider };
    rename(&mut (*(*copy).fabric_attr).prov_name, provider);
    let code = ask(copy);
    (Real::get().freeinfo)(copy);
    let twin = twin_of(&plan).filter(|twin| code == 0 && !is_missing(twin, hints));
    if twin.is_some() {
        let record = (Real::get().dupinfo)(*info);
        (*record).next = *info;
        *info = record;
    }
    let mut next = if code == 0 { *info } else { std::ptr::null_mut() };
    while !next.is_null() {
        let twin = twin.as_ref().filter(|_| next == *info);
        edit(next, twin.unwrap_or(&plan), version, twin.is_some());
        (*next).caps |= device_memory;
        let attributes = &mut *(*next).fabric_attr;
        let provider = plan.name.clone().unwrap_or_else(|| text(attributes.prov_name));
        let name = if prefix.is_empty() {
            provider
        } else {
            format!("{prefix};{provider}")
        };
        rename(&mut attributes.prov_name, &name);
        attributes.prov_version = plan.version.unwrap_or(attributes.prov_version);
        next = (*next).next;
    }
    code
}

/// The record that precedes efa's, under the same name: that of efa-direct
/// (libfabric v2.6.0, efa/src/efa_prov.c).
fn twin_of(plan: &Plan) -> Option<Plan> {
    let mut twin = plan.clone();
    twin.lacks |= u64::from(ffi::FI_MULTI_RECV | ffi::FI_ATOMIC);
    twin.demands |= u64::from(ffi::FI_MR_LOCAL) | ffi::FI_CONTEXT2;
    plan.has_twin.then_some(twin)
}

/// Whether the hints want what the plan's provider lacks, or do not allow what it demands.
unsafe fn is_missing(plan: &Plan, hints: *const ffi::fi_info) -> bool {
    plan.lacks((*hints).caps | (*(*hints).tx_attr).op_flags)
        || plan.mr_mode() & !((*(*hints).domain_attr).mr_mode as u64) != 0
        || plan.mode() & !(*hints).mode != 0
}

/// Replaces a text that the library frees. No text if it is empty.
unsafe fn rename(place: &mut *mut c_char, text: &str) {
    libc::free((*place).cast());
    let text = CString::new(text).unwrap_or_default();
    *place = if text.is_empty() {
        std::ptr::null_mut()
    } else {
        libc::strdup(text.as_ptr())
    };
}

/// Edits a record of the provider.
unsafe fn edit(record: *mut ffi::fi_info, plan: &Plan, version: u32, is_twin: bool) {
    let real = (Real::get().dupinfo)(record);
    let limit = |value: &mut usize, limit: Option<usize>| *value = limit.map_or(*value, |limit| limit.min(*value));
    let record = &mut *record;
    let (domain, ep) = (&mut *record.domain_attr, &mut *record.ep_attr);
    let (tx, rx) = (&mut *record.tx_attr, &mut *record.rx_attr);
    let has_virtual = domain.mr_mode as u32 & ffi::FI_MR_VIRT_ADDR != 0;
    for caps in [&mut record.caps, &mut tx.caps, &mut rx.caps, &mut domain.caps] {
        *caps &= !plan.lacks;
    }
    for mode in [&mut record.mode, &mut tx.mode, &mut rx.mode] {
        *mode |= plan.mode();
    }
    if plan.demands(UNKNOWN) {
        record.mode |= 1 << 49;
    }
    domain.mr_mode |= plan.mr_mode() as c_int;
    if plan.demands(SCALABLE) {
        domain.mr_mode |= OLD_MR_MODES[1];
    }
    if plan.demands(AV_MAP) {
        domain.av_type = ffi::FI_AV_MAP;
    }
    if plan.demands(THREAD_DOMAIN) {
        domain.threading = ffi::FI_THREAD_DOMAIN;
    }
    if plan.lacks(ffi::FI_REMOTE_CQ_DATA.into()) {
        domain.cq_data_size = 0;
    }
    limit(&mut domain.cq_data_size, plan.cq_data);
    limit(&mut domain.mr_key_size, plan.key_bytes);
    if plan.demands(ffi::FI_MR_RAW.into()) {
        domain.mr_key_size = RAW_KEY_BYTES;
    }
    limit(&mut tx.inject_size, plan.inject);
    limit(&mut ep.max_msg_size, plan.max_msg);
    limit(&mut tx.size, plan.tx);
    limit(&mut rx.size, plan.rx);
    let offer = Box::leak(Box::new(Offer {
        plan: plan.clone(),
        real,
        inject: tx.inject_size,
        max_msg: ep.max_msg_size,
        mr_mode: domain.mr_mode,
        is_twin,
        translates: plan.demands(ffi::FI_MR_VIRT_ADDR.into()) && !has_virtual,
    }));
    (*record.fabric_attr).api_version = version;
    (*record.fabric_attr).fabric = std::ptr::from_mut(offer).cast();
}
