//! Offers of providers: `fi_getinfo` and its records.

use super::bindings as abi;
use super::library::WITH_DMABUF;
use super::{mr_mode, Errno, Functions};
use gasnet_conduit::locality::PciAddress;
use std::ffi::{c_char, CStr, CString};
use std::net::IpAddr;
use std::ptr::{self, NonNull};

/// `FI_ASYNC_IOV`: lists of several buffers are kept until completion. The conduit passes one
/// buffer.
const ASYNC_IOV: u64 = 1 << 57;
/// Demands on the caller that the conduit meets.
const MODE: u64 = abi::FI_CONTEXT2 | abi::FI_CONTEXT | ASYNC_IOV;
/// Demands of registration that it meets.
const MR_MODE: u32 = mr_mode::LOCAL
    | mr_mode::RAW
    | mr_mode::VIRT_ADDR
    | mr_mode::ALLOCATED
    | mr_mode::PROV_KEY
    | mr_mode::ENDPOINT
    | mr_mode::HMEM;

/// `FI_MR_SCALABLE` of libfabric before 1.5, which opx up to 2.5.1 returns whatever the hints are:
/// keys are the caller's and addresses offsets, as without any demand. A bit beside it
/// (`FI_MR_VIRT_ADDR` from 2.1) keeps its meaning. `fi_domain` wants it back
/// (libfabric@v2.5.1:prov/opx/src/fi_opx_domain.c, fi_opx_mr.c).
const MR_SCALABLE: u32 = 1 << 1;

/// Hints for `fi_getinfo`.
#[derive(Clone, Debug, Default)]
pub struct Wanted<'a> {
    /// Capabilities ([`super::bits`]).
    pub caps: u64,
    /// Provider, or all.
    pub provider: Option<&'a str>,
    /// Domain (device), or all.
    pub domain: Option<&'a str>,
    /// One thread at a time calls the provider.
    pub one_thread: bool,
    /// Puts that complete when their bytes are at the target.
    pub delivery_complete: bool,
    /// Puts and gets of device memory.
    pub device_memory: bool,
    /// Version of the interface, of [`Functions::interfaces`].
    pub interface: u32,
    /// The job, for providers that keep jobs of a host apart by it.
    pub job: Option<&'a [u8; 16]>,
}

/// A list of records. The library frees it.
pub struct Infos {
    first: *mut abi::fi_info,
    library: &'static Functions,
}

impl Infos {
    /// The records of reliable connectionless endpoints with everything wanted, in libfabric's
    /// order. Empty if there is none.
    pub fn query(library: &'static Functions, wanted: &Wanted<'_>) -> Result<Self, String> {
        let text = |name: &str| CString::new(name).map_err(|_| format!("'{name}' contains a zero byte"));
        let (provider, domain) = (
            wanted.provider.map(text).transpose()?,
            wanted.domain.map(text).transpose()?,
        );
        // SAFETY: fi_getinfo(3): null asks for a record of zeroes.
        let hints = unsafe { (library.dupinfo)(ptr::null()) };
        let mut hints = NonNull::new(hints).ok_or("libfabric has no memory")?;
        // SAFETY: a record that nobody else has, with all its parts.
        let record = unsafe { hints.as_mut() };
        record.caps = wanted.caps | if wanted.device_memory { super::bits::HMEM } else { 0 };
        record.mode = MODE;
        // SAFETY: the parts of the record, allocated with it. Names are borrowed until they are
        // taken out below.
        unsafe {
            (*record.ep_attr).type_ = abi::FI_EP_RDM;
            let domain_attr = &mut *record.domain_attr;
            domain_attr.mr_mode = MR_MODE as i32;
            domain_attr.threading = if wanted.one_thread {
                abi::FI_THREAD_DOMAIN
            } else {
                abi::FI_THREAD_SAFE
            };
            // A provider's own thread (sockets, net) would compete with the client's for the cores.
            domain_attr.data_progress = abi::FI_PROGRESS_MANUAL;
            domain_attr.resource_mgmt = abi::FI_RM_ENABLED;
            domain_attr.name = domain
                .as_deref()
                .map_or(ptr::null_mut(), |name| name.as_ptr().cast_mut());
            if let Some(job) = wanted.job {
                domain_attr.auth_key = job.as_ptr().cast_mut();
                domain_attr.auth_key_size = job.len();
            }
            (*record.fabric_attr).prov_name = provider
                .as_deref()
                .map_or(ptr::null_mut(), |name| name.as_ptr().cast_mut());
            if wanted.delivery_complete {
                (*record.tx_attr).op_flags = super::bits::DELIVERY_COMPLETE;
            }
        }
        let mut first = ptr::null_mut();
        // SAFETY: fi_getinfo(3); no node or service, so addresses are those of this host.
        let code = unsafe {
            (library.getinfo)(
                wanted.interface,
                ptr::null(),
                ptr::null(),
                0,
                hints.as_ptr(),
                &raw mut first,
            )
        };
        // SAFETY: as above; the names are not the library's to free.
        unsafe {
            (*record.domain_attr).name = ptr::null_mut();
            (*record.domain_attr).auth_key = ptr::null_mut();
            (*record.fabric_attr).prov_name = ptr::null_mut();
            (library.freeinfo)(hints.as_ptr());
        }
        match Errno::check(code as isize) {
            Ok(_) => Ok(Self { first, library }),
            Err(Errno(libc::ENODATA | libc::ENOSYS)) => Ok(Self {
                first: ptr::null_mut(),
                library,
            }),
            Err(why) => Err(format!("fi_getinfo: {}", library.text(why.0))),
        }
    }

    /// The records of all endpoints of all providers.
    pub fn everything(library: &'static Functions) -> Result<Self, String> {
        let (none, mut first) = (ptr::null(), ptr::null_mut());
        // SAFETY: fi_getinfo(3): no hints ask for everything.
        let code =
            unsafe { (library.getinfo)(library.interfaces(false)[0], none, none, 0, ptr::null(), &raw mut first) };
        match Errno::check(code as isize) {
            Ok(_) => Ok(Self { first, library }),
            Err(why) => Err(format!("fi_getinfo: {}", library.text(why.0))),
        }
    }

    /// The records.
    pub fn iter(&self) -> impl Iterator<Item = Info> + '_ {
        let mut next = NonNull::new(self.first);
        std::iter::from_fn(move || {
            let record = next?;
            // SAFETY: a record of the list, which lives as long as `self`.
            next = NonNull::new(unsafe { record.as_ref() }.next);
            Info::copy(self.library, record)
        })
    }
}

impl Drop for Infos {
    fn drop(&mut self) {
        if !self.first.is_null() {
            // SAFETY: a list of `fi_getinfo`, freed once.
            unsafe { (self.library.freeinfo)(self.first) };
        }
    }
}

/// One record: a provider and a domain of it, with what they offer.
pub struct Info {
    record: NonNull<abi::fi_info>,
    library: &'static Functions,
}

// SAFETY: plain data; only its owner changes it.
unsafe impl Send for Info {}
// SAFETY: as above.
unsafe impl Sync for Info {}

impl std::fmt::Debug for Info {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} on {}", self.provider(), self.domain())
    }
}

impl Drop for Info {
    fn drop(&mut self) {
        // SAFETY: a record of `fi_dupinfo`, freed once.
        unsafe { (self.library.freeinfo)(self.record.as_ptr()) };
    }
}

/// A text of a record; empty if there is none.
fn name(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: not null, terminated, as long as its record.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

impl Info {
    /// A copy of one record of a list. None if there is no memory.
    fn copy(library: &'static Functions, record: NonNull<abi::fi_info>) -> Option<Self> {
        // SAFETY: a valid record; the copy has no successor.
        let record = NonNull::new(unsafe { (library.dupinfo)(record.as_ptr()) })?;
        Some(Self { record, library })
    }

    pub(super) fn library(&self) -> &'static Functions {
        self.library
    }

    pub(super) fn as_ptr(&self) -> *mut abi::fi_info {
        self.record.as_ptr()
    }

    fn record(&self) -> &abi::fi_info {
        // SAFETY: valid as long as `self`.
        unsafe { self.record.as_ref() }
    }

    pub(super) fn fabric_attr(&self) -> &abi::fi_fabric_attr {
        // SAFETY: every record of the library has this part.
        unsafe { &*self.record().fabric_attr }
    }

    fn domain_attr(&self) -> &abi::fi_domain_attr {
        // SAFETY: every record of the library has this part.
        unsafe { &*self.record().domain_attr }
    }

    fn ep_attr(&self) -> &abi::fi_ep_attr {
        // SAFETY: every record of the library has this part.
        unsafe { &*self.record().ep_attr }
    }

    fn tx_attr(&self) -> &abi::fi_tx_attr {
        // SAFETY: every record of the library has this part.
        unsafe { &*self.record().tx_attr }
    }

    /// Name of the provider, layers included: "tcp;ofi_rxm".
    pub fn provider(&self) -> String {
        name(self.fabric_attr().prov_name)
    }

    /// Version of the provider.
    pub fn provider_version(&self) -> (u32, u32) {
        let version = self.fabric_attr().prov_version;
        (version >> 16, version & 0xffff)
    }

    /// Name of the domain: a network interface, an HCA.
    pub fn domain(&self) -> String {
        name(self.domain_attr().name)
    }

    /// Capabilities.
    pub fn caps(&self) -> u64 {
        self.record().caps
    }

    /// Demands of registration ([`mr_mode`]).
    pub fn mr_mode(&self) -> u32 {
        self.domain_attr().mr_mode as u32
    }

    /// Demands that the conduit does not know, if there are any.
    pub fn unknown_demands(&self) -> Option<String> {
        let (mode, registration) = (self.record().mode & !MODE, self.mr_mode() & !(MR_MODE | MR_SCALABLE));
        (mode != 0 || registration != 0).then(|| format!("mode {mode:#x}, mr_mode {registration:#x}"))
    }

    /// Takes delivery reports off all operations that do not ask for one: the hints had them as
    /// the default, for a provider without them to be noticed.
    pub fn report_delivery_on_request(&mut self) {
        // SAFETY: a part of a record that nobody else has.
        unsafe { (*self.record.as_mut().tx_attr).op_flags &= !super::bits::DELIVERY_COMPLETE };
    }

    /// Whether device memory can be registered.
    pub fn takes_device_memory(&self) -> bool {
        self.caps() & super::bits::HMEM != 0
    }

    /// Whether it can be by a dmabuf.
    pub fn takes_dmabufs(&self) -> bool {
        self.fabric_attr().api_version >= WITH_DMABUF
    }

    /// Bytes of a key.
    pub fn key_bytes(&self) -> usize {
        self.domain_attr().mr_key_size
    }

    /// Bytes of the data that a put carries to its target's queue.
    pub fn cq_data_bytes(&self) -> usize {
        self.domain_attr().cq_data_size
    }

    /// Whether its endpoints are reliable and connectionless.
    pub fn is_reliable(&self) -> bool {
        self.ep_attr().type_ == abi::FI_EP_RDM
    }

    /// Whether addresses are texts.
    pub fn names_by_text(&self) -> bool {
        self.record().addr_format == abi::FI_ADDR_STR
    }

    /// libfabric's names of demands on the caller ([`Infos::query`] admits only contexts), of
    /// demands of registration, of the threads that may call, of who makes progress, and of the
    /// preferred address vector. One thread at a time calls this.
    pub fn names(&self) -> [(&'static str, String); 5] {
        let (domain, library) = (self.domain_attr(), self.library);
        // SAFETY: each value is of the type that the number means.
        unsafe {
            [
                ("mode", library.names(&self.record().mode, abi::FI_TYPE_MODE)),
                (
                    "memory registration",
                    library.names(&domain.mr_mode, abi::FI_TYPE_MR_MODE),
                ),
                ("threading", library.names(&domain.threading, abi::FI_TYPE_THREADING)),
                ("progress", library.names(&domain.data_progress, abi::FI_TYPE_PROGRESS)),
                ("address vector", library.names(&domain.av_type, abi::FI_TYPE_AV_TYPE)),
            ]
        }
    }

    /// Whether any thread may call the provider at any time, by its record.
    pub fn is_thread_safe(&self) -> bool {
        self.domain_attr().threading == abi::FI_THREAD_SAFE
    }

    /// Type of address vectors: that of the record, of which opx up to 1.17 takes no other, or a
    /// table, which every provider without a type takes. opx before 1.21 refuses a vector without a
    /// type (libfabric@v1.20.0:prov/opx/src/fi_opx_av.c).
    pub(super) fn av_type(&self) -> abi::fi_av_type {
        match self.domain_attr().av_type {
            abi::FI_AV_UNSPEC => abi::FI_AV_TABLE,
            named => named,
        }
    }

    /// Most bytes whose source is free when the call returns.
    pub fn inject_bytes(&self) -> usize {
        self.tx_attr().inject_size
    }

    /// Most bytes of an operation.
    pub fn max_bytes(&self) -> usize {
        self.ep_attr().max_msg_size
    }

    /// The address of the PCI device, if the provider tells.
    pub fn pci(&self) -> Option<PciAddress> {
        if !self.library.has_nics {
            return None;
        }
        // SAFETY: null, or valid as long as `self`, as its parts.
        let bus = unsafe { self.record().nic.as_ref()?.bus_attr.as_ref()? };
        if bus.bus_type != abi::FI_BUS_PCI {
            return None;
        }
        // SAFETY: the member that belongs to this type.
        let pci = unsafe { bus.attr.pci };
        Some((pci.domain_id, pci.bus_id, pci.device_id, pci.function_id))
    }

    /// The IP address of the interface, if the provider names interfaces so.
    pub fn ip(&self) -> Option<IpAddr> {
        let record = self.record();
        let address = NonNull::new(record.src_addr)?;
        let least = match record.addr_format {
            abi::FI_SOCKADDR_IN => size_of::<libc::sockaddr_in>(),
            abi::FI_SOCKADDR_IN6 => size_of::<libc::sockaddr_in6>(),
            abi::FI_SOCKADDR => size_of::<libc::sockaddr>(),
            _ => return None,
        };
        if record.src_addrlen < least {
            return None;
        }
        // SAFETY: as many bytes as the structure of its family has.
        unsafe {
            match i32::from(address.cast::<libc::sockaddr>().as_ref().sa_family) {
                libc::AF_INET => {
                    let number = address.cast::<libc::sockaddr_in>().as_ref().sin_addr.s_addr;
                    Some(IpAddr::from(number.to_ne_bytes()))
                }
                libc::AF_INET6 if record.src_addrlen >= size_of::<libc::sockaddr_in6>() => Some(IpAddr::from(
                    address.cast::<libc::sockaddr_in6>().as_ref().sin6_addr.s6_addr,
                )),
                _ => None,
            }
        }
    }
}
