//! Checks of domains and requests against the specification (GASNet-EX 0.19, "Remote Atomic
//! Operations"). Checks of the debug flavour only are marked.

use super::cpu::Number;
use super::{codes, Domain, Request};
use crate::flags::Flags;
use crate::rules::{self, CHECKED};
use crate::runtime;
use crate::team;
use crate::types::Location;

/// Flags of an operation.
const FLAGS: Flags = Flags::IMMEDIATE
    .with(Flags::AD_REL)
    .with(Flags::AD_ACQ)
    .with(Flags::AD_MY)
    .with(Flags::RANK_IS_JOBRANK)
    .with(Flags::SEG_OFFSET);

/// The parameters of a new domain. Returns those of `ops` that exist for `dt`.
pub fn domain(function: &str, dt: u32, ops: u32, flags: Flags) -> u32 {
    let known = codes::operations(dt);
    if known == 0 {
        fatal!("{function}: dt {dt:#x} is not one built-in type (GEX_DT_I32, _U32, _I64, _U64, _FLT or _DBL)");
    }
    if CHECKED && (ops == 0 || ops & !known != 0) {
        fatal!(
            "{function}: {:#x} of the operations {ops:#x} are not operations of remote atomics on {}",
            ops & !known,
            codes::type_name(dt)
        );
    }
    if CHECKED && (flags & Flags::AD_FAVOR).count() > 1 {
        fatal!("{function}: at most one GEX_FLAG_AD_FAVOR_* may be given; the flags are {flags:#x}");
    }
    rules::only_flags(function, flags, Flags::AD_FAVOR);
    ops & known
}

/// Checks a request at its initiator. Debug flavour.
pub fn request<T: Number>(function: &str, domain: &Domain, request: &Request<T>) {
    let rt = runtime::get();
    let &Request {
        rank,
        target,
        op,
        flags,
        ..
    } = request;
    let fail = |why: String| -> ! { fatal!("rank {}: {function}: {why}", rt.rank) };
    rules::only_flags(function, flags, FLAGS);
    if T::DT != domain.dt {
        fail(format!(
            "the domain is for {}, the call for {}",
            codes::type_name(domain.dt),
            codes::type_name(T::DT)
        ));
    }
    if !op.is_power_of_two() {
        fail(format!("opcode {op:#x} is not exactly one operation"));
    }
    if domain.ops & op == 0 {
        fail(format!(
            "operation {op:#x} is not among those of the domain, {:#x}",
            domain.ops
        ));
    }
    if flags.has(Flags::RANK_IS_JOBRANK)
        && (rank.0 >= rt.size || team::team(domain.tm, function).rank_of(rank.as_job_rank()).is_none())
    {
        fail(format!("job rank {rank} is not in the team of the domain"));
    }
    if codes::is_fetching(op) && request.result.is_null() && !flags.has(Flags::SELF_SEG_OFFSET) {
        fail(format!("result_p is null, and operation {op:#x} fetches"));
    }
    let peer = domain.peer(rank, flags);
    if flags.has_all(Flags::AD_MY) {
        fail("GEX_FLAG_AD_MY_RANK and GEX_FLAG_AD_MY_NBRHD exclude each other".into());
    }
    if flags.has(Flags::AD_MY_RANK) && peer.rank != rt.rank
        || flags.has(Flags::AD_MY_NBRHD) && !rt.is_neighbour(peer.rank)
    {
        fail(format!(
            "flags {flags:#x} assert a locality (GEX_FLAG_AD_MY_…) that rank {rank} does not have"
        ));
    }
    let start = if flags.has(Flags::PEER_SEG_OFFSET) {
        rt.segment_of(peer).map_or(target, |s| s.base.wrapping_add(target))
    } else {
        target
    };
    if rt.segment_of(peer).is_none_or(|s| !s.contains(start, size_of::<T>())) {
        rt.outside_segment(peer, start, size_of::<T>());
    }
    if codes::is_fetching(op) {
        let own = Location {
            rank: rt.rank,
            ep: team::team(domain.tm, function).ep,
        };
        let base = if flags.has(Flags::SELF_SEG_OFFSET) {
            rt.base_of(own)
        } else {
            0
        };
        let result = (request.result as usize).wrapping_add(base);
        let here = rt.mapped_address(peer, start, size_of::<T>());
        if here.is_some_and(|here| (here as usize).abs_diff(result) < size_of::<T>()) {
            fail(format!(
                "result_p is memory of the target, at {result:#x}: a result must not be the target of an atomic"
            ));
        }
    }
}
