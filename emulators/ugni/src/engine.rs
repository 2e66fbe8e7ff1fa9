//! The C interface to the collective engine.
#![allow(non_snake_case)]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed};

use emulator_common::table::set;
use gasnet_gni_abi as abi;

use crate::ce;
use crate::object::{Cq, Engine, Ep, Living, Nic, Object};
use crate::process::take;
use crate::refuse::{call, invalid, quiet, store, Outcome};

#[no_mangle]
extern "C" fn GNI_CeCreate(nic: abi::gni_nic_handle_t, out: *mut abi::gni_ce_handle_t) -> abi::gni_return_t {
    call("GNI_CeCreate", || {
        let (nic, _inside) = Nic::enter(nic)?;
        nic.check_engines()?;
        if out.is_null() {
            return Err(invalid("the pointer for the handle is null"));
        }
        let process = nic.process;
        if !take(&nic.hardware.ce, process.config.ce) {
            return Err(quiet(abi::GNI_RC_ERROR_RESOURCE));
        }
        let _guard = process.allocation();
        let engines = &process.fabric.engines;
        let Some(index) = engines.take(process.slot) else {
            nic.hardware.ce.fetch_sub(1, Relaxed);
            return Err(quiet(abi::GNI_RC_ERROR_NOMEM));
        };
        let id = engines.key(index);
        let shared = engines.at(index);
        ce::reset(shared);
        set([
            (&shared.address, nic.address),
            (&shared.domain, nic.domain),
            (&shared.id, id),
            (&shared.ptag, u32::from(nic.cdm.ptag)),
            (&shared.cookie, nic.cdm.cookie),
        ]);
        let engine = Engine {
            kind: AtomicU32::new(0),
            nic,
            index,
            id,
        };
        store(out, engine.publish().handle(), "")
    })
}

#[no_mangle]
extern "C" fn GNI_CeGetId(engine: abi::gni_ce_handle_t, out: *mut u32) -> abi::gni_return_t {
    call("GNI_CeGetId", || {
        store(out, Engine::of(engine)?.id, "the pointer for the id is null")
    })
}

fn one_bit(modes: u32, of: u32) -> bool {
    (modes & of).count_ones() <= 1
}

/// Programs a part of the tree. The attributes of the endpoints are read now.
fn configure(engine: &Engine, children: &[abi::gni_ep_handle_t], parent: abi::gni_ep_handle_t) -> Outcome {
    let shared = engine.shared();
    let process = engine.nic.process;
    let _guard = process.fabric.reductions.lock();
    ce::reset(shared);
    for child in children {
        let ep = Ep::of(*child)?;
        let (id, number, kind) = ep.engine.get();
        if kind == abi::GNI_CE_CHILD_UNUSED {
            return Err(invalid("a child's endpoint has no attributes of a collective engine"));
        }
        let child = &shared.children[number as usize];
        if child.kind.load(Relaxed) != abi::GNI_CE_CHILD_UNUSED {
            return Err(invalid("two children have the same number"));
        }
        child.address.store(ep.remote_address.get(), Relaxed);
        child.id.store(id, Relaxed);
        child.kind.store(kind, Relaxed);
    }
    if !parent.is_null() {
        let ep = Ep::of(parent)?;
        let (id, number, kind) = ep.engine.get();
        if kind != abi::GNI_CE_CHILD_VCE {
            return Err(invalid("the parent's endpoint is not that of an engine"));
        }
        shared.parent_id.store(id, Relaxed);
        shared.parent_child.store(number, Relaxed);
        shared.parent_address.store(ep.remote_address.get(), Relaxed);
    }
    Ok(())
}

#[no_mangle]
#[allow(clippy::too_many_arguments)]
extern "C" fn GNI_CeConfigure(
    engine: abi::gni_ce_handle_t,
    children: *const abi::gni_ep_handle_t,
    count: u32,
    parent: abi::gni_ep_handle_t,
    cq: abi::gni_cq_handle_t,
    modes: u32,
) -> abi::gni_return_t {
    call("GNI_CeConfigure", || {
        let (engine, _inside) = Engine::enter(engine)?;
        if children.is_null() || count == 0 || count > abi::GNI_CE_MAX_CHILDREN {
            return Err(invalid("an engine has 1 to 32 children"));
        }
        let rounding = abi::GNI_CE_MODE_ROUND_UP
            | abi::GNI_CE_MODE_ROUND_DOWN
            | abi::GNI_CE_MODE_ROUND_NEAR
            | abi::GNI_CE_MODE_ROUND_ZERO;
        let events = abi::GNI_CE_MODE_CQE_ONCOMP | abi::GNI_CE_MODE_CQE_ONERR;
        let routing = abi::GNI_CE_MODE_RC_NMIN_HASH
            | abi::GNI_CE_MODE_RC_MIN_HASH
            | abi::GNI_CE_MODE_RC_MNON_HASH
            | abi::GNI_CE_MODE_RC_ADAPT;
        if modes & !(rounding | events | routing) != 0
            || [rounding, events, routing].iter().any(|group| !one_bit(modes, *group))
        {
            return Err(invalid("no such modes of the collective engine"));
        }
        let key = if cq.is_null() {
            0
        } else {
            let cq = Cq::of(cq)?;
            // Entries of an engine come from any process.
            cq.is_private.set(false);
            cq.key
        };
        // SAFETY: the program passes `count` handles.
        let children = unsafe { std::slice::from_raw_parts(children, count as usize) };
        if let Err(refusal) = self::configure(engine, children, parent) {
            ce::reset(engine.shared());
            return Err(refusal);
        }
        engine.shared().cq.store(key, Relaxed);
        engine.shared().modes.store(modes, Relaxed);
        Ok(())
    })
}

#[no_mangle]
extern "C" fn GNI_CeDestroy(engine: abi::gni_ce_handle_t) -> abi::gni_return_t {
    call("GNI_CeDestroy", || {
        let (engine, _inside) = Engine::enter(engine)?;
        engine.retire();
        ce::release(engine.nic.process, engine.index);
        Ok(())
    })
}

/// The control word of a result.
fn control(result: *const abi::gni_ce_result_t) -> u64 {
    if result.is_null() {
        return 0;
    }
    // SAFETY: the program passes a valid pointer; an engine may write while this reads.
    unsafe { AtomicU64::from_ptr(result.cast_mut().cast()) }.load(Acquire)
}

/// Whether a result has arrived. The meaning of `length` is not known; programs pass 0.
#[no_mangle]
extern "C" fn GNI_CeCheckResult(result: *mut abi::gni_ce_result_t, _length: u32) -> abi::gni_return_t {
    call("GNI_CeCheckResult", || {
        if result.is_null() {
            return Err(invalid("no result"));
        }
        let control = control(result);
        match (control & ce::DONE, ce::status_of(control)) {
            (0, _) => Err(quiet(abi::GNI_RC_NOT_DONE)),
            (_, 0) => Ok(()),
            _ => Err(quiet(abi::GNI_RC_TRANSACTION_ERROR)),
        }
    })
}

#[no_mangle]
extern "C" fn gni_ce_res_get_status(result: *mut abi::gni_ce_result_t) -> u64 {
    ce::status_of(control(result))
}
