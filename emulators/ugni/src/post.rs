//! Posting: what the library checks before an operation leaves.
#![allow(non_snake_case)]

use emulator_common::copy::Flag;
use emulator_common::damage;
use gasnet_gni_abi as abi;

use crate::amo;
use crate::ce;
use crate::forge::{self, Change};
use crate::later;
use crate::memory::check_local;
use crate::object::{Cq, Ep, Living, Object};
use crate::operation::Op;
use crate::queue;
use crate::refuse::{code, invalid, quiet, refusal, Outcome};
use crate::request::Requests;

type Descriptor = abi::gni_post_descriptor_t;

/// Longest transfer of the BTE.
const LONGEST_RDMA: u64 = (1 << 32) - 1;

/// The operation of a descriptor; nothing is checked. On Gemini the descriptor ends before the
/// fields of the collective engine.
#[inline(always)]
fn operation(ep: &Ep, d: *const Descriptor) -> Op {
    let nic = ep.nic;
    let mask = if nic.process.is_gemini { u32::MAX } else { 0x00ff_ffff };
    // SAFETY: the program passes a valid descriptor, which no other thread uses.
    unsafe {
        let kind = (*d).r#type;
        let is_engine = kind == abi::GNI_POST_CE && !nic.process.is_gemini;
        Op {
            kind,
            mode: (*d).cq_mode,
            nic,
            cq: None,
            request: 0,
            local_event: ep.local_event.get() & mask,
            remote_event: ep.remote_event.get(),
            remote_address: ep.remote_address.get(),
            local: (*d).local_addr,
            remote: (*d).remote_addr,
            handle: (*d).remote_mem_hndl,
            length: (*d).length,
            flag: Flag {
                value: (*d).sync_flag_value,
                address: (*d).sync_flag_addr,
            },
            command: if is_engine { (*d).ce_cmd } else { (*d).amo_cmd },
            operands: if kind == abi::GNI_POST_CQWRITE {
                ((*d).cqwrite_value, 0)
            } else {
                ((*d).first_operand, (*d).second_operand)
            },
            engine: (ep.engine.get().0, ep.engine.get().1),
            ce_mode: if is_engine { (*d).ce_mode } else { 0 },
            reduction: if is_engine { (*d).ce_red_id } else { 0 },
            error: None,
            chain: None,
        }
    }
}

fn misaligned(why: &'static str) -> crate::refuse::Refusal {
    refusal(abi::GNI_RC_ALIGNMENT_ERROR, why)
}

/// Gets fetch words of 4 bytes.
fn check_get(op: &Op) -> Outcome {
    if op.length == 0 {
        return Err(invalid("nothing to get"));
    }
    if (op.remote | op.length) % 4 != 0 {
        return Err(misaligned(
            "a get needs a remote address and a length that are multiples of 4",
        ));
    }
    if op.nic.process.is_gemini && op.local % 4 != 0 {
        return Err(misaligned(
            "on Gemini a get needs a local address that is a multiple of 4",
        ));
    }
    Ok(())
}

/// Whether an AMO, which is valid, fetches.
fn check_amo(op: &Op) -> Outcome<bool> {
    if op.length == 0 {
        return Err(invalid("an AMO without length"));
    }
    let Some(amo) = amo::decode(op.command) else {
        return Err(refusal(abi::GNI_RC_ILLEGAL_OP, "no such AMO"));
    };
    if amo.second && op.nic.process.is_gemini {
        return Err(refusal(
            abi::GNI_RC_ILLEGAL_OP,
            "Gemini has no AMOs of the second generation",
        ));
    }
    let bytes = amo.bytes();
    if op.length % bytes != 0 || op.remote % amo.alignment() != 0 || amo.fetches && op.local % bytes != 0 {
        return Err(misaligned(
            "an AMO needs addresses and a length that are aligned to its operand",
        ));
    }
    // Programs for Cray post AX with the length of both operands.
    let two = amo.operation == amo::Operation::AndXor;
    if op.length != bytes && !(two && op.length == 2 * bytes) {
        return Err(invalid("the length of an AMO is not that of its operands"));
    }
    Ok(amo.fetches)
}

/// The checks of `GNI_PostFma` by type. Puts have no local handle.
#[inline(always)]
pub fn check_fma(op: &Op, local_handle: impl Fn() -> abi::gni_mem_handle_t) -> Outcome {
    match op.kind {
        abi::GNI_POST_FMA_PUT_W_SYNCFLAG if op.flag.address % 8 == 0 => Ok(()),
        abi::GNI_POST_FMA_PUT_W_SYNCFLAG => Err(misaligned("a sync flag needs an address that is a multiple of 8")),
        abi::GNI_POST_FMA_GET => {
            check_get(op)?;
            check_local(op.nic, &local_handle(), op.local, op.length, true)
        }
        abi::GNI_POST_AMO if check_amo(op)? => check_local(op.nic, &local_handle(), op.local, op.length, true),
        abi::GNI_POST_FMA_PUT | abi::GNI_POST_AMO => Ok(()),
        abi::GNI_POST_CE => ce::check(op, &local_handle()),
        _ => Err(invalid("GNI_PostFma posts no operation of this type")),
    }
}

/// The checks of `GNI_PostRdma`.
#[inline(always)]
fn check_rdma(op: &Op, d: *const Descriptor) -> Outcome {
    let both = abi::GNI_CQMODE_LOCAL_EVENT | abi::GNI_CQMODE_GLOBAL_EVENT;
    if !op.is_rdma() {
        return Err(invalid("GNI_PostRdma posts only RDMA operations"));
    }
    if op.mode & both == both && !op.nic.cdm.has(abi::GNI_CDM_MODE_DUAL_EVENTS) {
        return Err(invalid("LOCAL and GLOBAL events need GNI_CDM_MODE_DUAL_EVENTS"));
    }
    if op.kind == abi::GNI_POST_RDMA_GET {
        check_get(op)?;
    }
    if op.length == 0 || op.length > LONGEST_RDMA {
        return Err(invalid("RDMA moves 1 to 2^32-1 bytes"));
    }
    // SAFETY: a valid descriptor.
    let (mode, local_handle) = unsafe { ((*d).rdma_mode, (*d).local_mem_hndl) };
    if mode & !(abi::GNI_RDMAMODE_FENCE | abi::GNI_RDMAMODE_GETWC_DIS) != 0 {
        return Err(invalid("no such mode of RDMA operations"));
    }
    if mode & abi::GNI_RDMAMODE_FENCE != 0 && !op.nic.cdm.has(abi::GNI_CDM_MODE_BTE_SINGLE_CHANNEL) {
        return Err(invalid("a fence needs GNI_CDM_MODE_BTE_SINGLE_CHANNEL"));
    }
    let writes = op.kind == abi::GNI_POST_RDMA_GET;
    check_local(op.nic, &local_handle, op.local, op.length, writes)
}

/// The queue for the events of an RDMA operation, which the descriptor may name.
fn rdma_queue(ep: &Ep, d: *mut Descriptor) -> Outcome<Option<&'static Cq>> {
    // SAFETY: a valid descriptor.
    let handle = unsafe { (*d).src_cq_hndl };
    if !handle.is_null() {
        let cq = Cq::of(handle)?;
        queue::make_source(cq)?;
        return Ok(Some(cq));
    }
    if let Some(cq) = ep.cq {
        // SAFETY: a valid descriptor; the library fills in the queue.
        unsafe { (*d).src_cq_hndl = cq.handle() };
    }
    Ok(ep.cq)
}

/// Takes a request, and marks the descriptor as posted.
#[inline(always)]
pub fn take_request(op: &mut Op, ep: &'static Ep, cq: Option<&'static Cq>, d: *mut Descriptor) -> Outcome {
    let waiting = op.mode & (abi::GNI_CQMODE_LOCAL_EVENT | abi::GNI_CQMODE_GLOBAL_EVENT);
    if waiting != 0 {
        let cq = cq.ok_or(invalid("events of the source need a completion queue"))?;
        let requests: &mut Requests = cq.requests().ok_or(invalid("the completion queue has no requests"))?;
        let (index, request) = requests.take().ok_or(quiet(abi::GNI_RC_ERROR_RESOURCE))?;
        request.descriptor = d;
        request.endpoint = Some(ep);
        request.waiting = waiting;
        request.fetched = 0;
        request.cancelled = false;
        // SAFETY: a valid descriptor; while it is posted, its id is the library's.
        unsafe {
            request.post_id = (*d).post_id;
            (*d).post_id = u64::from(index);
        }
        ep.outstanding.set(ep.outstanding.get() + 1);
        (op.cq, op.request) = (Some(cq), index);
    }
    // SAFETY: a valid descriptor.
    unsafe {
        (*d).next_descr = std::ptr::null_mut();
        (*d).prev_descr = std::ptr::null_mut();
        (*d).status = u64::from(abi::GNI_RC_NOT_DONE);
        (*d).cq_mode_complete = 0;
    }
    Ok(())
}

/// The operation of a descriptor that can be posted to an endpoint.
#[inline(always)]
pub fn begin(ep: &Ep, d: *const Descriptor) -> Outcome<Op> {
    if d.is_null() {
        return Err(invalid("no descriptor"));
    }
    if !ep.bound.get() {
        return Err(invalid("the endpoint is not bound"));
    }
    let op = operation(ep, d);
    if op.mode & !7 != 0 {
        return Err(invalid("no such events"));
    }
    Ok(op)
}

/// The faults of a post.
#[inline(always)]
pub fn inject(op: &mut Op) -> Outcome {
    let process = op.process();
    if process.has_post_faults {
        if process.random.hits(process.config.busy) {
            return Err(quiet(abi::GNI_RC_ERROR_RESOURCE));
        }
        op.error = process.post_error(op.kind, op.length);
        if op.is_put() && damage::hits(&process.config.damage, op.kind, op.length) {
            replace(op, damage::corrupt);
        }
        if let Some(frames) = process.frames.as_ref().filter(|_| op.is_put() && op.is_rdma()) {
            let stale = frames.stale(op.local, op.length);
            if !stale.is_empty() {
                replace(op, |data| stale.into_iter().for_each(|part| data[part].fill(0)));
            }
        }
        if op.remote_entry().is_some() {
            forge(op);
        }
    }
    Ok(())
}

/// Puts other data, which stay until the end of the process.
#[cold]
fn replace(op: &mut Op, alter: impl FnOnce(&mut [u8])) {
    // SAFETY: the program's data, of `op.length` bytes.
    let data = unsafe { std::slice::from_raw_parts(op.local as *const u8, op.length as usize) };
    let data = data.to_vec().leak();
    alter(data);
    op.local = data.as_ptr() as u64;
}

/// Fault `forge`.
#[cold]
fn forge(op: &mut Op) {
    let has_words = op.is_put() && op.length >= 8;
    for change in forge::next(&op.process().forge, has_words) {
        match change {
            Change::Event(bits) => {
                op.remote_event ^= bits;
                if op.kind == abi::GNI_POST_CQWRITE {
                    op.operands.0 ^= u64::from(bits);
                }
            }
            Change::Word(word, bits) => replace(op, |data| {
                let at = word % (data.len() / 8) * 8;
                for (byte, bits) in data[at..at + 8].iter_mut().zip(bits.to_ne_bytes()) {
                    *byte ^= bits;
                }
            }),
        }
    }
}

/// Executes an operation, now or later.
#[inline(always)]
pub fn launch(op: Op) {
    if op.process().delays {
        later::post(op);
    } else if op.kind == abi::GNI_POST_CE {
        ce::run(&op);
    } else {
        op.run();
    }
}

/// The common part of the three functions, with the `check` of each.
#[inline(always)]
fn post(
    ep: abi::gni_ep_handle_t,
    d: *mut Descriptor,
    check: impl FnOnce(&Op, &'static Ep) -> Outcome<Option<&'static Cq>>,
) -> Outcome {
    let (ep, _inside) = Ep::enter(ep)?;
    let mut op = begin(ep, d)?;
    let cq = check(&op, ep)?;
    inject(&mut op)?;
    take_request(&mut op, ep, cq, d)?;
    launch(op);
    Ok(())
}

pub fn no_local(op: &Op) -> Outcome {
    if op.mode & abi::GNI_CQMODE_LOCAL_EVENT != 0 {
        return Err(invalid("only RDMA operations have LOCAL events"));
    }
    Ok(())
}

#[no_mangle]
extern "C" fn GNI_PostFma(ep: abi::gni_ep_handle_t, d: *mut Descriptor) -> abi::gni_return_t {
    let posted = post(ep, d, |op, ep| {
        no_local(op)?;
        // SAFETY: a valid descriptor.
        check_fma(op, || unsafe { (*d).local_mem_hndl })?;
        Ok(ep.cq)
    });
    code("GNI_PostFma", posted)
}

#[no_mangle]
extern "C" fn GNI_PostRdma(ep: abi::gni_ep_handle_t, d: *mut Descriptor) -> abi::gni_return_t {
    let posted = post(ep, d, |op, ep| {
        check_rdma(op, d)?;
        rdma_queue(ep, d)
    });
    code("GNI_PostRdma", posted)
}

#[no_mangle]
extern "C" fn GNI_PostCqWrite(ep: abi::gni_ep_handle_t, d: *mut Descriptor) -> abi::gni_return_t {
    let posted = post(ep, d, |op, ep| {
        if op.kind != abi::GNI_POST_CQWRITE {
            return Err(invalid("GNI_PostCqWrite posts only CQ writes"));
        }
        no_local(op)?;
        Ok(ep.cq)
    });
    code("GNI_PostCqWrite", posted)
}
