//! Active Messages: every request gets a reply, and both directions carry arguments and payloads
//! that are verified.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use super::{Random, Run};
use crate::abi::am::{
    reply_long, reply_medium, reply_short, request_long, request_medium, request_short, Long, Medium,
};
use crate::am::table::AmEntry;
use crate::am::token::Token;
use crate::am::{join, lub_medium, split, Arg};
use crate::flags::Flags;
use crate::progress;
use crate::rules::LC_NOW;
use gasnet_conduit::PollScope;

/// The handler table, into which the client's registration writes the indices.
struct Table(UnsafeCell<[AmEntry; 6]>);

// SAFETY: registration writes it before the first message; then it is only read.
unsafe impl Sync for Table {}

type AnyFn = unsafe extern "C-unwind" fn();

macro_rules! entry {
    ($function:ident: $type:ty, $flags:expr, $nargs:literal, $name:literal) => {
        AmEntry {
            index: 0,
            // SAFETY: the dispatcher calls it with the arguments of its category and count, which
            // match its type.
            function: Some(unsafe { std::mem::transmute::<$type, AnyFn>($function) }),
            flags: $flags,
            nargs: $nargs,
            cdata: ptr::null(),
            name: $name.as_ptr(),
        }
    };
}

type Sixteen = unsafe extern "C-unwind" fn(
    *const Token,
    Arg,
    Arg,
    Arg,
    Arg,
    Arg,
    Arg,
    Arg,
    Arg,
    Arg,
    Arg,
    Arg,
    Arg,
    Arg,
    Arg,
    Arg,
    Arg,
);
type One = unsafe extern "C-unwind" fn(*const Token, *mut c_void, usize, Arg);
type Three = unsafe extern "C-unwind" fn(*const Token, *mut c_void, usize, Arg, Arg, Arg);

static TABLE: Table = Table(UnsafeCell::new([
    entry!(on_short: Sixteen, Flags::AM_SHORT.with(Flags::AM_REQUEST), 16, c"diagnostic_short"),
    entry!(on_short_reply: Sixteen, Flags::AM_SHORT.with(Flags::AM_REPLY), 16, c"diagnostic_short_reply"),
    entry!(on_medium: One, Flags::AM_MEDIUM.with(Flags::AM_REQUEST), 1, c"diagnostic_medium"),
    entry!(on_medium_reply: One, Flags::AM_MEDIUM.with(Flags::AM_REPLY), 1, c"diagnostic_medium_reply"),
    entry!(on_long: Three, Flags::AM_LONG.with(Flags::AM_REQUEST), 3, c"diagnostic_long"),
    entry!(on_long_reply: Three, Flags::AM_LONG.with(Flags::AM_REPLY), 3, c"diagnostic_long_reply"),
]));

/// The table and its length, which the client registers.
pub fn handlers() -> (*mut AmEntry, usize) {
    let table = TABLE.0.get();
    (table.cast(), 6)
}

/// The registered index of entry `which`.
fn index(which: usize) -> u8 {
    // SAFETY: the client has registered the table; there are no more writes.
    unsafe { (*TABLE.0.get())[which].index }
}

/// Replies received, and messages with wrong contents.
static REPLIES: AtomicU32 = AtomicU32::new(0);
static WRONG: AtomicU32 = AtomicU32::new(0);

fn verify(good: bool) {
    if !good {
        WRONG.fetch_add(1, Ordering::Relaxed);
    }
}

macro_rules! sixteen {
    ($name:ident, $token:ident, $args:ident, $body:block) => {
        unsafe extern "C-unwind" fn $name(
            $token: *const Token,
            a: Arg,
            b: Arg,
            c: Arg,
            d: Arg,
            e: Arg,
            f: Arg,
            g: Arg,
            h: Arg,
            i: Arg,
            j: Arg,
            k: Arg,
            l: Arg,
            m: Arg,
            n: Arg,
            o: Arg,
            p: Arg,
        ) {
            let $args = [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p];
            $body
        }
    };
}

/// Sixteen different arguments, computed from the first.
fn arguments(first: Arg) -> [Arg; 16] {
    std::array::from_fn(|i| first.wrapping_add((i as Arg).wrapping_mul(0x0101_0101)))
}

sixteen!(on_short, token, args, {
    verify(args == arguments(args[0]));
    // SAFETY: the running handler's token.
    unsafe { reply_short(token, index(1), Flags::NONE, &arguments(!args[0])) };
});

sixteen!(on_short_reply, _token, args, {
    verify(args == arguments(args[0]));
    REPLIES.fetch_add(1, Ordering::Release);
});

/// Whether a payload is the pattern of `seed`.
///
/// # Safety
/// The payload is readable.
unsafe fn is_pattern(payload: *const c_void, bytes: usize, seed: Arg) -> bool {
    // SAFETY: by contract.
    bytes == 0 || unsafe { std::slice::from_raw_parts(payload.cast::<u8>(), bytes) } == pattern(bytes, seed)
}

fn pattern(bytes: usize, seed: Arg) -> Vec<u8> {
    Random(u64::from(seed as u32)).bytes(bytes)
}

unsafe extern "C-unwind" fn on_medium(token: *const Token, payload: *mut c_void, bytes: usize, seed: Arg) {
    // SAFETY: the payload of the message, and its token.
    unsafe {
        verify(is_pattern(payload, bytes, seed));
        let source = payload.cast_const().cast();
        reply_medium(token, index(3), Medium { source, bytes }, LC_NOW, Flags::NONE, &[seed]);
    }
}

unsafe extern "C-unwind" fn on_medium_reply(_token: *const Token, payload: *mut c_void, bytes: usize, seed: Arg) {
    // SAFETY: the payload of the message.
    verify(unsafe { is_pattern(payload, bytes, seed) });
    REPLIES.fetch_add(1, Ordering::Release);
}

unsafe extern "C-unwind" fn on_long(
    token: *const Token,
    payload: *mut c_void,
    bytes: usize,
    seed: Arg,
    high: Arg,
    low: Arg,
) {
    // SAFETY: the payload is in this segment, for this message alone; the sender chose the address
    // of the reply.
    unsafe {
        verify(is_pattern(payload, bytes, seed));
        let back = pattern(bytes, !seed);
        let payload = Long {
            source: back.as_ptr(),
            bytes,
            destination: join(high, low) as *mut u8,
        };
        reply_long(token, index(5), payload, LC_NOW, Flags::NONE, &[!seed, high, low]);
    }
}

unsafe extern "C-unwind" fn on_long_reply(
    _token: *const Token,
    payload: *mut c_void,
    bytes: usize,
    seed: Arg,
    high: Arg,
    low: Arg,
) {
    // SAFETY: as above.
    verify(unsafe { is_pattern(payload, bytes, seed) } && (bytes == 0 || payload as u64 == join(high, low)));
    REPLIES.fetch_add(1, Ordering::Release);
}

/// Sends `count` requests of each category from a thread, which uses part `me` of `of` of the
/// areas. Longs, if `of` is 1: one at a time.
fn send(run: &Run, me: usize, of: usize, count: u32) {
    // The first half of a segment receives request Longs, the second half the replies to this
    // rank's own.
    let (there, here) = (run.remote.part(0, 2).part(me, of), run.own.part(1, 2).part(me, of));
    let most_long = there.bytes.min(here.bytes).min(100_000);
    let most_medium = lub_medium();
    let mut random = Random(run.args.seed ^ (me as u64) << 40 ^ u64::from(run.rank.0));
    for i in 0..count {
        let first = random.word() as Arg;
        request_short(run.args.tm, run.args.peer, index(0), Flags::NONE, &arguments(first));
        let bytes = if i % 10 == 0 {
            most_medium
        } else {
            random.below(2000).min(most_medium)
        };
        let payload = pattern(bytes, first);
        // Lives until the call returns, which completes it locally.
        let source = payload.as_ptr();
        request_medium(
            run.args.tm,
            run.args.peer,
            index(2),
            Medium { source, bytes },
            LC_NOW,
            Flags::NONE,
            &[first],
        );
    }
    if of > 1 {
        return;
    }
    for i in 0..count {
        let bytes = if i % 10 == 0 {
            most_long
        } else {
            random.below(most_long + 1)
        };
        let (payload, seed) = (pattern(bytes, i as Arg), i as Arg);
        let [high, low] = split(here.base as u64);
        let payload = Long {
            source: payload.as_ptr(),
            bytes,
            destination: there.base as *mut u8,
        };
        request_long(
            run.args.tm,
            run.args.peer,
            index(4),
            payload,
            LC_NOW,
            Flags::NONE,
            &[seed, high, low],
        );
        // The next Long uses the same memory.
        wait_for(2 * count + i + 1);
    }
}

fn wait_for(replies: u32) {
    let mut empty_polls = 0u32;
    while REPLIES.load(Ordering::Acquire) < replies {
        if progress::poll(PollScope::All) == 0 {
            empty_polls += 1;
            if empty_polls % 64 == 0 {
                thread::yield_now();
            }
        }
    }
}

/// Whether the client has registered the handlers; a failed check otherwise.
fn registered(run: &Run) -> bool {
    let good = index(0) != 0;
    run.check(
        good,
        format_args!("the client has not registered the handlers of gasnett_diagnostic_gethandlers"),
    );
    good
}

fn finish(run: &Run, expected: u32) {
    wait_for(expected);
    // Other ranks may still send to this one.
    run.barrier();
    let (replies, wrong) = (REPLIES.swap(0, Ordering::AcqRel), WRONG.swap(0, Ordering::AcqRel));
    run.check(
        replies == expected,
        format_args!("{replies} replies to {expected} requests"),
    );
    run.check(wrong == 0, format_args!("{wrong} messages arrived with wrong contents"));
    run.barrier();
}

/// One thread per rank sends to the peer.
pub fn exchange(run: &Run) {
    if registered(run) {
        let count = (run.args.iterations / 5).max(1);
        send(run, 0, 1, count);
        finish(run, 3 * count);
    }
}

/// All threads of each rank send to the peer.
pub fn of_threads(run: &Run) {
    if !registered(run) {
        return;
    }
    let count = (run.args.iterations / 20).max(1);
    thread::scope(|scope| {
        for i in 0..run.args.threads {
            scope.spawn(move || send(run, i, run.args.threads.max(2), count));
        }
    });
    finish(run, 2 * count * run.args.threads as u32);
}
