//! From a ring record or a packet to a running handler.
//!
//! A header is copied out once and checked; only the copy is used.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::sync::OnceLock;

use super::internal;
use super::segment_head::Head;
use super::table::{AmEntry, INDEX_BASE};
use super::token::Token;
use super::wire::{self, Carrier, Payload};
use super::{kind, payload_offset, AmCategory, Arg, Header, Message, HEADER, IN_PLACE, MAX_ARGS};
use crate::mk::{self, MemRef};
use crate::runtime::{self, Runtime};
use crate::segment::reach;
use crate::shm::comm::{Disposal, Sink};
use crate::shm::memory::UNIT;
use crate::shm::ring::Word;
use crate::thread::{self, Context, Thread};
use crate::trace::{
    self,
    recorder::{self, Call},
    EventKind,
};
use crate::types::{EpIndex, Location, ANYWHERE};
use gasnet_conduit::{Class, Completion, Cookie, JobRank, Upcalls};
use gasnet_job::counters::HandlerWord;

const CHECKED: bool = cfg!(feature = "debug-checks");
/// Flag of the header of a run without a message of its own ([`run_reply`]), which is not recorded.
const UNSENT: u8 = 1;

/// How a message came, and from whom.
#[derive(Clone, Copy)]
struct Arrival {
    carrier: Carrier,
    class: Class,
    source: JobRank,
}

/// A message whose header was checked.
#[derive(Clone, Copy)]
struct ReceivedMessage {
    header: Header,
    category: AmCategory,
    class: Class,
    source: JobRank,
    args: [Arg; MAX_ARGS],
    nargs: usize,
    payload: *mut u8,
    /// The sender's block that holds the payload, to be freed.
    block: Option<u16>,
}

/// Acknowledges what the thread has not yet acknowledged, see [`super::acknowledge`].
#[inline(always)]
pub fn acknowledge(thread: &Thread) {
    if !thread.unacknowledged.is_empty() {
        if let Some(hooks) = HOOKS.get() {
            (hooks.acknowledge)(thread);
        }
    }
}

/// Functions of higher modules for reports of the conduit other than packets.
#[derive(Clone, Copy, Debug)]
pub struct Hooks {
    /// Acknowledges what the thread has not yet acknowledged.
    pub acknowledge: fn(&Thread),
    /// A part of an operation is complete.
    pub done: fn(Cookie, Completion),
    /// A round of the conduit's barrier has ended.
    pub barrier: fn([u64; 2]),
}

static HOOKS: OnceLock<Hooks> = OnceLock::new();

/// Registers them.
pub fn set_hooks(hooks: Hooks) {
    let _ = HOOKS.set(hooks);
}

/// Handles the messages of one poll.
pub struct Delivery<'a> {
    rt: &'a Runtime,
    copied: Option<ReceivedMessage>,
}

impl<'a> Delivery<'a> {
    /// For one poll.
    pub fn new(rt: &'a Runtime) -> Self {
        Self { rt, copied: None }
    }

    #[cold]
    fn malformed(&self, source: JobRank, what: &str) -> ! {
        fatal!(
            "rank {} received a malformed message from rank {source}: {what}. The memory of rank {source} is corrupt, \
            or the two \
             ranks run different versions of libgasnet.",
            self.rt.rank
        )
    }

    /// Reads the header and the arguments at `bytes`, of which `length` are there, and finds where
    /// the payload is.
    ///
    /// # Safety
    /// `bytes` is aligned to 8 and readable for `length`.
    #[inline(always)]
    unsafe fn parse(&self, arrival: Arrival, word: Word, bytes: *mut u8, length: usize) -> (ReceivedMessage, Payload) {
        let Arrival { carrier, class, source } = arrival;
        let (category, nargs) =
            wire::shape(word.kind, word.small, length).unwrap_or_else(|what| self.malformed(source, what));
        // SAFETY: the header is inside `length`; the sender may still write it, so it is copied
        // once and only the copy is used.
        let header = unsafe { bytes.cast::<Header>().read_volatile() };
        let mut args = [0; MAX_ARGS];
        // Records are units: copying all of the first one saves a call.
        let at_once = if carrier == Carrier::Record {
            (UNIT - HEADER) / size_of::<Arg>()
        } else {
            0
        };
        // SAFETY: inside the first unit, and fewer than MAX_ARGS.
        unsafe { ptr::copy_nonoverlapping(bytes.add(HEADER).cast::<Arg>(), args.as_mut_ptr(), at_once) };
        if nargs > at_once {
            // SAFETY: `nargs` arguments are inside `length` (checked) and fit `args`.
            unsafe { ptr::copy_nonoverlapping(bytes.add(HEADER).cast::<Arg>(), args.as_mut_ptr(), nargs) };
        }
        let place = wire::payload(carrier, word.kind, nargs, &header, length)
            .unwrap_or_else(|what| self.malformed(source, what));
        let arrived = ReceivedMessage {
            header,
            category,
            class,
            source,
            args,
            nargs,
            // Means something only for a payload in place.
            payload: bytes.wrapping_add(payload_offset(nargs)),
            block: None,
        };
        (arrived, place)
    }

    /// Copies the payload of a Long that travelled in its message to its destination.
    #[inline]
    fn copy_long_payload(&self, m: &ReceivedMessage) {
        let (bytes, destination) = (m.header.bytes as usize, m.header.destination as usize);
        if m.category != AmCategory::Long || bytes == 0 {
            return;
        }
        let to = self.rt.admit(m.source, m.header.target_ep, destination, bytes);
        // SAFETY: the destination is one that the sender may name; the payload lies in the message.
        reach::serving(m.source, m.header.target_ep, destination, bytes, || unsafe {
            mk::copy(to, MemRef::host(m.payload), bytes);
        });
    }

    /// Checks the destination of a Long whose payload did not travel in its message: the handler
    /// gets its address.
    #[inline]
    fn check_destination(&self, m: &ReceivedMessage) {
        let (bytes, destination) = (m.header.bytes as usize, m.header.destination as usize);
        if bytes > 0 {
            self.rt.admit(m.source, m.header.target_ep, destination, bytes);
        }
    }

    /// Runs the handler of a message of this process to itself, whose payload is at `payload`, or
    /// at its destination.
    pub fn run_loopback(&self, m: &Message<'_>, header: Header, payload: *mut u8) {
        let mut message = ReceivedMessage {
            header,
            category: m.category,
            class: m.class,
            source: self.rt.rank,
            args: [0; MAX_ARGS],
            nargs: m.args.len(),
            payload,
            block: None,
        };
        message.args[..m.args.len()].copy_from_slice(m.args);
        self.run_client(&message);
    }

    fn run_client(&self, m: &ReceivedMessage) {
        let Some(endpoint) = self.rt.endpoint(m.header.target_ep & !ANYWHERE) else {
            self.no_endpoint(m)
        };
        // An endpoint that registers nothing at an index has the primordial one's handler there.
        let entry = endpoint
            .handlers
            .get(m.header.handler)
            .or_else(|| self.rt.endpoint0.handlers.get(m.header.handler));
        let Some(entry) = entry else { self.no_handler(m) };
        if CHECKED && !entry.accepts(m.class, m.category, m.nargs) {
            self.other_handler(m, entry);
        }
        let token = Token {
            source: Location {
                rank: m.source,
                ep: m.header.source_ep,
            },
            target_ep: m.header.target_ep & !ANYWHERE,
            entry: Some(ptr::from_ref(entry)),
            class: m.class,
            category: m.category,
            replied: Cell::new(false),
        };
        let context = if m.class == Class::Request {
            acknowledge(thread::current());
            Context::RequestHandler
        } else {
            Context::ReplyHandler
        };
        let recorder = thread::current().recorder.get();
        let handler = HandlerWord {
            index: m.header.handler,
            source: m.source.0,
        };
        recorder.handles(m.class, m.category, m.header.bytes, handler);
        let run = || {
            let buffer = match m.category {
                AmCategory::Short => None,
                AmCategory::Medium => Some((m.payload.cast::<c_void>(), m.header.bytes as usize)),
                AmCategory::Long => Some((m.header.destination as *mut c_void, m.header.bytes as usize)),
            };
            let known = &thread::current().token;
            let outer = if CHECKED {
                known.replace(&raw const token)
            } else {
                ptr::null()
            };
            // SAFETY: the client registered this function for this category and number of arguments
            // (checked in the debug flavour).
            unsafe { call(entry, &token, buffer, &m.args[..m.nargs]) };
            if CHECKED {
                known.set(outer);
            }
        };
        let run = || thread::current().in_handler(context, entry.name, m.header.handler, run);
        if trace::wants(trace::TraceCategory::Message) {
            self.run_recorded(m, entry, run);
        } else {
            run();
        }
        recorder.handled(m.class);
    }

    /// Runs a handler, and records that. What it is given is read before: it may write there.
    #[cold]
    #[inline(never)]
    fn run_recorded(&self, m: &ReceivedMessage, entry: &AmEntry, run: impl FnOnce()) {
        let began = trace::clock(trace::TraceCategory::Message);
        let (from, bytes) = match m.category {
            AmCategory::Short => (MemRef::host(ptr::null()), 0),
            AmCategory::Medium => (MemRef::host(m.payload), m.header.bytes as usize),
            AmCategory::Long => {
                let (to, bytes) = (m.header.destination as *const u8, m.header.bytes as usize);
                (self.rt.local_mem(m.header.target_ep, to, bytes), bytes)
            }
        };
        // SAFETY: the payload, which the handler gets.
        let contents = unsafe { from.recorded(&m.args[..m.nargs], bytes) };
        run();
        ran(began, m, bytes, entry, contents.as_deref());
    }

    #[cold]
    fn no_endpoint(&self, m: &ReceivedMessage) -> ! {
        fatal!(
            "rank {}: an AM {:?} {:?} came from rank {} for endpoint {}, which does not exist here. Create it with \
             gex_EP_Create, and synchronise before the first message.",
            self.rt.rank,
            m.category,
            m.class,
            m.source,
            m.header.target_ep & !ANYWHERE
        );
    }

    #[cold]
    fn no_handler(&self, m: &ReceivedMessage) -> ! {
        fatal!(
            "rank {}: an AM {:?} {:?} with {} arguments came from rank {} for handler {}, but no handler is registered \
             there. Register it with gex_EP_RegisterHandlers on every rank, and synchronise before the first message.",
            self.rt.rank,
            m.category,
            m.class,
            m.nargs,
            m.source,
            m.header.handler
        );
    }

    #[cold]
    fn other_handler(&self, m: &ReceivedMessage, entry: &AmEntry) -> ! {
        fatal!(
            "rank {}: an AM {:?} {:?} with {} arguments came from rank {} for handler {} ({}), which was registered \
             with flags {:#x} for {} arguments.",
            self.rt.rank,
            m.category,
            m.class,
            m.nargs,
            m.source,
            m.header.handler,
            handler_name(entry),
            entry.flags,
            entry.nargs
        );
    }

    #[inline(always)]
    fn dispatch(&self, m: &ReceivedMessage) {
        if m.header.handler < INDEX_BASE {
            self.run_internal(m);
        } else {
            self.run_client(m);
        }
    }

    fn run_internal(&self, m: &ReceivedMessage) {
        let began = trace::clock(trace::TraceCategory::Internal);
        let source = Location {
            rank: m.source,
            ep: m.header.source_ep,
        };
        let token = Token {
            source,
            target_ep: m.header.target_ep,
            entry: None,
            class: m.class,
            category: m.category,
            replied: Cell::new(false),
        };
        if !internal::run(
            m.header.handler,
            &token,
            &m.args[..m.nargs],
            m.payload,
            m.header.bytes as usize,
        ) {
            self.malformed(m.source, "unknown internal handler or bad arguments");
        }
        if began != 0 {
            let event = trace::TraceEvent::new(EventKind::InternalRan, began)
                .to(m.source, m.header.bytes as usize)
                .until_now();
            trace::record(&event.with_fields(format_args!(" handler={}", m.header.handler)));
        }
    }
}

/// Records that a client's handler ran from `began` until now.
#[cold]
fn ran(began: u64, m: &ReceivedMessage, bytes: usize, entry: &AmEntry, contents: Option<&[u8]>) {
    let kind = match (m.class, m.category) {
        (Class::Request, AmCategory::Short) => EventKind::RanRequestShort,
        (Class::Request, AmCategory::Medium) => EventKind::RanRequestMedium,
        (Class::Request, AmCategory::Long) => EventKind::RanRequestLong,
        (Class::Reply, AmCategory::Short) => EventKind::RanReplyShort,
        (Class::Reply, AmCategory::Medium) => EventKind::RanReplyMedium,
        (Class::Reply, AmCategory::Long) => EventKind::RanReplyLong,
    };
    if m.header.flags & UNSENT == 0 {
        let call = Call {
            code: m.header.handler,
            flags: m.nargs as u8,
            ..Call::new(kind).to(m.source, bytes)
        };
        recorder::write_with(&call, contents);
    }
    if !trace::is_timed(began) {
        return;
    }
    trace::record(
        &trace::TraceEvent::new(kind, began)
            .to(m.source, bytes)
            .until_now()
            .with_fields(format_args!(
                " handler={} nargs={} name={}",
                m.header.handler,
                m.nargs,
                trace::OneWord(handler_name(entry).as_bytes())
            ))
            .with_details(format_args!(
                " ep={} dest={:#x} args={}",
                m.header.target_ep,
                m.header.destination,
                trace::NumberList(&m.args[..m.nargs])
            )),
    );
}

/// Runs a client's Medium reply handler without arguments for `source`, on a payload that did not
/// travel as a message of its own. Fatal if there is no such handler.
pub fn run_reply(source: Location, target_ep: EpIndex, handler: u8, payload: *mut u8, bytes: usize) {
    let header = Header {
        word: u32::from(kind::MEDIUM),
        handler,
        flags: UNSENT,
        target_ep,
        bytes: bytes as u32,
        source_ep: source.ep,
        block: IN_PLACE,
        destination: 0,
    };
    let message = ReceivedMessage {
        header,
        category: AmCategory::Medium,
        class: Class::Reply,
        source: source.rank,
        args: [0; MAX_ARGS],
        nargs: 0,
        payload,
        block: None,
    };
    Delivery::new(runtime::get()).run_client(&message);
}

/// Runs the handler of a segmented message whose payload was assembled at `payload`.
pub fn run_assembled(source: JobRank, class: Class, head: &Head, payload: *mut u8) {
    let is_long = head.header.word as u8 == kind::PACKED_LONG;
    let message = ReceivedMessage {
        header: head.header,
        category: if is_long { AmCategory::Long } else { AmCategory::Medium },
        class,
        source,
        args: head.args,
        nargs: head.header.nargs(),
        payload,
        block: None,
    };
    let delivery = Delivery::new(runtime::get());
    delivery.copy_long_payload(&message);
    delivery.dispatch(&message);
}

/// Runs the handler of a segmented Long, after all of its data was copied.
pub fn run_long(source: JobRank, class: Class, head: &Head) {
    let message = ReceivedMessage {
        header: head.header,
        category: AmCategory::Long,
        class,
        source,
        args: head.args,
        nargs: head.header.nargs(),
        payload: ptr::null_mut(),
        block: None,
    };
    Delivery::new(runtime::get()).run_client(&message);
}

fn handler_name(entry: &AmEntry) -> String {
    if entry.name.is_null() {
        return "unnamed".into();
    }
    // SAFETY: the client's `gex_name` is a NUL-terminated string that it keeps alive while
    // registered.
    unsafe { std::ffi::CStr::from_ptr(entry.name) }
        .to_string_lossy()
        .into_owned()
}

impl Sink for Delivery<'_> {
    #[inline]
    fn record(&mut self, source: usize, class: Class, word: Word, record: *mut u8) -> Disposal {
        let rank = self.rt.nbrhd_rank(source);
        let length = usize::from(word.units) * UNIT;
        let arrival = Arrival {
            carrier: Carrier::Record,
            class,
            source: rank,
        };
        // SAFETY: records are 64-byte aligned and of `units` units, inside the ring.
        let (mut m, place) = unsafe { self.parse(arrival, word, record, length) };
        match place {
            Payload::InPlace => {
                self.copy_long_payload(&m);
                self.dispatch(&m);
                return Disposal::Done;
            }
            Payload::Block(block) => {
                let blocks = self.rt.comm.blocks(source, class);
                if !blocks.holds(block, m.header.bytes as usize) {
                    self.malformed(rank, "a payload outside its block");
                }
                m.payload = blocks.payload(block);
                m.block = Some(block);
            }
            Payload::None => self.check_destination(&m),
        }
        self.copied = Some(m);
        Disposal::RunAfterwards
    }

    #[inline]
    fn run(&mut self) {
        if let Some(m) = &self.copied {
            if m.block.is_some() {
                self.copy_long_payload(m);
            }
            self.dispatch(m);
            if let Some(block) = m.block {
                self.rt.comm.blocks(self.rt.nbrhd_index(m.source), m.class).free(block);
            }
        }
        self.copied = None;
    }

    fn corrupt(&mut self, source: usize) -> ! {
        self.malformed(self.rt.nbrhd_rank(source), "a record that leaves its ring")
    }
}

impl Upcalls for Delivery<'_> {
    fn packet(&mut self, source: JobRank, class: Class, packet: &mut [u8]) {
        if packet.len() < HEADER || source.0 >= self.rt.size {
            self.malformed(source, "too short");
        }
        let word = Word {
            kind: packet[0],
            small: packet[1],
            units: 0,
        };
        let arrival = Arrival {
            carrier: Carrier::Packet,
            class,
            source,
        };
        // SAFETY: the conduit's packets are aligned (`PACKET_ALIGN`); the length was checked.
        let (m, place) = unsafe { self.parse(arrival, word, packet.as_mut_ptr(), packet.len()) };
        if place == Payload::InPlace {
            self.copy_long_payload(&m);
        } else {
            self.check_destination(&m);
        }
        self.dispatch(&m);
    }

    #[inline]
    fn done(&mut self, cookie: Cookie, part: Completion) {
        if let Some(hooks) = HOOKS.get() {
            (hooks.done)(cookie, part);
        }
    }

    fn barrier(&mut self, words: [u64; 2]) {
        if let Some(hooks) = HOOKS.get() {
            (hooks.barrier)(words);
        }
    }

    fn peer_lost(&mut self, peer: JobRank, why: &str) {
        runtime::lost(Some(peer), why);
    }

    fn network_lost(&mut self, why: &str) {
        runtime::lost(None, why);
    }
}

type Raw = unsafe extern "C-unwind" fn();

macro_rules! dispatch {
    ($function:expr, $token:expr, $buffer:expr, $args:expr; $($n:literal => ($($i:literal)*)),* $(,)?) => {
        match $args.len() {
            $($n => {
                dispatch!(@call $function, $token, $buffer, $args, ($($i)*));
            })*
            // More than MAX_ARGS never passes `parse`.
            _ => {}
        }
    };
    (@call $function:expr, $token:expr, $buffer:expr, $args:expr, ($($i:literal)*)) => {
        match $buffer {
            None => {
                // SAFETY: by `call`'s contract the function has this signature.
                let f = unsafe {
                    std::mem::transmute::<
                        Raw,
                        unsafe extern "C-unwind" fn(*const Token $(, dispatch!(@arg $i))*),
                    >($function)
                };
                // SAFETY: as above.
                unsafe { f($token $(, $args[$i])*) }
            }
            Some((buffer, bytes)) => {
                // SAFETY: by `call`'s contract the function has this signature.
                let f = unsafe {
                    std::mem::transmute::<
                        Raw,
                        unsafe extern "C-unwind" fn(*const Token, *mut c_void, usize $(, dispatch!(@arg $i))*),
                    >($function)
                };
                // SAFETY: as above.
                unsafe { f($token, buffer, bytes $(, $args[$i])*) }
            }
        }
    };
    (@arg $i:literal) => { Arg };
}

/// Calls a client's handler. A foreign exception that leaves it ends the process (`panic =
/// "abort"`), with the handler's name.
///
/// # Safety
/// `entry.function` has the signature of a handler with `args.len()` arguments, with a buffer if
/// `buffer` is given.
#[inline]
unsafe fn call(entry: &AmEntry, token: &Token, buffer: Option<(*mut c_void, usize)>, args: &[Arg]) {
    let Some(function) = entry.function else { return };
    let token: *const Token = token;
    dispatch!(function, token, buffer, args;
        0 => (), 1 => (0), 2 => (0 1), 3 => (0 1 2), 4 => (0 1 2 3), 5 => (0 1 2 3 4),
                6 => (0 1 2 3 4 5), 7 => (0 1 2 3 4 5 6),
        8 => (0 1 2 3 4 5 6 7), 9 => (0 1 2 3 4 5 6 7 8), 10 => (0 1 2 3 4 5 6 7 8 9), 11 => (0 1 2 3 4 5 6 7 8 9 10),
        12 => (0 1 2 3 4 5 6 7 8 9 10 11), 13 => (0 1 2 3 4 5 6 7 8 9 10 11 12),
                14 => (0 1 2 3 4 5 6 7 8 9 10 11 12 13),
        15 => (0 1 2 3 4 5 6 7 8 9 10 11 12 13 14), 16 => (0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15));
}
