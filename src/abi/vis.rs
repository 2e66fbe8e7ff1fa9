//! Puts and gets of scattered data (GASNet-EX 0.19, "Vector/Indexed/Strided"), and telling the peer (`gex_VIS_SetPeerCompletionHandler`).

use std::cell::Cell;
use std::ffi::c_int;
use std::ptr;

use super::rma::{blocking, explicit, root};
use super::{not_in_handler, FLAG_IMMEDIATE};
use crate::am::table::INDEX_BASE;
use crate::conduit::Busy;
use crate::event::{Event, Op};
use crate::rma::Started;
use crate::runtime;
use crate::segment::disposition::{has_offsets, own, own_base, peer_base, reaching};
use crate::team;
use crate::thread;
use crate::trace;
use crate::vis::check;
use crate::vis::peer::{self, Completion};
use crate::vis::shape::{Dim, List, Memvec, Nest, MOST_DIMS};
use crate::vis::{self, Access, Data, Direction};

/// Loops that need no more than a small array.
const FEW_DIMS: usize = 8;

/// What all forms have in common.
struct Call<'a> {
    function: &'static str,
    flags: u32,
    /// Team and rank of the remote side.
    tm: usize,
    rank: u32,
    /// Where a blocking call, which has not waited yet, leaves what is to be recorded.
    later: Option<&'a Cell<Option<Seen>>>,
}

/// An access that was started and is to be recorded.
#[derive(Clone, Copy)]
struct Seen {
    kind: trace::Kind,
    began: u64,
    peer: u32,
    bytes: usize,
    pieces: usize,
    function: &'static str,
}

impl Seen {
    #[cold]
    fn record(self) {
        let event = trace::Event::new(self.kind, self.began).to(self.peer, self.bytes).until_now();
        trace::record(&event.saying(format_args!(" pieces={} call={}", self.pieces, self.function)));
    }
}

type TakeOp<'a> = &'a mut dyn FnMut() -> &'static Op;

impl<'a> Call<'a> {
    fn new(function: &'static str, flags: u32) -> Self {
        not_in_handler(function);
        Self {
            function,
            flags,
            tm: 0,
            rank: 0,
            later: None,
        }
    }

    fn recorded_in(self, later: &'a Cell<Option<Seen>>) -> Self {
        Self {
            later: Some(later),
            ..self
        }
    }

    fn on(self, tm: usize, rank: u32) -> Self {
        Self { tm, rank, ..self }
    }

    fn start(&self, direction: Direction, data: Data<'_>, op: TakeOp<'_>) -> Result<Started, Busy> {
        let (source_ep, peer) = team::resolve(self.tm, self.rank);
        let armed = &thread::current().vis_completion;
        let completion = armed.get();
        let access = Access {
            direction,
            source_ep: own(source_ep, self.flags),
            peer: reaching(peer, self.flags),
            data,
            immediate: self.flags & FLAG_IMMEDIATE != 0,
            completion: completion.filter(|_| direction == Direction::Put),
        };
        if cfg!(feature = "debug-checks") {
            self.check_completion(direction, completion);
            check::access(&access, self.function);
        }
        let began = trace::clock(access.category());
        let started = vis::start(&access, op)?;
        if began != 0 {
            self.traced(began, &access);
        }
        // Only an operation that was started uses it up.
        armed.set(None);
        Ok(started)
    }

    /// A strided call that moves nothing: its team and rank count only when there is a peer to tell.
    fn nothing(&self, direction: Direction, op: TakeOp<'_>) -> Result<Started, Busy> {
        if thread::current().vis_completion.get().is_none() {
            return Ok(Started::Complete);
        }
        let (to, from) = (vector(0, ptr::null()), vector(0, ptr::null()));
        self.start(direction, Data::Lists { to, from }, op)
    }

    /// Records an access that was started at `began`, or leaves that to the call that waits for it.
    #[cold]
    fn traced(&self, began: u64, access: &Access<'_>) {
        let seen = Seen {
            kind: access.trace_kind(),
            began,
            peer: access.peer.rank,
            bytes: access.data.bytes().unwrap_or(usize::MAX),
            pieces: access.data.pieces(),
            function: self.function,
        };
        match self.later {
            Some(later) => later.set(Some(seen)),
            None => seen.record(),
        }
    }

    fn check_completion(&self, direction: Direction, completion: Option<Completion>) {
        let rank = runtime::get().rank;
        let wrong = match completion {
            Some(_) if direction == Direction::Get => "a get: only puts tell their peer",
            Some(_) if self.flags & FLAG_IMMEDIATE != 0 => "GEX_FLAG_IMMEDIATE",
            None | Some(_) => return,
        };
        crate::fatal!(
            "rank {rank}: {}: gex_VIS_SetPeerCompletionHandler was called before, and does not go with {wrong} (GASNet-EX 0.19, \"VIS Put \
             Peer Completion\").",
            self.function
        );
    }

    /// What the addresses of destination and source count from.
    fn bases(&self, direction: Direction) -> (usize, usize) {
        if !has_offsets(self.flags) {
            return (0, 0);
        }
        let (ep, peer) = team::resolve(self.tm, self.rank);
        let (own, remote) = (own_base(ep, self.flags), peer_base(peer, self.flags));
        match direction {
            Direction::Put => (remote, own),
            Direction::Get => (own, remote),
        }
    }

    fn lists(&self, direction: Direction, to: List, from: List, op: TakeOp<'_>) -> Result<Started, Busy> {
        let bases = self.bases(direction);
        let (to, from) = (to.from_base(bases.0), from.from_base(bases.1));
        self.start(direction, Data::Lists { to, from }, op)
    }

    /// # Safety
    /// The arrays have `levels` entries, unless `elem` or `levels` is 0.
    unsafe fn strided(
        &self,
        direction: Direction,
        to: Place,
        from: Place,
        elem: usize,
        counts: *const usize,
        levels: usize,
        op: TakeOp<'_>,
    ) -> Result<Started, Busy> {
        if elem == 0 {
            return self.nothing(direction, op);
        }
        let mut total = Some(elem);
        let mut loops = 0;
        for i in 0..levels {
            // SAFETY: inside the array by contract.
            let count = unsafe { *counts.add(i) };
            if count == 0 {
                return self.nothing(direction, op);
            }
            loops += usize::from(count > 1);
            total = total.and_then(|n| n.checked_mul(count));
        }
        if total.is_none() {
            crate::fatal!(
                "rank {}: {}: the counts make more bytes than there is memory",
                runtime::get().rank,
                self.function
            );
        }
        let (mut few, mut many) = ([Dim::default(); FEW_DIMS], None);
        let dims: &mut [Dim] = if loops <= FEW_DIMS {
            &mut few
        } else {
            many.insert([Dim::default(); MOST_DIMS])
        };
        let mut used = 0;
        for i in 0..levels {
            // SAFETY: as above.
            let count = unsafe { *counts.add(i) };
            if count > 1 {
                // SAFETY: as above.
                let (to, from) = unsafe { (*to.steps.add(i), *from.steps.add(i)) };
                dims[used] = Dim { count, to, from };
                used += 1;
            }
        }
        let bases = self.bases(direction);
        let (to, from) = (to.base.wrapping_add(bases.0), from.base.wrapping_add(bases.1));
        let nest = Nest::simplify(to as usize, from as usize, elem, &mut dims[..used]);
        self.start(direction, Data::Nest(nest), op)
    }
}

/// One side of a strided call.
#[derive(Clone, Copy)]
struct Place {
    base: *mut u8,
    steps: *const isize,
}

impl Place {
    fn new(base: *mut u8, steps: *const isize) -> Self {
        Self { base, steps }
    }
}

fn nonblocking(start: impl FnOnce(TakeOp<'_>) -> Result<Started, Busy>) -> Event {
    let thread = thread::current();
    match explicit(thread, start) {
        Err(Busy) => Event::NO_OP,
        Ok(op) => root(thread, op),
    }
}

fn implicit(start: impl FnOnce(TakeOp<'_>) -> Result<Started, Busy>) -> c_int {
    c_int::from(start(&mut || thread::current().implicit()).is_err())
}

fn vector(count: usize, entries: *const Memvec) -> List {
    List::Vector { entries, count, base: 0 }
}

fn indexed(count: usize, entries: *const *mut u8, bytes: usize) -> List {
    List::Indexed {
        entries,
        count,
        bytes,
        base: 0,
    }
}

// How the six calls start. The order of the parameters is that of the specification, behind those that all have.

fn vector_put(
    call: Call<'_>,
    op: TakeOp<'_>,
    tm: usize,
    rank: u32,
    dstcount: usize,
    dstlist: *const Memvec,
    srccount: usize,
    srclist: *const Memvec,
) -> Result<Started, Busy> {
    call.on(tm, rank)
        .lists(Direction::Put, vector(dstcount, dstlist), vector(srccount, srclist), op)
}

fn vector_get(
    call: Call<'_>,
    op: TakeOp<'_>,
    tm: usize,
    dstcount: usize,
    dstlist: *const Memvec,
    rank: u32,
    srccount: usize,
    srclist: *const Memvec,
) -> Result<Started, Busy> {
    call.on(tm, rank)
        .lists(Direction::Get, vector(dstcount, dstlist), vector(srccount, srclist), op)
}

fn indexed_put(
    call: Call<'_>,
    op: TakeOp<'_>,
    tm: usize,
    rank: u32,
    dstcount: usize,
    dstlist: *const *mut u8,
    dstlen: usize,
    srccount: usize,
    srclist: *const *mut u8,
    srclen: usize,
) -> Result<Started, Busy> {
    let (to, from) = (indexed(dstcount, dstlist, dstlen), indexed(srccount, srclist, srclen));
    call.on(tm, rank).lists(Direction::Put, to, from, op)
}

fn indexed_get(
    call: Call<'_>,
    op: TakeOp<'_>,
    tm: usize,
    dstcount: usize,
    dstlist: *const *mut u8,
    dstlen: usize,
    rank: u32,
    srccount: usize,
    srclist: *const *mut u8,
    srclen: usize,
) -> Result<Started, Busy> {
    let (to, from) = (indexed(dstcount, dstlist, dstlen), indexed(srccount, srclist, srclen));
    call.on(tm, rank).lists(Direction::Get, to, from, op)
}

fn strided_put(
    call: Call<'_>,
    op: TakeOp<'_>,
    tm: usize,
    rank: u32,
    dstaddr: *mut u8,
    dststrides: *const isize,
    srcaddr: *mut u8,
    srcstrides: *const isize,
    elemsz: usize,
    count: *const usize,
    stridelevels: usize,
) -> Result<Started, Busy> {
    let (to, from) = (Place::new(dstaddr, dststrides), Place::new(srcaddr, srcstrides));
    // SAFETY: the client's arrays have so many entries.
    unsafe {
        call.on(tm, rank)
            .strided(Direction::Put, to, from, elemsz, count, stridelevels, op)
    }
}

fn strided_get(
    call: Call<'_>,
    op: TakeOp<'_>,
    tm: usize,
    dstaddr: *mut u8,
    dststrides: *const isize,
    rank: u32,
    srcaddr: *mut u8,
    srcstrides: *const isize,
    elemsz: usize,
    count: *const usize,
    stridelevels: usize,
) -> Result<Started, Busy> {
    let (to, from) = (Place::new(dstaddr, dststrides), Place::new(srcaddr, srcstrides));
    // SAFETY: the client's arrays have so many entries.
    unsafe {
        call.on(tm, rank)
            .strided(Direction::Get, to, from, elemsz, count, stridelevels, op)
    }
}

/// The three forms of each call, which differ in what becomes of the operation.
macro_rules! forms {
    ($($start:ident $nb:ident $nbi:ident $blocking:ident ($($arg:ident: $type:ty),*);)*) => {$(
        /// Starts with a root event; `GEX_EVENT_NO_OP` if IMMEDIATE and nothing was started.
        #[no_mangle]
        pub unsafe extern "C" fn $nb($($arg: $type,)* flags: u32) -> Event {
            nonblocking(|op| $start(Call::new(stringify!($nb), flags), op, $($arg),*))
        }

        /// Starts in the implicit set. 0, or 1 if IMMEDIATE and nothing was started.
        #[no_mangle]
        pub unsafe extern "C" fn $nbi($($arg: $type,)* flags: u32) -> c_int {
            implicit(|op| $start(Call::new(stringify!($nbi), flags), op, $($arg),*))
        }

        /// Moves the data and waits. 0, or 1 if IMMEDIATE and nothing was started.
        #[no_mangle]
        pub unsafe extern "C" fn $blocking($($arg: $type,)* flags: u32) -> c_int {
            let seen = Cell::new(None);
            let refused = blocking(|op| $start(Call::new(stringify!($blocking), flags).recorded_in(&seen), op, $($arg),*));
            if let Some(seen) = seen.take() {
                seen.record();
            }
            refused
        }
    )*};
}

forms! {
    vector_put gex_VIS_VectorPutNB gex_VIS_VectorPutNBI gex_VIS_VectorPutBlocking
        (tm: usize, dstrank: u32, dstcount: usize, dstlist: *const Memvec, srccount: usize, srclist: *const Memvec);
    vector_get gex_VIS_VectorGetNB gex_VIS_VectorGetNBI gex_VIS_VectorGetBlocking
        (tm: usize, dstcount: usize, dstlist: *const Memvec, srcrank: u32, srccount: usize, srclist: *const Memvec);
    indexed_put gex_VIS_IndexedPutNB gex_VIS_IndexedPutNBI gex_VIS_IndexedPutBlocking
        (tm: usize, dstrank: u32, dstcount: usize, dstlist: *const *mut u8, dstlen: usize,
         srccount: usize, srclist: *const *mut u8, srclen: usize);
    indexed_get gex_VIS_IndexedGetNB gex_VIS_IndexedGetNBI gex_VIS_IndexedGetBlocking
        (tm: usize, dstcount: usize, dstlist: *const *mut u8, dstlen: usize, srcrank: u32,
         srccount: usize, srclist: *const *mut u8, srclen: usize);
    strided_put gex_VIS_StridedPutNB gex_VIS_StridedPutNBI gex_VIS_StridedPutBlocking
        (tm: usize, dstrank: u32, dstaddr: *mut u8, dststrides: *const isize, srcaddr: *mut u8, srcstrides: *const isize,
         elemsz: usize, count: *const usize, stridelevels: usize);
    strided_get gex_VIS_StridedGetNB gex_VIS_StridedGetNBI gex_VIS_StridedGetBlocking
        (tm: usize, dstaddr: *mut u8, dststrides: *const isize, srcrank: u32, srcaddr: *mut u8, srcstrides: *const isize,
         elemsz: usize, count: *const usize, stridelevels: usize);
}

/// Arms `handler` of the peer for the next put of this thread, or disarms it if 0. The payload stays until that put is complete.
#[no_mangle]
pub extern "C" fn gex_VIS_SetPeerCompletionHandler(handler: u8, source_addr: *const u8, nbytes: usize, _flags: u32) {
    let armed = &thread::current().vis_completion;
    if handler == 0 {
        return armed.set(None);
    }
    if handler < INDEX_BASE || nbytes > peer::MAX_PAYLOAD || (source_addr.is_null() && nbytes > 0) {
        crate::fatal!(
            "rank {}: gex_VIS_SetPeerCompletionHandler: handler {handler}, {nbytes} bytes at {source_addr:?}. A handler index is {INDEX_BASE} to \
             255, and the payload has at most GEX_VIS_MAX_PEERCOMPLETION, {}, bytes.",
            runtime::get().rank,
            peer::MAX_PAYLOAD
        );
    }
    armed.set(Some(Completion {
        handler,
        payload: source_addr,
        bytes: nbytes,
    }));
}
