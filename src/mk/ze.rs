//! Intel's devices (`GEX_MK_CLASS_ZE`), by the oneAPI Level Zero loader.
//!
//! The client brings device and context. Copies go through an immediate command list in synchronous
//! mode, which completes each command before it returns, and through host memory that the context
//! knows: other host memory need not be accessible to the device. Neither may be used by two
//! threads at once, so a lock keeps them.

use std::ffi::{c_int, c_void};
use std::ptr;

use super::{Driver, Owner, Refusal};
use gasnet_conduit::library::functions;
use gasnet_conduit::{Device, Dmabuf};
use gasnet_sys::atomic::Mutex;
use gasnet_sys::fd;

type Handle = *mut c_void;

/// `ze_command_queue_desc_t`.
#[repr(C)]
struct QueueDesc {
    structure: c_int,
    next: *const c_void,
    ordinal: u32,
    index: u32,
    flags: u32,
    mode: c_int,
    priority: c_int,
}

/// `ze_device_mem_alloc_desc_t`.
#[repr(C)]
struct DeviceAlloc {
    structure: c_int,
    next: *const c_void,
    flags: u32,
    ordinal: u32,
}

/// `ze_host_mem_alloc_desc_t`.
#[repr(C)]
struct HostAlloc {
    structure: c_int,
    next: *const c_void,
    flags: u32,
}

/// `ze_memory_allocation_properties_t`.
#[repr(C)]
struct Allocation {
    structure: c_int,
    next: *mut c_void,
    kind: c_int,
    id: u64,
    page_bytes: u64,
}

impl Allocation {
    /// To be filled, with what `next` points to.
    const fn new(next: *mut c_void) -> Self {
        Self {
            structure: MEMORY_ALLOCATION_PROPERTIES,
            next,
            kind: 0,
            id: 0,
            page_bytes: 0,
        }
    }
}

/// `ze_external_memory_export_desc_t`.
#[repr(C)]
struct ExportDesc {
    structure: c_int,
    next: *const c_void,
    flags: u32,
}

/// `ze_external_memory_export_fd_t`.
#[repr(C)]
struct ExportFd {
    structure: c_int,
    next: *const c_void,
    flags: u32,
    fd: c_int,
}

/// `ze_device_external_memory_properties_t`.
#[repr(C)]
struct External {
    structure: c_int,
    next: *mut c_void,
    /// Of allocations, for import and export; then of images.
    types: [u32; 4],
}

const _: () = assert!(size_of::<QueueDesc>() == 40 && size_of::<DeviceAlloc>() == 24 && size_of::<Allocation>() == 40);
const _: () = assert!(size_of::<ExportDesc>() == 24 && size_of::<ExportFd>() == 24 && size_of::<External>() == 32);

functions! {
    /// The loader's functions.
    Api of ZE {
        init = c"zeInit" (u32) -> c_int;
        drivers = c"zeDriverGet" (*mut u32, *mut Handle) -> c_int;
        devices = c"zeDeviceGet" (Handle, *mut u32, *mut Handle) -> c_int;
        list_create = c"zeCommandListCreateImmediate" (Handle, Handle, *const QueueDesc, *mut Handle) -> c_int;
        list_destroy = c"zeCommandListDestroy" (Handle) -> c_int;
        append_copy = c"zeCommandListAppendMemoryCopy"
            (Handle, *mut c_void, *const c_void, usize, Handle, u32, *mut Handle) -> c_int;
        alloc_device = c"zeMemAllocDevice"
            (Handle, *const DeviceAlloc, usize, usize, Handle, *mut *mut c_void) -> c_int;
        alloc_host = c"zeMemAllocHost" (Handle, *const HostAlloc, usize, usize, *mut *mut c_void) -> c_int;
        free = c"zeMemFree" (Handle, *mut c_void) -> c_int;
        properties = c"zeMemGetAllocProperties" (Handle, *const c_void, *mut Allocation, *mut Handle) -> c_int;
        range = c"zeMemGetAddressRange" (Handle, *const c_void, *mut *mut c_void, *mut usize) -> c_int;
        external = c"zeDeviceGetExternalMemoryProperties" (Handle, *mut External) -> c_int;
    }
}

const SUCCESS: c_int = 0;
/// `ZE_STRUCTURE_TYPE_*`.
const COMMAND_QUEUE_DESC: c_int = 0xe;
const DEVICE_EXTERNAL_MEMORY_PROPERTIES: c_int = 0xc;
const DEVICE_MEM_ALLOC_DESC: c_int = 0x15;
const HOST_MEM_ALLOC_DESC: c_int = 0x16;
const MEMORY_ALLOCATION_PROPERTIES: c_int = 0x17;
const EXTERNAL_MEMORY_EXPORT_DESC: c_int = 0x18;
const EXTERNAL_MEMORY_EXPORT_FD: c_int = 0x1a;
/// `ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF`.
const DMABUF: u32 = 2;
/// `ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS`.
const SYNCHRONOUS: c_int = 1;
/// `ZE_MEMORY_TYPE_DEVICE`.
const MEMORY_OF_DEVICE: c_int = 2;
/// Length of the host memory that copies go through.
const BOUNCE: usize = 1 << 20;
/// Alignment of what we allocate.
const ALIGNMENT: usize = 4096;

/// Names of results; the loader provides no text for them.
const NAMES: &[(c_int, &str)] = &[
    (1, "ZE_RESULT_NOT_READY"),
    (0x7000_0001, "ZE_RESULT_ERROR_DEVICE_LOST"),
    (0x7000_0002, "ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY"),
    (0x7000_0003, "ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY"),
    (0x7001_0000, "ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS"),
    (0x7800_0001, "ZE_RESULT_ERROR_UNINITIALIZED"),
    (0x7800_0002, "ZE_RESULT_ERROR_UNSUPPORTED_VERSION"),
    (0x7800_0003, "ZE_RESULT_ERROR_UNSUPPORTED_FEATURE"),
    (0x7800_0004, "ZE_RESULT_ERROR_INVALID_ARGUMENT"),
    (0x7800_0005, "ZE_RESULT_ERROR_INVALID_NULL_HANDLE"),
];

fn check(result: c_int, function: &str) -> Result<(), String> {
    if result == SUCCESS {
        return Ok(());
    }
    let name = NAMES
        .iter()
        .find(|(number, _)| *number == result)
        .map(|(_, name)| *name);
    Err(format!(
        "{function} failed: {} ({result:#x})",
        name.unwrap_or("ZE_RESULT_ERROR")
    ))
}

/// Objects of the client.
#[derive(Clone, Copy, Debug)]
pub struct Handles {
    /// `ze_device_handle_t`.
    pub device: usize,
    /// `ze_context_handle_t`.
    pub context: usize,
    /// Number of the device's memory.
    pub ordinal: u32,
}

/// Objects that one copy at a time uses.
struct Line {
    list: usize,
    bounce: usize,
}

/// One device.
struct LevelZero {
    api: &'static Api,
    number: u32,
    handles: Handles,
    line: Mutex<Line>,
    /// Addresses of memory that was allocated for export.
    exportable: Mutex<Vec<usize>>,
}

impl Api {
    /// Position of a device among those of all drivers. None if it is none of them, for example a
    /// part of one.
    fn number(&self, device: usize) -> Option<u32> {
        let list = |get: &dyn Fn(*mut u32, *mut Handle) -> c_int| {
            let mut count = 0;
            if get(&raw mut count, ptr::null_mut()) != SUCCESS {
                return Vec::new();
            }
            let mut all: Vec<Handle> = vec![ptr::null_mut(); count as usize];
            if get(&raw mut count, all.as_mut_ptr()) != SUCCESS {
                return Vec::new();
            }
            all
        };
        // SAFETY: writes at most `count` handles.
        let drivers = list(&|count, all| unsafe { (self.drivers)(count, all) });
        let devices = drivers
            .into_iter()
            // SAFETY: as above.
            .flat_map(|driver| list(&|count, all| unsafe { (self.devices)(driver, count, all) }));
        devices.into_iter().position(|d| d as usize == device).map(|n| n as u32)
    }

    /// Whether a device's memory can be allocated for export as a dmabuf.
    fn exports(&self, device: usize) -> bool {
        let mut about = External {
            structure: DEVICE_EXTERNAL_MEMORY_PROPERTIES,
            next: ptr::null_mut(),
            types: [0; 4],
        };
        // SAFETY: the client's handle; writes what the device supports.
        let result = unsafe { (self.external)(device as Handle, &raw mut about) };
        result == SUCCESS && about.types[1] & DMABUF != 0
    }

    fn allocate_host(&self, context: usize) -> Result<usize, String> {
        let about = HostAlloc {
            structure: HOST_MEM_ALLOC_DESC,
            next: ptr::null(),
            flags: 0,
        };
        let mut address: *mut c_void = ptr::null_mut();
        // SAFETY: the client's context; writes an address.
        let result =
            unsafe { (self.alloc_host)(context as Handle, &raw const about, BOUNCE, ALIGNMENT, &raw mut address) };
        check(result, "zeMemAllocHost").map(|()| address as usize)
    }
}

/// Opens the client's device in the client's context.
pub fn open(handles: Handles) -> Result<Box<dyn Driver>, Refusal> {
    if handles.device == 0 || handles.context == 0 {
        return Err(Refusal::Argument(
            "gex_zeDevice and gex_zeContext must not be null".into(),
        ));
    }
    let api = Api::get().map_err(Refusal::Argument)?;
    // SAFETY: may be called any number of times.
    let result = unsafe { (api.init)(0) };
    check(result, "zeInit").map_err(Refusal::Resource)?;
    let queue = QueueDesc {
        structure: COMMAND_QUEUE_DESC,
        next: ptr::null(),
        ordinal: 0,
        index: 0,
        flags: 0,
        mode: SYNCHRONOUS,
        priority: 0,
    };
    let (context, device) = (handles.context as Handle, handles.device as Handle);
    let mut list: Handle = ptr::null_mut();
    // SAFETY: the client's handles; writes a handle.
    let result = unsafe { (api.list_create)(context, device, &raw const queue, &raw mut list) };
    check(result, "zeCommandListCreateImmediate").map_err(Refusal::Resource)?;
    let bounce = api.allocate_host(handles.context).map_err(|why| {
        // SAFETY: made above.
        unsafe { (api.list_destroy)(list) };
        Refusal::Resource(why)
    })?;
    Ok(Box::new(LevelZero {
        api,
        number: api.number(handles.device).unwrap_or(0),
        handles,
        line: Mutex::new(Line {
            list: list as usize,
            bounce,
        }),
        exportable: Mutex::new(Vec::new()),
    }))
}

impl LevelZero {
    fn context(&self) -> Handle {
        self.handles.context as Handle
    }

    /// Runs `work` with the list and the bounce buffer.
    fn with_line<T>(&self, work: impl FnOnce(&Line) -> T) -> T {
        work(&gasnet_sys::lock(&self.line))
    }

    /// # Safety
    /// Both ranges are memory of the device or the bounce buffer, which `line` is locked for.
    unsafe fn append(&self, line: &Line, to: usize, from: usize, bytes: usize) -> Result<(), String> {
        let (list, to, from) = (line.list as Handle, to as *mut c_void, from as *const c_void);
        // SAFETY: by contract; complete at return.
        let result = unsafe { (self.api.append_copy)(list, to, from, bytes, ptr::null_mut(), 0, ptr::null_mut()) };
        check(result, "zeCommandListAppendMemoryCopy")
    }
}

impl Driver for LevelZero {
    fn owner(&self) -> Owner {
        Owner {
            device: Device::LevelZero(self.number),
            handles: [self.handles.device, self.handles.context],
        }
    }

    fn allocate(&self, bytes: usize) -> Result<usize, String> {
        let export = ExportDesc {
            structure: EXTERNAL_MEMORY_EXPORT_DESC,
            next: ptr::null(),
            flags: DMABUF,
        };
        let exports = self.api.exports(self.handles.device);
        let about = DeviceAlloc {
            structure: DEVICE_MEM_ALLOC_DESC,
            next: if exports {
                (&raw const export).cast()
            } else {
                ptr::null()
            },
            flags: 0,
            ordinal: self.handles.ordinal,
        };
        let device = self.handles.device as Handle;
        let mut address: *mut c_void = ptr::null_mut();
        // SAFETY: the client's handles; writes an address.
        let result = unsafe {
            (self.api.alloc_device)(
                self.context(),
                &raw const about,
                bytes,
                ALIGNMENT,
                device,
                &raw mut address,
            )
        };
        check(result, "zeMemAllocDevice")?;
        if exports {
            gasnet_sys::lock(&self.exportable).push(address as usize);
        }
        Ok(address as usize)
    }

    fn free(&self, address: usize) -> Result<(), String> {
        gasnet_sys::lock(&self.exportable).retain(|&other| other != address);
        // SAFETY: came from `allocate`, and nobody uses it any more.
        let result = unsafe { (self.api.free)(self.context(), address as *mut c_void) };
        check(result, "zeMemFree")
    }

    fn check(&self, address: usize, bytes: usize) -> Result<(), String> {
        let mut about = Allocation::new(ptr::null_mut());
        let mut device: Handle = ptr::null_mut();
        let start = address as *const c_void;
        // SAFETY: writes what is known about an address.
        let result = unsafe { (self.api.properties)(self.context(), start, &raw mut about, &raw mut device) };
        check(result, "zeMemGetAllocProperties")?;
        if about.kind != MEMORY_OF_DEVICE {
            return Err(format!("{address:#x} is not device memory of the context"));
        }
        let (mut base, mut length): (*mut c_void, usize) = (ptr::null_mut(), 0);
        // SAFETY: writes an address and a length.
        let result = unsafe { (self.api.range)(self.context(), start, &raw mut base, &raw mut length) };
        check(result, "zeMemGetAddressRange")?;
        let offset = address.wrapping_sub(base as usize);
        if offset > length || bytes > length - offset {
            return Err(format!(
                "its allocation ends {} bytes after {address:#x}",
                length.saturating_sub(offset)
            ));
        }
        Ok(())
    }

    unsafe fn write(&self, to: usize, from: *const u8, bytes: usize) -> Result<(), String> {
        self.with_line(|line| {
            for done in (0..bytes).step_by(BOUNCE) {
                let piece = (bytes - done).min(BOUNCE);
                // SAFETY: the source by contract; the bounce buffer is ours while the line is
                // locked, and has room.
                unsafe { ptr::copy_nonoverlapping(from.add(done), line.bounce as *mut u8, piece) };
                // SAFETY: by contract.
                unsafe { self.append(line, to + done, line.bounce, piece) }?;
            }
            Ok(())
        })
    }

    unsafe fn read(&self, to: *mut u8, from: usize, bytes: usize) -> Result<(), String> {
        self.with_line(|line| {
            for done in (0..bytes).step_by(BOUNCE) {
                let piece = (bytes - done).min(BOUNCE);
                // SAFETY: by contract.
                unsafe { self.append(line, line.bounce, from + done, piece) }?;
                // SAFETY: the target by contract; the bounce buffer is ours while the line is
                // locked, and has the piece.
                unsafe { ptr::copy_nonoverlapping(line.bounce as *const u8, to.add(done), piece) };
            }
            Ok(())
        })
    }

    unsafe fn copy(&self, to: usize, owner: Owner, from: usize, bytes: usize) -> Option<Result<(), String>> {
        // Another device need not reach this one's memory, and another context does not.
        (owner == self.owner()).then(|| {
            // SAFETY: by contract.
            self.with_line(|line| unsafe { self.append(line, to, from, bytes) })
        })
    }

    fn export(&self, address: usize, _: usize) -> Option<Dmabuf> {
        // That of the client may be a part of a larger buffer, at an unknown offset.
        gasnet_sys::lock(&self.exportable).contains(&address).then_some(())?;
        let mut export = ExportFd {
            structure: EXTERNAL_MEMORY_EXPORT_FD,
            next: ptr::null(),
            flags: DMABUF,
            fd: -1,
        };
        let mut about = Allocation::new((&raw mut export).cast());
        let mut device: Handle = ptr::null_mut();
        // SAFETY: writes what is known about an address, and a descriptor.
        let result = unsafe {
            (self.api.properties)(
                self.context(),
                address as *const c_void,
                &raw mut about,
                &raw mut device,
            )
        };
        if result != SUCCESS || export.fd < 0 {
            return None;
        }
        // The driver keeps its descriptor, and returns it again.
        let fd = fd::duplicate(export.fd).ok()?;
        Some(Dmabuf { fd, offset: 0 })
    }

    fn close(&self) {
        self.with_line(|line| {
            // SAFETY: both are ours, and nothing runs on the list.
            unsafe {
                (self.api.list_destroy)(line.list as Handle);
                (self.api.free)(self.context(), line.bounce as *mut c_void);
            }
        });
    }
}
