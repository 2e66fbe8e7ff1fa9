//! Completion queues and their channels.

use super::made::{CompletionChannel, CompletionQueue, Made};
use super::{Context, Errno, Functions};
use gasnet_ibv_abi as abi;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::Arc;

/// A completion.
pub type Wc = abi::ibv_wc;

/// Wakes threads that sleep until a queue has a completion.
pub struct Channel {
    library: &'static Functions,
    made: CompletionChannel,
}

impl Channel {
    /// A new one, which does not block.
    pub fn new(context: &Context) -> Result<Self, Errno> {
        let library = context.library;
        // SAFETY: an open device.
        let raw = unsafe { (library.create_comp_channel)(context.raw()) };
        // SAFETY: just made, or null.
        let made = unsafe { Made::new(raw, library.destroy_comp_channel, Arc::clone(&context.opened))? };
        let made = Arc::new(made);
        let channel = Self { library, made };
        gasnet_sys::fd::set_nonblocking(&channel.fd()).map_err(|why| Errno(why.raw_os_error().unwrap_or(0)))?;
        Ok(channel)
    }

    /// Readable after an event.
    pub fn fd(&self) -> RawFd {
        // SAFETY: a channel.
        unsafe { (*self.made.raw()).fd }
    }

    /// Takes all events. Whether there were any.
    pub fn drain(&self) -> bool {
        let mut had_some = false;
        let (mut queue, mut context) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: a channel that does not block, and writable memory.
        while unsafe { (self.library.get_cq_event)(self.made.raw(), &raw mut queue, &raw mut context) } == 0 {
            // SAFETY: the queue of the event.
            unsafe { (self.library.ack_cq_events)(queue, 1) };
            had_some = true;
        }
        had_some
    }
}

type Poll = unsafe extern "C" fn(*mut abi::ibv_cq, i32, *mut Wc) -> i32;

/// A completion queue.
pub struct Queue {
    pub(super) made: CompletionQueue,
    /// The same, for the fast path.
    raw: *mut abi::ibv_cq,
    poll: Poll,
    notify: unsafe extern "C" fn(*mut abi::ibv_cq, i32) -> i32,
}

// SAFETY: verbs may be called by any thread.
unsafe impl Send for Queue {}
// SAFETY: as above.
unsafe impl Sync for Queue {}

impl Queue {
    /// A queue of at least `length` completions, whose events go to a channel.
    pub fn new(context: &Context, completions: usize, channel: Option<&Channel>) -> Result<Self, Errno> {
        let library = context.library;
        let channel = channel.map(|channel| Arc::clone(&channel.made));
        let its_channel = channel.as_ref().map_or(ptr::null_mut(), |channel| channel.raw());
        let count = completions as i32;
        // SAFETY: an open device, and a channel of it or none.
        let raw = unsafe { (library.create_cq)(context.raw(), count, ptr::null_mut(), its_channel, 0) };
        let parents = (Arc::clone(&context.opened), channel);
        // SAFETY: just made, or null.
        let made = Arc::new(unsafe { Made::new(raw, library.destroy_cq, parents)? });
        let ops = context.ops();
        let (Some(poll), Some(notify)) = (ops.poll_cq, ops.req_notify_cq) else {
            panic!("defect: a device without ibv_poll_cq");
        };
        Ok(Self {
            made,
            raw,
            poll,
            notify,
        })
    }

    /// Takes completions.
    #[inline]
    pub fn poll<'a>(&self, room: &'a mut [MaybeUninit<Wc>]) -> Result<&'a [Wc], Errno> {
        // SAFETY: a queue, and room for as many.
        let count = unsafe { (self.poll)(self.raw, room.len() as i32, room.as_mut_ptr().cast()) };
        let count = usize::try_from(count).map_err(|_| Errno(libc::EIO))?;
        // SAFETY: the call has filled as many.
        Ok(unsafe { std::slice::from_raw_parts(room.as_ptr().cast(), count) })
    }

    /// Takes completions of the next of several queues that has some, after the one polled last.
    pub fn poll_next<'a>(
        queues: &[Self],
        last: &mut usize,
        room: &'a mut [MaybeUninit<Wc>],
    ) -> Result<&'a [Wc], Errno> {
        let mut found = 0;
        for _ in 0..queues.len() {
            *last = (*last + 1) % queues.len();
            found = queues[*last].poll(room)?.len();
            if found > 0 {
                break;
            }
        }
        // SAFETY: the last call has filled as many.
        Ok(unsafe { std::slice::from_raw_parts(room.as_ptr().cast(), found) })
    }

    /// Makes the next completion an event of the channel.
    pub fn arm(&self) -> Result<(), Errno> {
        // SAFETY: a queue.
        Errno::check(unsafe { (self.notify)(self.raw, 0) })
    }
}
