//! Registration of device memory (`FI_HMEM`).

use super::bindings as abi;
use super::Errno;
use gasnet_conduit::{Device, Dmabuf, SegmentMemory};
use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};

/// `FI_MR_DMABUF`, newer than the headers of the bindings.
const MR_DMABUF: u64 = 1 << 40;

/// `struct fi_mr_dmabuf`.
#[repr(C)]
struct DmabufRange {
    fd: c_int,
    /// Of the segment, in the buffer.
    offset: u64,
    bytes: usize,
    /// Of the buffer, in the owner's address space.
    base: *mut c_void,
}

/// `struct fi_mr_attr`. Fields that versions after the bindings append are zero.
#[repr(C)]
struct Attributes {
    first: abi::fi_mr_attr,
    appended: [usize; 8],
}

/// The vendor's interface and its number of a device.
fn interface(device: Device) -> (abi::fi_hmem_iface, u32) {
    match device {
        Device::Cuda(number) => (abi::FI_HMEM_CUDA, number),
        Device::Hip(number) => (abi::FI_HMEM_ROCR, number),
        // The upper half is the number of the driver, of which there is one.
        Device::LevelZero(number) => (abi::FI_HMEM_ZE, number),
    }
}

/// What is registered, and with which key.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub memory: &'a SegmentMemory,
    pub device: Device,
    pub dmabuf: Option<&'a Dmabuf>,
    pub access: u64,
    pub key: u64,
}

/// Registers device memory: its dmabuf; its address if there is none or the provider refuses it.
///
/// # Safety
/// A live domain; the memory is the device's until the region is closed.
pub unsafe fn register(domain: *mut abi::fid_domain, request: Request<'_>) -> Result<NonNull<abi::fid_mr>, Errno> {
    let memory = request.memory;
    let range = request.dmabuf.map(|dmabuf| DmabufRange {
        fd: dmabuf.fd.as_raw_fd(),
        offset: dmabuf.offset as u64,
        bytes: memory.bytes,
        base: memory.base.wrapping_sub(dmabuf.offset) as *mut c_void,
    });
    if let Some(range) = range {
        // SAFETY: by contract; with this flag the field points to such a range.
        let result = unsafe { register_as(domain, request, (&raw const range).cast(), MR_DMABUF) };
        // If another region has the key, the caller tries with a new one.
        if matches!(result, Ok(_) | Err(Errno::KEY_IN_USE)) {
            return result;
        }
    }
    let vector = libc::iovec {
        iov_base: memory.base as *mut c_void,
        iov_len: memory.bytes,
    };
    // SAFETY: by contract; without a flag the field points to vectors.
    unsafe { register_as(domain, request, &raw const vector, 0) }
}

/// # Safety
/// As [`register`]; what `flags` say is at `range`.
unsafe fn register_as(
    domain: *mut abi::fid_domain,
    request: Request<'_>,
    range: *const libc::iovec,
    flags: u64,
) -> Result<NonNull<abi::fid_mr>, Errno> {
    let (iface, number) = interface(request.device);
    let attributes = Attributes {
        first: abi::fi_mr_attr {
            mr_iov: range,
            iov_count: 1,
            access: request.access,
            offset: 0,
            requested_key: request.key,
            context: ptr::null_mut(),
            auth_key_size: 0,
            auth_key: ptr::null_mut(),
            iface,
            device: abi::fi_mr_attr__bindgen_ty_1 {
                reserved: u64::from(number),
            },
        },
        appended: [0; 8],
    };
    let mut region = ptr::null_mut();
    // SAFETY: fi_mr_regattr(3), with structures that live until it returns.
    let code = unsafe {
        let regattr = (*(*domain).mr).regattr.ok_or(Errno(libc::ENOSYS))?;
        regattr(domain.cast(), &raw const attributes.first, flags, &raw mut region)
    };
    Errno::check(code as isize)?;
    NonNull::new(region).ok_or(Errno(libc::ENOMEM))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::bits;
    use std::os::fd::{OwnedFd, RawFd};

    /// Where a request says the memory is: address and bytes, or descriptor, offset, bytes and
    /// base of a dmabuf.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Range {
        Address(usize, usize),
        Dmabuf(RawFd, u64, usize, usize),
    }

    /// Starts with a domain that notes requests, and answers them with `codes`.
    #[repr(C)]
    struct Fake {
        // First: the functions get its address.
        domain: abi::fid_domain,
        table: abi::fi_ops_mr,
        region: abi::fid_mr,
        codes: Vec<c_int>,
        seen: Vec<(abi::fi_hmem_iface, u64, u64, u64, Range)>,
    }

    unsafe extern "C" fn regattr(
        domain: *mut abi::fid,
        attributes: *const abi::fi_mr_attr,
        flags: u64,
        region: *mut *mut abi::fid_mr,
    ) -> c_int {
        // SAFETY: called with a `Fake` and with what fi_mr_regattr(3) says.
        unsafe {
            let fake = &mut *domain.cast::<Fake>();
            let whole = &*attributes.cast::<Attributes>();
            assert_eq!((whole.appended, whole.first.iov_count), ([0; 8], 1));
            let range = if flags & MR_DMABUF == 0 {
                let vector = *whole.first.mr_iov;
                Range::Address(vector.iov_base as usize, vector.iov_len)
            } else {
                let range = &*whole.first.mr_iov.cast::<DmabufRange>();
                Range::Dmabuf(range.fd, range.offset, range.bytes, range.base as usize)
            };
            let (iface, number) = (whole.first.iface, whole.first.device.reserved);
            let (access, key) = (whole.first.access, whole.first.requested_key);
            fake.seen.push((iface, number, access, key, range));
            *region = &raw mut fake.region;
            fake.codes.remove(0)
        }
    }

    const MEMORY: SegmentMemory = SegmentMemory {
        base: 0x7000_2000,
        bytes: 12_345,
        device: None,
    };
    const BY_ADDRESS: Range = Range::Address(0x7000_2000, 12_345);

    /// The results of a registration with these answers, and what was asked for.
    fn ask(device: Device, dmabuf: Option<&Dmabuf>, codes: &[c_int]) -> (Result<(), Errno>, Box<Fake>) {
        // SAFETY: pointers and functions that are zero are none.
        let mut fake = Box::new(unsafe {
            Fake {
                domain: std::mem::zeroed(),
                table: std::mem::zeroed(),
                region: std::mem::zeroed(),
                codes: codes.to_vec(),
                seen: Vec::new(),
            }
        });
        fake.table.regattr = Some(regattr);
        fake.domain.mr = &raw mut fake.table;
        let request = Request {
            memory: &MEMORY,
            device,
            dmabuf,
            access: bits::REMOTE_READ,
            key: 99,
        };
        // SAFETY: live as far as `regattr` uses it.
        let result = unsafe { register((&raw mut *fake).cast(), request) };
        (result.map(|_| ()), fake)
    }

    #[test]
    fn requests_name_device_and_address() {
        for (device, iface, number) in [
            (Device::Cuda(3), abi::FI_HMEM_CUDA, 3),
            (Device::Hip(1), abi::FI_HMEM_ROCR, 1),
            (Device::LevelZero(2), abi::FI_HMEM_ZE, 2),
        ] {
            let (result, fake) = ask(device, None, &[0]);
            assert_eq!(result, Ok(()));
            assert_eq!(fake.seen, [(iface, number, bits::REMOTE_READ, 99, BY_ADDRESS)]);
        }
    }

    #[test]
    fn a_dmabuf_is_preferred() {
        let fd: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
        let dmabuf = Dmabuf { fd, offset: 0x1000 };
        let by_dmabuf = Range::Dmabuf(dmabuf.fd.as_raw_fd(), 0x1000, 12_345, 0x7000_1000);
        let ask = |codes: &[c_int]| {
            let (result, fake) = ask(Device::Cuda(0), Some(&dmabuf), codes);
            (result, fake.seen.iter().map(|seen| seen.4).collect::<Vec<_>>())
        };
        assert_eq!(ask(&[0]), (Ok(()), vec![by_dmabuf]));
        assert_eq!(ask(&[-libc::ENOSYS, 0]), (Ok(()), vec![by_dmabuf, BY_ADDRESS]));
        let refused = Err(Errno(libc::EINVAL));
        assert_eq!(
            ask(&[-libc::ENOSYS, -libc::EINVAL]),
            (refused, vec![by_dmabuf, BY_ADDRESS])
        );
        assert_eq!(ask(&[-Errno::KEY_IN_USE.0]), (Err(Errno::KEY_IN_USE), vec![by_dmabuf]));
    }
}
