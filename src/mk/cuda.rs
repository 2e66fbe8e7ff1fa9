//! CUDA devices with unified addressing (`GEX_MK_CLASS_CUDA_UVA`), by the driver's API.
//!
//! Everything runs in the device's primary context, which is pushed before and popped after, and on
//! a stream of our own that does not wait for the client's. The stream is synchronised after each
//! copy: a copy from pageable memory may return before its data is on the device (CUDA Driver API,
//! "API synchronization behavior").

use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::ptr;

use super::{take_descriptor, Driver, Owner, Refusal};
use gasnet_conduit::library::functions;
use gasnet_conduit::{Device, Dmabuf};
use gasnet_sys::mem;

/// `CUdeviceptr`.
type DevicePtr = u64;
type Handle = *mut c_void;

functions! {
    /// The driver's functions. Those with a second version are named so in the library.
    Api of CUDA {
        init = c"cuInit" (c_uint) -> c_int;
        error_name = c"cuGetErrorName" (c_int, *mut *const c_char) -> c_int;
        error_text = c"cuGetErrorString" (c_int, *mut *const c_char) -> c_int;
        device_count = c"cuDeviceGetCount" (*mut c_int) -> c_int;
        device_attribute = c"cuDeviceGetAttribute" (*mut c_int, c_int, c_int) -> c_int;
        retain_primary = c"cuDevicePrimaryCtxRetain" (*mut Handle, c_int) -> c_int;
        release_primary = c"cuDevicePrimaryCtxRelease_v2" (c_int) -> c_int;
        push = c"cuCtxPushCurrent_v2" (Handle) -> c_int;
        pop = c"cuCtxPopCurrent_v2" (*mut Handle) -> c_int;
        stream_create = c"cuStreamCreate" (*mut Handle, c_uint) -> c_int;
        stream_synchronize = c"cuStreamSynchronize" (Handle) -> c_int;
        stream_destroy = c"cuStreamDestroy_v2" (Handle) -> c_int;
        alloc = c"cuMemAlloc_v2" (*mut DevicePtr, usize) -> c_int;
        free = c"cuMemFree_v2" (DevicePtr) -> c_int;
        pointer_attribute = c"cuPointerGetAttribute" (*mut c_void, c_int, DevicePtr) -> c_int;
        host_to_device = c"cuMemcpyHtoDAsync_v2" (DevicePtr, *const c_void, usize, Handle) -> c_int;
        device_to_host = c"cuMemcpyDtoHAsync_v2" (*mut c_void, DevicePtr, usize, Handle) -> c_int;
        device_to_device = c"cuMemcpyDtoDAsync_v2" (DevicePtr, DevicePtr, usize, Handle) -> c_int;
        peer = c"cuMemcpyPeerAsync" (DevicePtr, Handle, DevicePtr, Handle, usize, Handle) -> c_int;
    }
}

functions! {
    /// Of drivers since CUDA 11.7.
    Export of CUDA {
        handle = c"cuMemGetHandleForAddressRange" (*mut c_void, DevicePtr, usize, c_int, u64) -> c_int;
    }
}

const SUCCESS: c_int = 0;
const ERROR_NOT_INITIALIZED: c_int = 3;
/// `CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING`.
const UNIFIED_ADDRESSING: c_int = 41;
/// `CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED`.
const EXPORTS_DMABUF: c_int = 124;
/// `CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD`.
const DMABUF_FD: c_int = 1;
/// `CU_POINTER_ATTRIBUTE_MEMORY_TYPE`, and its value for device memory.
const MEMORY_TYPE: c_int = 2;
const MEMORY_OF_DEVICE: c_uint = 2;
/// `CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL`.
const DEVICE_ORDINAL: c_int = 9;
/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: c_uint = 1;

/// One device. The handles are names that any thread may use.
struct Cuda {
    api: &'static Api,
    number: c_int,
    context: usize,
    stream: usize,
}

impl Api {
    /// The driver's own words for a result.
    fn describe(&self, result: c_int) -> String {
        let text = |function: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int| {
            let mut text: *const c_char = ptr::null();
            // SAFETY: writes a pointer to a constant string, or null.
            let known = unsafe { function(result, &raw mut text) };
            // SAFETY: not null, so a string of the driver's.
            (known == SUCCESS && !text.is_null())
                .then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        };
        match (text(self.error_name), text(self.error_text)) {
            (Some(name), Some(text)) => format!("{name} ({text})"),
            (Some(name), None) => name,
            _ => format!("error {result}"),
        }
    }

    fn check(&self, result: c_int, function: &str) -> Result<(), String> {
        if result == SUCCESS {
            return Ok(());
        }
        Err(format!("{function} failed: {}", self.describe(result)))
    }

    /// Whether the device exists and has unified addressing.
    fn usable(&self, number: c_int) -> Result<(), Refusal> {
        let mut count: c_int = 0;
        // SAFETY: writes a number.
        let result = unsafe { (self.device_count)(&raw mut count) };
        self.check(result, "cuDeviceGetCount").map_err(Refusal::Resource)?;
        if !(0..count).contains(&number) {
            return Err(Refusal::Argument(format!(
                "there is no CUDA device {number}: this process sees {count} (CUDA_VISIBLE_DEVICES chooses which)"
            )));
        }
        let unified = self.has(number, UNIFIED_ADDRESSING);
        if !unified.map_err(Refusal::Argument)? {
            return Err(Refusal::Argument(format!(
                "CUDA device {number} has no unified addressing"
            )));
        }
        Ok(())
    }

    /// Whether attribute `which` of a device is not 0.
    fn has(&self, number: c_int, which: c_int) -> Result<bool, String> {
        let mut value: c_int = 0;
        // SAFETY: writes a number.
        let result = unsafe { (self.device_attribute)(&raw mut value, which, number) };
        self.check(result, "cuDeviceGetAttribute").map(|()| value != 0)
    }

    /// Runs `work` with `context` as the current one of this thread.
    fn inside<T>(&self, context: usize, work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        // SAFETY: a context that is retained.
        let result = unsafe { (self.push)(context as Handle) };
        self.check(result, "cuCtxPushCurrent")?;
        let done = work();
        let mut popped: Handle = ptr::null_mut();
        // SAFETY: takes away what was pushed.
        let result = unsafe { (self.pop)(&raw mut popped) };
        self.check(result, "cuCtxPopCurrent")?;
        done
    }
}

/// Opens CUDA device `number`.
pub fn open(number: c_int) -> Result<Box<dyn Driver>, Refusal> {
    let api = Api::get().map_err(Refusal::Argument)?;
    // SAFETY: may be called any number of times.
    let result = unsafe { (api.init)(0) };
    if result != SUCCESS {
        let hint = if result == ERROR_NOT_INITIALIZED {
            ". Was CUDA used before gex_Client_Init? CUDA does not survive a fork"
        } else {
            ""
        };
        return Err(Refusal::Resource(format!(
            "cuInit failed: {}{hint}",
            api.describe(result)
        )));
    }
    api.usable(number)?;
    let mut context: Handle = ptr::null_mut();
    // SAFETY: writes a handle.
    let result = unsafe { (api.retain_primary)(&raw mut context, number) };
    api.check(result, "cuDevicePrimaryCtxRetain")
        .map_err(Refusal::Resource)?;
    let stream = api.inside(context as usize, || {
        let mut stream: Handle = ptr::null_mut();
        // SAFETY: writes a handle.
        let result = unsafe { (api.stream_create)(&raw mut stream, NON_BLOCKING) };
        api.check(result, "cuStreamCreate").map(|()| stream as usize)
    });
    match stream {
        Ok(stream) => Ok(Box::new(Cuda {
            api,
            number,
            context: context as usize,
            stream,
        })),
        Err(why) => {
            // SAFETY: retained above.
            unsafe { (api.release_primary)(number) };
            Err(Refusal::Resource(why))
        }
    }
}

impl Cuda {
    /// Starts a copy in the device's context and waits until it is done.
    fn transfer(&self, function: &str, start: impl FnOnce(Handle) -> c_int) -> Result<(), String> {
        self.api.inside(self.context, || {
            let stream = self.stream as Handle;
            self.api.check(start(stream), function)?;
            // SAFETY: a stream of ours.
            let result = unsafe { (self.api.stream_synchronize)(stream) };
            self.api.check(result, function)
        })
    }

    /// Attribute `which` of an address.
    fn attribute<T: Copy + Default>(&self, address: usize, which: c_int) -> Result<T, String> {
        let mut value = T::default();
        self.api.inside(self.context, || {
            // SAFETY: the attribute has this type.
            let result = unsafe { (self.api.pointer_attribute)((&raw mut value).cast(), which, address as DevicePtr) };
            self.api.check(result, "cuPointerGetAttribute").map(|()| value)
        })
    }
}

impl Driver for Cuda {
    fn owner(&self) -> Owner {
        Owner {
            device: Device::Cuda(self.number as u32),
            handles: [0, self.context],
        }
    }

    fn allocate(&self, bytes: usize) -> Result<usize, String> {
        self.api.inside(self.context, || {
            let mut address: DevicePtr = 0;
            // SAFETY: writes an address.
            let result = unsafe { (self.api.alloc)(&raw mut address, bytes) };
            self.api.check(result, "cuMemAlloc").map(|()| address as usize)
        })
    }

    fn free(&self, address: usize) -> Result<(), String> {
        self.api.inside(self.context, || {
            // SAFETY: came from `allocate`, and nobody uses it any more.
            let result = unsafe { (self.api.free)(address as DevicePtr) };
            self.api.check(result, "cuMemFree")
        })
    }

    fn check(&self, address: usize, bytes: usize) -> Result<(), String> {
        for end in [address, address + bytes - 1] {
            let kind: c_uint = self.attribute(end, MEMORY_TYPE)?;
            let device: c_int = self.attribute(end, DEVICE_ORDINAL)?;
            if kind != MEMORY_OF_DEVICE || device != self.number {
                return Err(format!("{end:#x} is not memory of CUDA device {}", self.number));
            }
        }
        Ok(())
    }

    unsafe fn write(&self, to: usize, from: *const u8, bytes: usize) -> Result<(), String> {
        self.transfer("cuMemcpyHtoDAsync", |stream| {
            // SAFETY: by contract; the source stays until the stream is synchronised.
            unsafe { (self.api.host_to_device)(to as DevicePtr, from.cast(), bytes, stream) }
        })
    }

    unsafe fn read(&self, to: *mut u8, from: usize, bytes: usize) -> Result<(), String> {
        self.transfer("cuMemcpyDtoHAsync", |stream| {
            // SAFETY: by contract; the target stays until the stream is synchronised.
            unsafe { (self.api.device_to_host)(to.cast(), from as DevicePtr, bytes, stream) }
        })
    }

    unsafe fn copy(&self, to: usize, owner: Owner, from: usize, bytes: usize) -> Option<Result<(), String>> {
        let (to, from) = (to as DevicePtr, from as DevicePtr);
        if owner == self.owner() {
            // SAFETY: by contract.
            let start = |stream| unsafe { (self.api.device_to_device)(to, from, bytes, stream) };
            return Some(self.transfer("cuMemcpyDtoDAsync", start));
        }
        let Device::Cuda(_) = owner.device else { return None };
        let (here, there) = (self.context as Handle, owner.handles[1] as Handle);
        // SAFETY: by contract; both contexts are retained.
        let start = |stream| unsafe { (self.api.peer)(to, here, from, there, bytes, stream) };
        Some(self.transfer("cuMemcpyPeerAsync", start))
    }

    fn export(&self, address: usize, bytes: usize) -> Option<Dmabuf> {
        let export = Export::get().ok()?;
        self.api
            .has(self.number, EXPORTS_DMABUF)
            .is_ok_and(|has| has)
            .then_some(())?;
        // The driver takes whole pages of the host.
        let page = mem::page_size();
        let first = address - address % page;
        let pages = (address + bytes).next_multiple_of(page) - first;
        let mut fd: c_int = -1;
        let made = self.api.inside(self.context, || {
            // SAFETY: writes a descriptor.
            let result = unsafe { (export.handle)((&raw mut fd).cast(), first as DevicePtr, pages, DMABUF_FD, 0) };
            self.api.check(result, "cuMemGetHandleForAddressRange")
        });
        made.ok()?;
        // SAFETY: a new descriptor, the caller's.
        let fd = unsafe { take_descriptor(fd) }?;
        let offset = address - first;
        Some(Dmabuf { fd, offset })
    }

    fn close(&self) {
        // An error here follows an earlier one, which was reported.
        let _ = self.api.inside(self.context, || {
            // SAFETY: a stream of ours on which nothing runs.
            let result = unsafe { (self.api.stream_destroy)(self.stream as Handle) };
            self.api.check(result, "cuStreamDestroy")
        });
        // SAFETY: retained by `open`.
        unsafe { (self.api.release_primary)(self.number) };
    }
}
