//! Memory kinds (GASNet-EX Memory Kinds 2025.8, section 6): segments in the memory of a device.
//!
//! A [`MemoryKind`] is one device, reached through its vendor's library ([`cuda`], [`hip`],
//! [`ze`]), which is opened at the first `gex_MK_Create`. The host never touches device memory:
//! its owner copies between device and host memory, the target of a put or get in the handler of a
//! packet, the initiator where it packs or unpacks. A [`MemRef`] is an address and its device, and
//! [`copy()`] copies between any two of them. A copy is complete when it returns, so what is
//! acknowledged after it is there.

pub mod cuda;
pub mod hip;
pub mod ze;

use std::fmt;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::copy;
use crate::trace::recorder;
use gasnet_conduit::{Device, Dmabuf};
use gasnet_sys::atomic::{Mutex, MutexGuard};

/// Why a kind or a segment was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The call itself is wrong, or names a class whose vendor library this host does not have.
    Argument(String),
    /// The call is right, but a device or memory is missing.
    Resource(String),
}

/// The owner of memory, in words that two drivers of one process share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The device.
    pub device: Device,
    /// The vendor's handles of the device and of the context that it is used in, as far as those
    /// matter.
    pub handles: [usize; 2],
}

/// The functions of a vendor's library for one device. Errors are messages with the vendor's own
/// text. Callable from any thread; the calling thread's current device and context are afterwards
/// what they were before. Every copy is complete at return.
pub trait Driver: Send + Sync {
    /// The owner of this memory.
    fn owner(&self) -> Owner;
    /// New memory of `bytes` bytes (not 0).
    fn allocate(&self, bytes: usize) -> Result<usize, String>;
    /// Gives back what `allocate` gave.
    fn free(&self, address: usize) -> Result<(), String>;
    /// Whether `[address, address + bytes)` is memory of this device.
    fn check(&self, address: usize, bytes: usize) -> Result<(), String>;
    /// Copies host memory to the device.
    ///
    /// # Safety
    /// `bytes` at `from` are readable, and at `to` are memory of this device.
    unsafe fn write(&self, to: usize, from: *const u8, bytes: usize) -> Result<(), String>;
    /// Copies memory of the device to the host.
    ///
    /// # Safety
    /// `bytes` at `to` are writable, and at `from` are memory of this device.
    unsafe fn read(&self, to: *mut u8, from: usize, bytes: usize) -> Result<(), String>;
    /// Copies memory of `owner` to this device. None where there is no direct way.
    ///
    /// # Safety
    /// `bytes` at `from` are memory of `owner`, and at `to` of this device.
    unsafe fn copy(&self, to: usize, owner: Owner, from: usize, bytes: usize) -> Option<Result<(), String>>;
    /// `[address, address + bytes)`, memory of this device, as a dmabuf. None where library, driver
    /// or device cannot export it.
    fn export(&self, address: usize, bytes: usize) -> Option<Dmabuf>;
    /// Gives everything back. Nothing is called afterwards.
    fn close(&self);
}

/// A descriptor that a vendor's library made for the caller, close-on-exec.
///
/// # Safety
/// It is open, and nobody else's.
unsafe fn take_descriptor(fd: RawFd) -> Option<OwnedFd> {
    // SAFETY: by contract.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    gasnet_sys::fd::duplicate(fd.as_raw_fd()).ok()
}

/// The target of a `gex_MK_t`, but for `GEX_MK_HOST`.
pub struct MemoryKind {
    driver: Box<dyn Driver>,
    /// Segments that it has.
    segments: AtomicUsize,
}

impl fmt::Debug for MemoryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryKind({:?})", self.driver.owner())
    }
}

impl fmt::Display for MemoryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.driver.owner().device.fmt(f)
    }
}

/// Kinds that were created and not destroyed.
static KINDS: Mutex<Vec<&'static MemoryKind>> = Mutex::new(Vec::new());

fn kinds() -> MutexGuard<'static, Vec<&'static MemoryKind>> {
    gasnet_sys::lock(&KINDS)
}

fn index_of(kinds: &[&'static MemoryKind], handle: usize) -> Option<usize> {
    kinds
        .iter()
        .position(|&kind| std::ptr::from_ref(kind) as usize == handle)
}

impl MemoryKind {
    /// Makes a kind of an open driver.
    pub fn register(driver: Box<dyn Driver>) -> &'static Self {
        let kind: &'static Self = Box::leak(Box::new(Self {
            driver,
            segments: AtomicUsize::new(0),
        }));
        kinds().push(kind);
        kind
    }

    /// The kind with this handle, counted as used by one more segment until
    /// [`MemoryKind::release`]. None if there is no such kind.
    pub fn hold(handle: usize) -> Option<&'static Self> {
        let kinds = kinds();
        let kind = kinds[index_of(&kinds, handle)?];
        kind.segments.fetch_add(1, Ordering::Relaxed);
        Some(kind)
    }

    /// A segment is gone.
    pub fn release(&self) {
        self.segments.fetch_sub(1, Ordering::Relaxed);
    }

    /// Ends the kind with this handle. The error is the reason why it stays.
    pub fn destroy(handle: usize) -> Result<(), String> {
        let mut kinds = kinds();
        let index = index_of(&kinds, handle).ok_or("it is not a memory kind that exists")?;
        let kind = kinds[index];
        match kind.segments.load(Ordering::Relaxed) {
            0 => {}
            1 => return Err(format!("a segment of {kind} still exists; destroy it first")),
            n => return Err(format!("{n} segments of {kind} still exist; destroy them first")),
        }
        kinds.swap_remove(index);
        // SAFETY: leaked from a Box by `register`, no longer in the list, and no segment refers to
        // it.
        let kind = unsafe { Box::from_raw(std::ptr::from_ref(kind).cast_mut()) };
        kind.driver.close();
        Ok(())
    }

    /// See [`Driver`].
    pub fn driver(&self) -> &dyn Driver {
        &*self.driver
    }
}

/// An address and its device.
#[derive(Clone, Copy, Debug)]
pub struct MemRef {
    /// The device; none for host memory.
    pub kind: Option<&'static MemoryKind>,
    /// As the host or the device names it.
    pub address: usize,
}

impl fmt::Display for MemRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            None => write!(f, "host memory at {:#x}", self.address),
            Some(kind) => write!(f, "memory of {kind} at {:#x}", self.address),
        }
    }
}

/// Bytes that pass through host memory at a time between devices that have no direct way.
const STAGE: usize = 1 << 20;

impl MemRef {
    /// Host memory.
    #[inline]
    pub fn host(address: *const u8) -> Self {
        Self {
            kind: None,
            address: address as usize,
        }
    }

    /// The memory `bytes` further.
    #[inline]
    #[must_use]
    pub fn plus(self, bytes: usize) -> Self {
        Self {
            address: self.address.wrapping_add(bytes),
            ..self
        }
    }

    /// Address at which the host can read the next `bytes`: at their index, or in `bounce`, to
    /// which they are copied.
    ///
    /// # Safety
    /// The bytes are valid.
    pub unsafe fn readable(self, bytes: usize, bounce: &mut Vec<u8>) -> *const u8 {
        if self.kind.is_none() {
            return self.address as *const u8;
        }
        bounce.resize(bytes, 0);
        // SAFETY: valid by contract; `bounce` has room.
        unsafe { copy(Self::host(bounce.as_ptr()), self, bytes) };
        bounce.as_ptr()
    }

    /// Arguments and a copy of the next `bytes`, if recordings contain payloads.
    ///
    /// # Safety
    /// The bytes are valid, and may be written by others only as data races that the client
    /// accepts.
    #[cold]
    pub unsafe fn recorded(self, args: &[i32], bytes: usize) -> Option<Vec<u8>> {
        if !recorder::wants_payload() {
            return None;
        }
        let mut contents: Vec<_> = args.iter().flat_map(|arg| arg.to_ne_bytes()).collect();
        let first = contents.len();
        contents.resize(first + bytes, 0);
        if bytes > 0 {
            // SAFETY: valid by contract; `contents` has room.
            unsafe { copy(Self::host(contents[first..].as_mut_ptr()), self, bytes) };
        }
        Some(contents)
    }
}

/// Copies `bytes` bytes (not 0); complete at return. Host to host as [`copy::copy`]. Ends the job
/// when a device fails.
///
/// # Safety
/// Both ranges are valid, and may be written by others only as data races that the client accepts.
#[inline]
pub unsafe fn copy(to: MemRef, from: MemRef, bytes: usize) {
    if to.kind.is_none() && from.kind.is_none() {
        // SAFETY: by contract.
        return unsafe { copy::copy(to.address as *mut u8, from.address as *const u8, bytes) };
    }
    // SAFETY: by contract.
    if let Err(why) = unsafe { copy_with_device(to, from, bytes) } {
        failed(to, from, bytes, &why);
    }
}

/// # Safety
/// As [`copy()`].
unsafe fn copy_with_device(to: MemRef, from: MemRef, bytes: usize) -> Result<(), String> {
    match (to.kind, from.kind) {
        (None, None) => Ok(()),
        // SAFETY: by contract.
        (Some(device), None) => unsafe { device.driver.write(to.address, from.address as *const u8, bytes) },
        // SAFETY: by contract.
        (None, Some(device)) => unsafe { device.driver.read(to.address as *mut u8, from.address, bytes) },
        (Some(target), Some(source)) => {
            // SAFETY: by contract.
            let direct = unsafe {
                target
                    .driver
                    .copy(to.address, source.driver.owner(), from.address, bytes)
            };
            // SAFETY: by contract.
            direct.unwrap_or_else(|| unsafe { stage((target, to.address), (source, from.address), bytes) })
        }
    }
}

/// # Safety
/// As [`copy()`].
unsafe fn stage(to: (&MemoryKind, usize), from: (&MemoryKind, usize), bytes: usize) -> Result<(), String> {
    let mut buffer = vec![0_u8; bytes.min(STAGE)];
    let mut done = 0;
    while done < bytes {
        let piece = (bytes - done).min(STAGE);
        // SAFETY: by contract; the buffer has room for a piece.
        unsafe { from.0.driver.read(buffer.as_mut_ptr(), from.1 + done, piece) }?;
        // SAFETY: by contract.
        unsafe { to.0.driver.write(to.1 + done, buffer.as_ptr(), piece) }?;
        done += piece;
    }
    Ok(())
}

#[cold]
fn failed(to: MemRef, from: MemRef, bytes: usize, why: &str) -> ! {
    fatal!(
        "rank {}: cannot copy {bytes} bytes from {from} to {to}: {why}. An error of an earlier kernel, or \
         memory that was freed, is the usual cause; the vendor's checker (compute-sanitizer, rocgdb) finds either.",
        crate::runtime::get().rank
    )
}

#[cfg(test)]
pub mod tests;
