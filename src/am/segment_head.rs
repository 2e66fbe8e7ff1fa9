//! The head of a message in segments: its header and arguments, which travel as a payload.

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{encode, Arg, Header, Message, HEADER, IN_PLACE, MAX_ARGS, MAX_LONG};

/// Identifier of the next segmented message of this process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Header and arguments of a segmented message.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// As the sender filled it.
    pub header: Header,
    /// Arguments; the header has their number.
    pub args: [Arg; MAX_ARGS],
}

/// Most bytes of an encoded head.
pub const MAX_HEAD: usize = HEADER + 4 * MAX_ARGS;

impl Head {
    /// The head of `message` as bytes, and their number.
    pub fn encode(message: &Message<'_>, kind: u8) -> ([u8; MAX_HEAD], usize) {
        let mut head = [0u8; MAX_HEAD];
        let header = encode::head(message, kind, IN_PLACE);
        // SAFETY: the array has room for a header and all arguments.
        unsafe { ptr::copy_nonoverlapping(ptr::from_ref(&header).cast(), head.as_mut_ptr(), HEADER) };
        // SAFETY: the bytes of the arguments.
        let args: &[u8] = unsafe { std::slice::from_raw_parts(message.args.as_ptr().cast(), 4 * message.args.len()) };
        head[HEADER..HEADER + args.len()].copy_from_slice(args);
        (head, HEADER + args.len())
    }

    /// Decodes the `bytes` bytes at `payload`; None if they are malformed.
    pub fn decode(payload: *const u8, bytes: usize) -> Option<Self> {
        if !(HEADER..=MAX_HEAD).contains(&bytes) {
            return None;
        }
        // SAFETY: the payload has at least the bytes of a header, of which any are valid.
        let header = unsafe { payload.cast::<Header>().read_unaligned() };
        let mut args = [0; MAX_ARGS];
        let nargs = header.nargs();
        if bytes != HEADER + 4 * nargs {
            return None;
        }
        // SAFETY: `nargs` arguments follow the header, and `bytes` limits them to MAX_ARGS.
        unsafe { ptr::copy_nonoverlapping(payload.add(HEADER), args.as_mut_ptr().cast(), 4 * nargs) };
        Some(Self { header, args })
    }

    /// Whether it can be the head of a segmented Long.
    pub fn is_of_long(&self) -> bool {
        let total = self.header.bytes as usize;
        (1..=MAX_LONG).contains(&total) && self.header.is_for_client()
    }
}

/// An identifier for the next segmented message of this process.
pub fn next_id() -> Arg {
    NEXT.fetch_add(1, Ordering::Relaxed) as Arg
}
