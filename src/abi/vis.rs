//! `gex_VIS_*`: puts and gets of scattered data (GASNet-EX 0.19, "Vector/Indexed/Strided"), and
//! peer completion.

use std::cell::Cell;
use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::Ordering;

use super::rma::{blocking, with_root};
use crate::am::table::INDEX_BASE;
use crate::event::{Event, Op};
use crate::flags::Flags;
use crate::rma::Started;
use crate::rules::{self, not_in_handler, PLAIN_FLAGS};
use crate::runtime;
use crate::segment::disposition::{has_offsets, own, own_base, peer_base, reaching};
use crate::team;
use crate::team::{TeamHandle, PEER_COMPLETION_ARMED};
use crate::thread;
use crate::trace::{self, recorder};
use crate::types::{PeerCompletion, Rank};
use crate::vis::check;
use crate::vis::peer;
use crate::vis::request::VisRequest;
use crate::vis::shape::{Dim, List, Memvec, Nest, MOST_DIMS};
use crate::vis::strided::{StridedArgs, StridedArray};
use crate::vis::{self, Data, Direction, VisAccess};
use gasnet_conduit::{Busy, JobRank};

/// Loops of a strided call that fit a small array.
const FEW_DIMS: usize = 8;

/// A call with the client's arguments.
struct Call<'a> {
    function: &'static str,
    direction: Direction,
    /// Team and rank of the remote side.
    tm: TeamHandle,
    rank: Rank,
    asked: VisRequest,
    flags: Flags,
    /// Place for the record of a blocking call until it has waited.
    later: Option<&'a Cell<Option<Seen>>>,
}

/// The trace record of an access that was started.
#[derive(Clone, Copy)]
struct Seen {
    kind: trace::EventKind,
    began: u64,
    peer: JobRank,
    bytes: usize,
    pieces: usize,
    function: &'static str,
}

impl Seen {
    #[cold]
    fn record(self) {
        recorder::write(&recorder::Call::new(self.kind).to(self.peer, self.bytes).at(None));
        let event = trace::TraceEvent::new(self.kind, self.began)
            .to(self.peer, self.bytes)
            .until_now();
        trace::record(&event.with_fields(format_args!(" pieces={} call={}", self.pieces, self.function)));
    }
}

type TakeOp<'a> = &'a mut dyn FnMut() -> &'static Op;

impl Call<'_> {
    /// Starts a call that [`VisRequest::at_once`] did not handle.
    #[cold]
    #[inline(never)]
    fn begin(&self, op: TakeOp<'_>) -> Result<Started, Busy> {
        not_in_handler(self.function);
        match &self.asked {
            &VisRequest::Lists { to, from } => {
                let bases = self.bases();
                let (to, from) = (to.from_base(bases.0), from.from_base(bases.1));
                self.start(Data::Lists { to, from }, op)
            }
            VisRequest::Strided(strided) => self.strided(strided, op),
        }
    }

    fn start(&self, data: Data<'_>, op: TakeOp<'_>) -> Result<Started, Busy> {
        let (source_ep, peer) = team::resolve(self.tm, self.rank);
        let armed = &thread::current().vis_completion;
        let completion = armed.get();
        let access = VisAccess {
            direction: self.direction,
            source_ep: own(source_ep, self.flags),
            peer: reaching(peer, self.flags),
            data,
            immediate: self.flags.has(Flags::IMMEDIATE),
            completion: completion.filter(|_| self.direction == Direction::Put),
        };
        if cfg!(feature = "debug-checks") {
            self.check_completion(completion);
            check::access(&access, self.function);
        }
        let began = trace::clock(access.category());
        let started = vis::start(&access, op)?;
        if began != 0 {
            self.traced(began, &access);
        }
        // Only an operation that was started consumes the peer completion.
        armed.set(None);
        Ok(started)
    }

    /// A strided call that moves nothing. Its team and rank matter only for a peer completion.
    fn nothing(&self, op: TakeOp<'_>) -> Result<Started, Busy> {
        if thread::current().vis_completion.get().is_none() {
            return Ok(Started::Complete);
        }
        let (to, from) = (vector(0, ptr::null()), vector(0, ptr::null()));
        self.start(Data::Lists { to, from }, op)
    }

    /// Records an access that began at `began`, or leaves the record to the call that waits.
    #[cold]
    fn traced(&self, began: u64, access: &VisAccess<'_>) {
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

    fn check_completion(&self, completion: Option<PeerCompletion>) {
        let rank = runtime::get().rank;
        let wrong = match completion {
            Some(_) if self.direction == Direction::Get => "a get: only puts notify their peer",
            Some(_) if self.flags.has(Flags::IMMEDIATE) => "GEX_FLAG_IMMEDIATE",
            None | Some(_) => return,
        };
        fatal!(
            "rank {rank}: {}: gex_VIS_SetPeerCompletionHandler was called before, and cannot be combined with {wrong} \
             (GASNet-EX 0.19, \"VIS Put Peer Completion\").",
            self.function
        );
    }

    /// The bases of destination and source addresses; 0 if they are not offsets.
    fn bases(&self) -> (usize, usize) {
        if !has_offsets(self.flags) {
            return (0, 0);
        }
        let (ep, peer) = team::resolve(self.tm, self.rank);
        let (own, remote) = (own_base(ep, self.flags), peer_base(peer, self.flags));
        match self.direction {
            Direction::Put => (remote, own),
            Direction::Get => (own, remote),
        }
    }

    fn strided(&self, strided: &StridedArgs, op: TakeOp<'_>) -> Result<Started, Busy> {
        let &StridedArgs {
            to,
            from,
            elem,
            counts,
            levels,
        } = strided;
        if elem == 0 {
            return self.nothing(op);
        }
        let mut total = Some(elem);
        let mut loops = 0;
        for i in 0..levels {
            // SAFETY: the client's arrays have `levels` entries.
            let count = unsafe { *counts.add(i) };
            if count == 0 {
                return self.nothing(op);
            }
            loops += usize::from(count > 1);
            total = total.and_then(|n| n.checked_mul(count));
        }
        if total.is_none() {
            fatal!(
                "rank {}: {}: the counts name more bytes than the address space has",
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
        let bases = self.bases();
        let (to, from) = (to.base.wrapping_add(bases.0), from.base.wrapping_add(bases.1));
        let nest = Nest::simplify(to as usize, from as usize, elem, &mut dims[..used]);
        self.start(Data::Nest(nest), op)
    }
}

fn implicit(start: impl FnOnce(TakeOp<'_>) -> Result<Started, Busy>) -> c_int {
    c_int::from(start(&mut || thread::current().implicit()).is_err())
}

fn vector(count: usize, entries: *const Memvec) -> List {
    List::Vector {
        entries,
        count,
        base: 0,
    }
}

fn indexed(count: usize, entries: *const *mut u8, bytes: usize) -> List {
    List::Indexed {
        entries,
        count,
        bytes,
        base: 0,
    }
}

fn lists(to: List, from: List) -> VisRequest {
    VisRequest::Lists { to, from }
}

fn strided(
    to: (*mut u8, *const isize),
    from: (*mut u8, *const isize),
    elem: usize,
    counts: *const usize,
    levels: usize,
) -> VisRequest {
    let place = |(base, steps)| StridedArray { base, steps };
    VisRequest::Strided(StridedArgs {
        to: place(to),
        from: place(from),
        elem,
        counts,
        levels,
    })
}

/// The three forms of each call: with a root event, in the implicit set, and blocking. Per line:
/// the direction, the names, the parameters in the order of the specification, which of them is the
/// remote rank, and the access that the others describe.
macro_rules! forms {
    ($(
        $direction:ident $nb:ident $nbi:ident $blocking:ident
        ($tm:ident: $tm_type:ty, $($arg:ident: $type:ty),*) $rank:ident => $asked:expr;
    )*) => {$(
        /// Starts with a root event. Returns `GEX_EVENT_NO_OP` if IMMEDIATE and nothing was
        /// started.
        ///
        /// # Safety
        /// The arrays have as many entries as the call says, and the local memory that they name is
        /// valid until the operation is complete.
        #[no_mangle]
        pub unsafe extern "C" fn $nb($tm: $tm_type, $($arg: $type,)* flags: Flags) -> Event {
            let asked = $asked;
            // SAFETY: the caller's contract.
            if unsafe { asked.at_once(Direction::$direction, $tm, $rank, PLAIN_FLAGS.has_all(flags)) } {
                return Event::INVALID;
            }
            let (direction, function) = (Direction::$direction, stringify!($nb));
            let call = Call { function, direction, tm: $tm, rank: $rank, asked, flags, later: None };
            with_root(|op| call.begin(op))
        }

        /// Starts in the implicit set. Returns 0, or 1 if IMMEDIATE and nothing was started.
        ///
        /// # Safety
        /// The arrays have as many entries as the call says, and the local memory that they name is
        /// valid until the operation is complete.
        #[no_mangle]
        pub unsafe extern "C" fn $nbi($tm: $tm_type, $($arg: $type,)* flags: Flags) -> c_int {
            let asked = $asked;
            // SAFETY: the caller's contract.
            if unsafe { asked.at_once(Direction::$direction, $tm, $rank, PLAIN_FLAGS.has_all(flags)) } {
                return 0;
            }
            let (direction, function) = (Direction::$direction, stringify!($nbi));
            let call = Call { function, direction, tm: $tm, rank: $rank, asked, flags, later: None };
            implicit(|op| call.begin(op))
        }

        /// Moves the data and waits. Returns 0, or 1 if IMMEDIATE and nothing was started.
        ///
        /// # Safety
        /// The arrays have as many entries as the call says, and the local memory that they name is
        /// valid.
        #[no_mangle]
        pub unsafe extern "C" fn $blocking($tm: $tm_type, $($arg: $type,)* flags: Flags) -> c_int {
            let asked = $asked;
            // SAFETY: the caller's contract.
            if unsafe { asked.at_once(Direction::$direction, $tm, $rank, PLAIN_FLAGS.has_all(flags)) } {
                return 0;
            }
            let seen = Cell::new(None);
            let (direction, function) = (Direction::$direction, stringify!($blocking));
            let call = Call { function, direction, tm: $tm, rank: $rank, asked, flags, later: Some(&seen) };
            let refused = blocking(|op| call.begin(op));
            if let Some(seen) = seen.take() {
                seen.record();
            }
            refused
        }
    )*};
}

forms! {
    Put gex_VIS_VectorPutNB gex_VIS_VectorPutNBI gex_VIS_VectorPutBlocking
        (tm: TeamHandle, dstrank: Rank, dstcount: usize, dstlist: *const Memvec,
         srccount: usize, srclist: *const Memvec)
        dstrank => lists(vector(dstcount, dstlist), vector(srccount, srclist));
    Get gex_VIS_VectorGetNB gex_VIS_VectorGetNBI gex_VIS_VectorGetBlocking
        (tm: TeamHandle, dstcount: usize, dstlist: *const Memvec,
         srcrank: Rank, srccount: usize, srclist: *const Memvec)
        srcrank => lists(vector(dstcount, dstlist), vector(srccount, srclist));
    Put gex_VIS_IndexedPutNB gex_VIS_IndexedPutNBI gex_VIS_IndexedPutBlocking
        (tm: TeamHandle, dstrank: Rank, dstcount: usize, dstlist: *const *mut u8, dstlen: usize,
         srccount: usize, srclist: *const *mut u8, srclen: usize)
        dstrank => lists(indexed(dstcount, dstlist, dstlen), indexed(srccount, srclist, srclen));
    Get gex_VIS_IndexedGetNB gex_VIS_IndexedGetNBI gex_VIS_IndexedGetBlocking
        (tm: TeamHandle, dstcount: usize, dstlist: *const *mut u8, dstlen: usize, srcrank: Rank,
         srccount: usize, srclist: *const *mut u8, srclen: usize)
        srcrank => lists(indexed(dstcount, dstlist, dstlen), indexed(srccount, srclist, srclen));
    Put gex_VIS_StridedPutNB gex_VIS_StridedPutNBI gex_VIS_StridedPutBlocking
        (tm: TeamHandle, dstrank: Rank, dstaddr: *mut u8, dststrides: *const isize,
         srcaddr: *mut u8, srcstrides: *const isize,
         elemsz: usize, count: *const usize, stridelevels: usize)
        dstrank => strided((dstaddr, dststrides), (srcaddr, srcstrides), elemsz, count, stridelevels);
    Get gex_VIS_StridedGetNB gex_VIS_StridedGetNBI gex_VIS_StridedGetBlocking
        (tm: TeamHandle, dstaddr: *mut u8, dststrides: *const isize,
         srcrank: Rank, srcaddr: *mut u8, srcstrides: *const isize,
         elemsz: usize, count: *const usize, stridelevels: usize)
        srcrank => strided((dstaddr, dststrides), (srcaddr, srcstrides), elemsz, count, stridelevels);
}

/// Arms `handler` of the peer for the next put of this thread, or disarms it if 0. The payload must
/// stay until that put is complete.
#[no_mangle]
pub extern "C" fn gex_VIS_SetPeerCompletionHandler(handler: u8, source_addr: *const u8, nbytes: usize, flags: Flags) {
    rules::no_flags("gex_VIS_SetPeerCompletionHandler", flags);
    let armed = &thread::current().vis_completion;
    if handler == 0 {
        return armed.set(None);
    }
    if handler < INDEX_BASE || nbytes > peer::MAX_PAYLOAD || (source_addr.is_null() && nbytes > 0) {
        fatal!(
            "rank {}: gex_VIS_SetPeerCompletionHandler: handler {handler}, {nbytes} bytes at {source_addr:?}. \
             A handler index is {INDEX_BASE} to \
             255, and the payload has at most GEX_VIS_MAX_PEERCOMPLETION, {}, bytes.",
            runtime::get().rank,
            peer::MAX_PAYLOAD
        );
    }
    PEER_COMPLETION_ARMED.store(1, Ordering::Relaxed);
    armed.set(Some(PeerCompletion {
        handler,
        payload: source_addr,
        bytes: nbytes,
    }));
}
