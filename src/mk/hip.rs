//! AMD's devices (`GEX_MK_CLASS_HIP`), by the HIP runtime.
//!
//! A device is the current one of the calling thread while something is done for it. Copies run on
//! a stream of our own that does not wait for the client's, and are synchronised.

use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::ptr;

use super::{take_descriptor, Driver, Owner, Refusal};
use gasnet_conduit::library::functions;
use gasnet_conduit::{Device, Dmabuf};

type Handle = *mut c_void;

functions! {
    /// The runtime's functions.
    Api of HIP {
        init = c"hipInit" (c_uint) -> c_int;
        error_name = c"hipGetErrorName" (c_int) -> *const c_char;
        error_text = c"hipGetErrorString" (c_int) -> *const c_char;
        device_count = c"hipGetDeviceCount" (*mut c_int) -> c_int;
        current_device = c"hipGetDevice" (*mut c_int) -> c_int;
        set_device = c"hipSetDevice" (c_int) -> c_int;
        stream_create = c"hipStreamCreateWithFlags" (*mut Handle, c_uint) -> c_int;
        stream_synchronize = c"hipStreamSynchronize" (Handle) -> c_int;
        stream_destroy = c"hipStreamDestroy" (Handle) -> c_int;
        alloc = c"hipMalloc" (*mut *mut c_void, usize) -> c_int;
        free = c"hipFree" (*mut c_void) -> c_int;
        pointer_attribute = c"hipPointerGetAttribute" (*mut c_void, c_int, *mut c_void) -> c_int;
        copy = c"hipMemcpyAsync" (*mut c_void, *const c_void, usize, c_int, Handle) -> c_int;
        peer = c"hipMemcpyPeerAsync" (*mut c_void, c_int, *const c_void, c_int, usize, Handle) -> c_int;
    }
}

functions! {
    /// Of libhsa-runtime64 since ROCm 5.6, which libamdhip64 depends on, so that it is found there.
    Export of HIP {
        dmabuf = c"hsa_amd_portable_export_dmabuf" (*const c_void, usize, *mut c_int, *mut u64) -> c_int;
    }
}

const SUCCESS: c_int = 0;
/// `hipStreamNonBlocking`.
const NON_BLOCKING: c_uint = 1;
/// `HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL`.
const DEVICE_ORDINAL: c_int = 9;
/// `hipMemcpyHostToDevice`.
const TO_DEVICE: c_int = 1;
/// `hipMemcpyDeviceToHost`.
const TO_HOST: c_int = 2;
/// `hipMemcpyDeviceToDevice`.
const WITHIN: c_int = 3;

/// One device. The stream is a name that any thread may use.
struct Hip {
    api: &'static Api,
    number: c_int,
    stream: usize,
}

impl Api {
    /// The runtime's own words for a result.
    fn describe(&self, result: c_int) -> String {
        let text = |function: unsafe extern "C" fn(c_int) -> *const c_char| {
            // SAFETY: gives a constant string, or null.
            let text = unsafe { function(result) };
            if text.is_null() {
                return format!("error {result}");
            }
            // SAFETY: not null, so a string of the runtime's.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        };
        format!("{} ({})", text(self.error_name), text(self.error_text))
    }

    fn check(&self, result: c_int, function: &str) -> Result<(), String> {
        if result == SUCCESS {
            return Ok(());
        }
        Err(format!("{function} failed: {}", self.describe(result)))
    }

    fn set(&self, number: c_int) -> Result<(), String> {
        // SAFETY: takes a number.
        let result = unsafe { (self.set_device)(number) };
        self.check(result, "hipSetDevice")
    }

    /// Runs `work` with `number` as the current device of this thread.
    fn inside<T>(&self, number: c_int, work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        let mut before: c_int = 0;
        // SAFETY: writes a number.
        let result = unsafe { (self.current_device)(&raw mut before) };
        self.check(result, "hipGetDevice")?;
        if before == number {
            return work();
        }
        self.set(number)?;
        let done = work();
        self.set(before)?;
        done
    }
}

/// Opens HIP device `number`.
pub fn open(number: c_int) -> Result<Box<dyn Driver>, Refusal> {
    let api = Api::get().map_err(Refusal::Argument)?;
    // SAFETY: may be called any number of times.
    let result = unsafe { (api.init)(0) };
    api.check(result, "hipInit").map_err(Refusal::Resource)?;
    let mut count: c_int = 0;
    // SAFETY: writes a number.
    let result = unsafe { (api.device_count)(&raw mut count) };
    api.check(result, "hipGetDeviceCount").map_err(Refusal::Resource)?;
    if !(0..count).contains(&number) {
        return Err(Refusal::Argument(format!(
            "there is no HIP device {number}: this process sees {count} (ROCR_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES \
            choose which)"
        )));
    }
    let stream = api.inside(number, || {
        let mut stream: Handle = ptr::null_mut();
        // SAFETY: writes a handle.
        let result = unsafe { (api.stream_create)(&raw mut stream, NON_BLOCKING) };
        api.check(result, "hipStreamCreateWithFlags").map(|()| stream as usize)
    });
    let stream = stream.map_err(Refusal::Resource)?;
    Ok(Box::new(Hip { api, number, stream }))
}

impl Hip {
    /// Starts a copy with the device as the current one and waits until it is done.
    fn transfer(&self, function: &str, start: impl FnOnce(Handle) -> c_int) -> Result<(), String> {
        self.api.inside(self.number, || {
            let stream = self.stream as Handle;
            self.api.check(start(stream), function)?;
            // SAFETY: a stream of ours.
            let result = unsafe { (self.api.stream_synchronize)(stream) };
            self.api.check(result, function)
        })
    }

    /// A copy whose ends HIP tells apart by `direction`.
    ///
    /// # Safety
    /// Both ranges are valid, and of the kinds that `direction` says.
    unsafe fn copy_to(&self, to: usize, from: usize, bytes: usize, direction: c_int) -> Result<(), String> {
        self.transfer("hipMemcpyAsync", |stream| {
            // SAFETY: by contract; both ends stay until the stream is synchronised.
            unsafe { (self.api.copy)(to as *mut c_void, from as *const c_void, bytes, direction, stream) }
        })
    }
}

impl Driver for Hip {
    fn owner(&self) -> Owner {
        Owner {
            device: Device::Hip(self.number as u32),
            handles: [0, 0],
        }
    }

    fn allocate(&self, bytes: usize) -> Result<usize, String> {
        self.api.inside(self.number, || {
            let mut address: *mut c_void = ptr::null_mut();
            // SAFETY: writes an address.
            let result = unsafe { (self.api.alloc)(&raw mut address, bytes) };
            self.api.check(result, "hipMalloc").map(|()| address as usize)
        })
    }

    fn free(&self, address: usize) -> Result<(), String> {
        self.api.inside(self.number, || {
            // SAFETY: came from `allocate`, and nobody uses it any more.
            let result = unsafe { (self.api.free)(address as *mut c_void) };
            self.api.check(result, "hipFree")
        })
    }

    fn check(&self, address: usize, bytes: usize) -> Result<(), String> {
        for end in [address, address + bytes - 1] {
            let mut device: c_int = -1;
            // SAFETY: the attribute is an int.
            let result =
                unsafe { (self.api.pointer_attribute)((&raw mut device).cast(), DEVICE_ORDINAL, end as *mut c_void) };
            self.api.check(result, "hipPointerGetAttribute")?;
            if device != self.number {
                return Err(format!("{end:#x} is not memory of HIP device {}", self.number));
            }
        }
        Ok(())
    }

    unsafe fn write(&self, to: usize, from: *const u8, bytes: usize) -> Result<(), String> {
        // SAFETY: by contract.
        unsafe { self.copy_to(to, from as usize, bytes, TO_DEVICE) }
    }

    unsafe fn read(&self, to: *mut u8, from: usize, bytes: usize) -> Result<(), String> {
        // SAFETY: by contract.
        unsafe { self.copy_to(to as usize, from, bytes, TO_HOST) }
    }

    unsafe fn copy(&self, to: usize, owner: Owner, from: usize, bytes: usize) -> Option<Result<(), String>> {
        if owner == self.owner() {
            // SAFETY: by contract.
            return Some(unsafe { self.copy_to(to, from, bytes, WITHIN) });
        }
        let Device::Hip(other) = owner.device else { return None };
        Some(self.transfer("hipMemcpyPeerAsync", |stream| {
            let (to, from) = (to as *mut c_void, from as *const c_void);
            // SAFETY: by contract.
            unsafe { (self.api.peer)(to, self.number, from, other as c_int, bytes, stream) }
        }))
    }

    fn export(&self, address: usize, bytes: usize) -> Option<Dmabuf> {
        let export = Export::get().ok()?;
        let (mut fd, mut offset) = (-1, 0);
        // SAFETY: writes a descriptor and an offset.
        let result = unsafe { (export.dmabuf)(address as *const c_void, bytes, &raw mut fd, &raw mut offset) };
        if result != SUCCESS {
            return None;
        }
        // SAFETY: a new descriptor, the caller's (hsa_amd_portable_close_dmabuf closes it).
        let fd = unsafe { take_descriptor(fd) }?;
        let offset = offset as usize;
        Some(Dmabuf { fd, offset })
    }

    fn close(&self) {
        // An error here follows an earlier one, which was reported.
        let _ = self.api.inside(self.number, || {
            // SAFETY: a stream of ours on which nothing runs.
            let result = unsafe { (self.api.stream_destroy)(self.stream as Handle) };
            self.api.check(result, "hipStreamDestroy")
        });
    }
}
