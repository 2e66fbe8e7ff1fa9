//! Chained transactions: operations of one type that have one completion. The gni provider of
//! libfabric 1.18.2 gets unaligned data by chains; its tests ran on this (emulators/README.md).
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
    /// Valid for gets and AMOs; the fields after it, for AMOs.
    local_handle: abi::gni_mem_handle_t,
    command: abi::gni_fma_cmd_type_t,
    first: u64,
    second: u64,
}

/// The operation of a link, whose events are those of the first, and the next link.
fn follow(first: &Op, link: *const Transfer) -> Outcome<(Op, *const Transfer)> {
    // SAFETY: a valid link.
    let ep = Ep::of(unsafe { (*link).ep })?;
    if !std::ptr::eq(ep.nic, first.nic) {
        return Err(invalid("an endpoint of the chain is of another NIC handle"));
    }
    if !ep.bound.get() {
        return Err(invalid("an endpoint of the chain is not bound"));
    }
    let mut op = Op {
        remote_address: ep.remote_address.get(),
        ..*first
    };
    // SAFETY: fields of other types are not read.
    unsafe {
        (op.length, op.remote, op.handle, op.local) = ((*link).length, (*link).remote, (*link).handle, (*link).local);
        if op.kind == abi::GNI_POST_AMO {
            (op.command, op.operands) = ((*link).command, ((*link).first, (*link).second));
        }
        check_fma(&op, || (*link).local_handle)?;
        Ok((op, (*link).next))
    }
}

fn post(ep: abi::gni_ep_handle_t, d: *mut abi::gni_post_descriptor_t) -> Outcome {
    let (ep, _inside) = Ep::enter(ep)?;
    if ep.nic.process.is_gemini {
        return Err(refusal(abi::GNI_RC_ILLEGAL_OP, "Gemini has no chained transactions"));
    }
    let first = begin(ep, d)?;
    no_local(&first)?;
    match first.kind {
        abi::GNI_POST_FMA_PUT | abi::GNI_POST_FMA_GET | abi::GNI_POST_AMO => {
            // SAFETY: a valid descriptor.
            check_fma(&first, || unsafe { (*d).local_mem_hndl })?;
        }
        _ => return Err(invalid("a chain is of puts, gets or AMOs")),
    }
    // SAFETY: a valid descriptor.
    let (links, delivery) = unsafe { ((*d).next_descr, (*d).dlvr_mode) };
    if delivery & DLVMODE_ORDERED_TAIL != 0 {
        return Err(invalid("a chain has no ordered tail"));
    }
    let mut ops = vec![first];
    let mut next = links.cast::<Transfer>().cast_const();
    while !next.is_null() {
        let (op, after) = follow(&first, next)?;
        ops.push(op);
        next = after;
    }
    let shared = ep.nic.cdm.has(abi::GNI_CDM_MODE_FMA_SHARED);
    let sum = ops.iter().fold(0, |sum: u64, op| sum.saturating_add(op.length));
    if sum > if shared { LONGEST_SHARED } else { LONGEST } {
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
    code("GNI_CtPostFma", post(ep, d))
}
