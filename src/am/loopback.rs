//! Loopback AMs: the handler runs inside the sending call, which may run handlers anyway. No
//! message is queued.
//!
//! A reply's handler runs inside the request's handler. Reply handlers send nothing, so the
//! recursion ends there.

use std::ptr;

use super::deliver::Delivery;
use super::table::INDEX_BASE;
use super::{encode, kind, long, AmCategory, Message, IN_PLACE};
use crate::progress;
use crate::runtime::Runtime;
use crate::shm::layout::class_index;
use crate::thread;

/// Runs the handler of `m`, a message to this process, if it is a client's message and its payload
/// is accessible here. Returns false, with no effect, otherwise.
#[inline(never)]
pub fn deliver(rt: &Runtime, m: Message<'_>) -> bool {
    if m.handler < INDEX_BASE {
        return false;
    }
    match m.category {
        AmCategory::Short => run(rt, &m, kind::SHORT, ptr::null_mut()),
        AmCategory::Medium => medium(rt, &m),
        AmCategory::Long => {
            if m.bytes > 0 && !m.payload.is_null() {
                if !rt.can_touch(m.target) {
                    return false;
                }
                long::copy_mapped(rt, &m);
            }
            run(rt, &m, kind::LONG, ptr::null_mut());
        }
    }
    true
}

fn run(rt: &Runtime, m: &Message<'_>, kind: u8, payload: *mut u8) {
    let header = encode::head(m, kind, IN_PLACE);
    let _guard = progress::ParsyncGuard::enter();
    Delivery::new(rt).run_loopback(m, header, payload);
}

/// A handler may write to its payload, so it gets a copy; a prepared payload in a block is nobody
/// else's already.
fn medium(rt: &Runtime, m: &Message<'_>) {
    if let Some(block) = m.block {
        let blocks = rt.comm.pool(m.class).blocks();
        run(rt, m, kind::MEDIUM, blocks.payload(block));
        blocks.free(block);
        return;
    }
    // While the handler runs the buffer is its own.
    let kept = &thread::current().loopback_buffers[class_index(m.class)];
    let mut buffer = kept.take();
    let words = m.bytes.div_ceil(size_of::<u128>());
    if buffer.len() < words {
        buffer.resize(words, 0);
    }
    // SAFETY: the client answers for its payload, and the buffer is long enough.
    unsafe { ptr::copy_nonoverlapping(m.payload, buffer.as_mut_ptr().cast(), m.bytes) };
    run(rt, m, kind::MEDIUM, buffer.as_mut_ptr().cast());
    *kept.borrow_mut() = buffer;
}
