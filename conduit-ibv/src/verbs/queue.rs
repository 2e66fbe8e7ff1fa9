//! Completion queues and their channels.

use super::{Context, Errno, Functions};
use gasnet_ibv_abi as ffi;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::ptr::{self, NonNull};

/// A completion.
pub type Wc = ffi::ibv_wc;

/// Wakes threads that sleep until a queue has a completion.
pub struct Channel {
    library: &'static Functions,
    raw: NonNull<ffi::ibv_comp_channel>,
}

// SAFETY: verbs may be called by any thread.
unsafe impl Send for Channel {}
// SAFETY: as above.
unsafe impl Sync for Channel {}

impl Channel {
    /// A new one, which does not block.
    pub fn new(context: &Context) -> Result<Self, Errno> {
        let library = context.library;
        // SAFETY: an open device.
        let raw = unsafe { (library.create_comp_channel)(context.raw.as_ptr()) };
        let raw = NonNull::new(raw).ok_or_else(Errno::last)?;
        let channel = Self { library, raw };
        gasnet_sys::fd::set_nonblocking(&channel.fd()).map_err(|why| Errno(why.raw_os_error().unwrap_or(0)))?;
        Ok(channel)
    }

    /// Readable after an event.
    pub fn fd(&self) -> RawFd {
        // SAFETY: a channel.
        unsafe { (*self.raw.as_ptr()).fd }
    }

    /// Takes all events. Whether there were any.
    pub fn drain(&self) -> bool {
        let mut had_some = false;
        let (mut queue, mut context) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: a channel that does not block, and writable memory.
        while unsafe { (self.library.get_cq_event)(self.raw.as_ptr(), &raw mut queue, &raw mut context) } == 0 {
            // SAFETY: the queue of the event.
            unsafe { (self.library.ack_cq_events)(queue, 1) };
            had_some = true;
        }
        had_some
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: its queues are gone, as the module requires.
        unsafe { (self.library.destroy_comp_channel)(self.raw.as_ptr()) };
    }
}

type Poll = unsafe extern "C" fn(*mut ffi::ibv_cq, i32, *mut Wc) -> i32;

/// A completion queue.
pub struct Queue {
    library: &'static Functions,
    raw: NonNull<ffi::ibv_cq>,
    poll: Poll,
    notify: unsafe extern "C" fn(*mut ffi::ibv_cq, i32) -> i32,
}

// SAFETY: verbs may be called by any thread.
unsafe impl Send for Queue {}
// SAFETY: as above.
unsafe impl Sync for Queue {}

impl Queue {
    /// A queue of at least so many completions, whose events go to a channel.
    pub fn new(context: &Context, completions: usize, channel: Option<&Channel>) -> Result<Self, Errno> {
        let library = context.library;
        let channel = channel.map_or(ptr::null_mut(), |channel| channel.raw.as_ptr());
        let context_raw = context.raw.as_ptr();
        // SAFETY: an open device, and a channel of it or none.
        let raw = unsafe { (library.create_cq)(context_raw, completions as i32, ptr::null_mut(), channel, 0) };
        let raw = NonNull::new(raw).ok_or_else(Errno::last)?;
        let ops = context.ops();
        let (Some(poll), Some(notify)) = (ops.poll_cq, ops.req_notify_cq) else {
            panic!("defect: a device without ibv_poll_cq");
        };
        Ok(Self {
            library,
            raw,
            poll,
            notify,
        })
    }

    pub(super) fn raw(&self) -> *mut ffi::ibv_cq {
        self.raw.as_ptr()
    }

    /// Takes completions.
    #[inline]
    pub fn poll<'a>(&self, room: &'a mut [MaybeUninit<Wc>]) -> Result<&'a [Wc], Errno> {
        // SAFETY: a queue, and room for so many.
        let count = unsafe { (self.poll)(self.raw.as_ptr(), room.len() as i32, room.as_mut_ptr().cast()) };
        let count = usize::try_from(count).map_err(|_| Errno(libc::EIO))?;
        // SAFETY: the call has filled so many.
        Ok(unsafe { std::slice::from_raw_parts(room.as_ptr().cast(), count) })
    }

    /// Makes the next completion an event of the channel.
    pub fn arm(&self) -> Result<(), Errno> {
        // SAFETY: a queue.
        Errno::check(unsafe { (self.notify)(self.raw.as_ptr(), 0) })
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: what reports to it is gone, as the module requires.
        unsafe { (self.library.destroy_cq)(self.raw.as_ptr()) };
    }
}
