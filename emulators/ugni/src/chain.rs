//! Chained transactions: operations of one type that have one completion.
#![allow(non_snake_case)]

use gasnet_gni_abi as abi;

use crate::object::{Ep, Living};
use crate::operation::{Chain, Op};
use crate::post::{begin, check_fma, inject, launch, no_local, take_request};
use crate::refuse::{code, invalid, refusal, Outcome};

/// Longest chains in bytes; the second with shared FMA descriptors.
const LONGEST: u64 = 1 << 30;
const LONGEST_SHARED: u64 = 1 << 20;
const DLVMODE_ORDERED_TAIL: u16 = 0x100;

/// A link of `GNI_CtPostFma`, which is as long as its type needs.
#[repr(C)]
struct Transfer {
    next: *const Transfer,
    ep: abi::gni_ep_handle_t,
    length: u64,
    remote: u64,
    handle: abi::gni_mem_handle_t,
    local: u64,
    /// Of gets and AMOs, as all that follows is of AMOs.
    local_handle: abi::gni_mem_handle_t,
    command: abi::gni_fma_cmd_type_t,
    first: u64,
    second: u64,
}

/// A link of `GNI_CtPostCqWrite`.
#[repr(C)]
struct Write {
    next: *const Write,
    ep: abi::gni_ep_handle_t,
    handle: abi::gni_mem_handle_t,
    value: u64,
}

/// The operation of a link, whose events are those of the first.
fn follow(first: &Op, ep: abi::gni_ep_handle_t) -> Outcome<Op> {
    let ep = Ep::of(ep)?;
    if !std::ptr::eq(ep.nic, first.nic) {
        return Err(invalid("an endpoint of the chain is of another NIC handle"));
    }
    if !ep.bound.get() {
        return Err(invalid("an endpoint of the chain is not bound"));
    }
    Ok(Op {
        remote_address: ep.remote_address.get(),
        ..*first
    })
}

fn transfer(first: &Op, link: *const Transfer) -> Outcome<(Op, *const Transfer)> {
    // SAFETY: a valid link of this type; fields of other types are not read.
    unsafe {
        let mut op = follow(first, (*link).ep)?;
        (op.length, op.remote, op.handle, op.local) = ((*link).length, (*link).remote, (*link).handle, (*link).local);
        if op.kind == abi::GNI_POST_AMO {
            (op.command, op.operands) = ((*link).command, ((*link).first, (*link).second));
        }
        check_fma(&op, || (*link).local_handle)?;
        Ok((op, (*link).next))
    }
}

fn write(first: &Op, link: *const Write) -> Outcome<(Op, *const Write)> {
    // SAFETY: a valid link.
    unsafe {
        let mut op = follow(first, (*link).ep)?;
        (op.handle, op.operands) = ((*link).handle, ((*link).value, 0));
        Ok((op, (*link).next))
    }
}

/// What both functions have in common: `check` is for the first operation, `link` for the others.
fn post<L>(
    ep: abi::gni_ep_handle_t,
    d: *mut abi::gni_post_descriptor_t,
    check: impl FnOnce(&Op) -> Outcome,
    link: impl Fn(&Op, *const L) -> Outcome<(Op, *const L)>,
) -> Outcome {
    let ep = Ep::of(ep)?;
    let _inside = ep.nic.enter();
    if ep.nic.process.is_gemini {
        return Err(refusal(abi::GNI_RC_ILLEGAL_OP, "Gemini has no chained transactions"));
    }
    let first = begin(ep, d)?;
    no_local(&first)?;
    check(&first)?;
    // SAFETY: a valid descriptor.
    let (links, delivery) = unsafe { ((*d).next_descr, (*d).dlvr_mode) };
    if delivery & DLVMODE_ORDERED_TAIL != 0 {
        return Err(invalid("a chain has no ordered tail"));
    }
    let mut ops = vec![first];
    let mut next = links.cast::<L>().cast_const();
    while !next.is_null() {
        let (op, after) = link(&first, next)?;
        ops.push(op);
        next = after;
    }
    let shared = ep.nic.cdm.has(abi::GNI_CDM_MODE_FMA_SHARED);
    let sum = ops.iter().fold(0, |sum: u64, op| sum.saturating_add(op.length));
    if first.kind != abi::GNI_POST_CQWRITE && sum > if shared { LONGEST_SHARED } else { LONGEST } {
        return Err(refusal(abi::GNI_RC_SIZE_ERROR, "the chain moves too many bytes"));
    }
    inject(&mut ops[0])?;
    take_request(&mut ops[0], ep, ep.cq, d)?;
    // SAFETY: a valid descriptor. The program may walk along its links when the chain is complete.
    unsafe { (*d).next_descr = links };
    let (cq, request, chain) = (ops[0].cq, ops[0].request, Chain::new(ops.len()));
    for op in ops {
        launch(Op {
            cq,
            request,
            chain: Some(chain),
            ..op
        });
    }
    Ok(())
}

#[no_mangle]
extern "C" fn GNI_CtPostFma(ep: abi::gni_ep_handle_t, d: *mut abi::gni_post_descriptor_t) -> abi::gni_return_t {
    // SAFETY: a valid descriptor.
    let local_handle = || unsafe { (*d).local_mem_hndl };
    let check = |first: &Op| match first.kind {
        abi::GNI_POST_FMA_PUT | abi::GNI_POST_FMA_GET | abi::GNI_POST_AMO => check_fma(first, local_handle),
        _ => Err(invalid("a chain is of puts, gets or AMOs")),
    };
    code("GNI_CtPostFma", post(ep, d, check, transfer))
}

#[no_mangle]
extern "C" fn GNI_CtPostCqWrite(ep: abi::gni_ep_handle_t, d: *mut abi::gni_post_descriptor_t) -> abi::gni_return_t {
    let check = |first: &Op| match first.kind {
        abi::GNI_POST_CQWRITE => Ok(()),
        _ => Err(invalid("GNI_CtPostCqWrite posts only CQ writes")),
    };
    code("GNI_CtPostCqWrite", post(ep, d, check, write))
}
