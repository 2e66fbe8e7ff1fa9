//! The C interface to completion queues.
#![allow(non_snake_case)]

use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use emulator_common::wait::Misses;
use gasnet_gni_abi as abi;

use crate::config::Config;
use crate::entry;
use crate::object::{Cq, Living, Nic, Object, Role};
use crate::queue;
use crate::refuse::{call, code, invalid, quiet, refusal, store, Outcome};
use crate::request::MOST;
use crate::status;

const MODES: u32 = abi::GNI_CQ_BLOCKING
    | abi::GNI_CQ_EMULATED
    | abi::GNI_CQ_PHYS_PAGES
    | abi::GNI_CQ_UNMANAGED
    | abi::GNI_CQ_NOAUTOFILL;
/// The library adds two entries and fills pages.
const PAGE_ENTRIES: u32 = 512;

#[no_mangle]
extern "C" fn GNI_CqCreate(
    nic: abi::gni_nic_handle_t,
    entry_count: u32,
    _delay_count: u32,
    mode: abi::gni_cq_mode_t,
    handler: abi::gni_cq_handler,
    context: *mut c_void,
    out: *mut abi::gni_cq_handle_t,
) -> abi::gni_return_t {
    call("GNI_CqCreate", || {
        let (nic, _inside) = Nic::enter(nic)?;
        if entry_count == 0 || entry_count > MOST {
            return Err(invalid("a completion queue has 1 to 2^20 entries"));
        }
        if mode & !MODES != 0 || mode & 3 == abi::GNI_CQ_BLOCKING | abi::GNI_CQ_EMULATED {
            return Err(invalid("no such mode of completion queues"));
        }
        // Physical pages are a matter of the queue's memory; programs see no difference.
        if mode & abi::GNI_CQ_EMULATED != 0 {
            return Err(refusal(
                abi::GNI_RC_ILLEGAL_OP,
                "the emulator has no queues of this mode",
            ));
        }
        if out.is_null() {
            return Err(invalid("the pointer for the handle is null"));
        }
        let capacity = if nic.process.config.cq_round {
            (entry_count + 2).next_multiple_of(PAGE_ENTRIES)
        } else {
            entry_count
        };
        let index = queue::create(nic, capacity)?;
        let shared = &nic.process.fabric.cqs;
        let cq = Cq {
            kind: AtomicU32::new(0),
            nic,
            shared: shared.at(index),
            index,
            key: shared.key(index),
            mode,
            handler,
            context: context as usize,
            role: Cell::new(Role::Unknown),
            is_private: Cell::new(!nic.process.delays),
            endpoints: Cell::new(0),
            requests: UnsafeCell::new(None),
            misses: Misses::default(),
        };
        store(out, cq.publish().handle(), "the pointer for the handle is null")
    })
}

#[no_mangle]
extern "C" fn GNI_CqDestroy(cq: abi::gni_cq_handle_t) -> abi::gni_return_t {
    call("GNI_CqDestroy", || {
        let (cq, _inside) = Cq::enter(cq)?;
        if cq.endpoints.get() != 0 {
            return Err(refusal(abi::GNI_RC_ERROR_RESOURCE, "endpoints still have the queue"));
        }
        queue::destroy(cq);
        Ok(())
    })
}

/// May be called while another thread is in the domain.
#[no_mangle]
extern "C" fn GNI_CqTestEvent(cq: abi::gni_cq_handle_t) -> abi::gni_return_t {
    let cq = match Cq::of(cq) {
        Ok(cq) => cq,
        Err(refusal) => return code("GNI_CqTestEvent", Err(refusal)),
    };
    if cq.is_empty() {
        queue::miss(cq);
        return abi::GNI_RC_NOT_DONE;
    }
    match cq.shared.overrun.load(Relaxed) {
        0 => abi::GNI_RC_SUCCESS,
        _ => abi::GNI_RC_ERROR_RESOURCE,
    }
}

#[no_mangle]
extern "C" fn GNI_CqGetEvent(cq: abi::gni_cq_handle_t, out: *mut abi::gni_cq_entry_t) -> abi::gni_return_t {
    let cq = match Cq::of(cq) {
        Ok(cq) if !out.is_null() => cq,
        Ok(_) => return code("GNI_CqGetEvent", Err(invalid("the pointer for the entry is null"))),
        Err(refusal) => return code("GNI_CqGetEvent", Err(refusal)),
    };
    if cq.is_empty() {
        cq.nic.look_around();
        queue::miss(cq);
        return abi::GNI_RC_NOT_DONE;
    }
    let _inside = cq.nic.enter_domain();
    let (result, entry) = match queue::get_event(cq) {
        Ok(entry) => (abi::GNI_RC_SUCCESS, entry),
        Err((abi::GNI_RC_NOT_DONE, _)) => return abi::GNI_RC_NOT_DONE,
        Err((result, entry)) => {
            queue::warn_of_overrun(cq, result);
            (result, entry)
        }
    };
    // SAFETY: a valid pointer that is not NULL.
    unsafe { out.write(entry) };
    result
}

#[no_mangle]
extern "C" fn GNI_GetCompleted(
    cq: abi::gni_cq_handle_t,
    entry: abi::gni_cq_entry_t,
    out: *mut *mut abi::gni_post_descriptor_t,
) -> abi::gni_return_t {
    call("GNI_GetCompleted", || {
        let (cq, _inside) = Cq::enter(cq)?;
        store(out, std::ptr::null_mut(), "the pointer for the descriptor is null")?;
        let (descriptor, result) = queue::completed(cq, entry)?;
        store(out, descriptor, "")?;
        match result {
            abi::GNI_RC_SUCCESS => Ok(()),
            other => Err(quiet(other)),
        }
    })
}

/// The end of a wait of `timeout` milliseconds; all ones: none.
fn deadline(timeout: u64) -> Option<Instant> {
    (timeout != u64::MAX).then(|| Instant::now().checked_add(Duration::from_millis(timeout)))?
}

/// The first of some queues that has an entry. Err: time is up.
fn wait(cqs: &[&'static Cq], timeout: u64) -> Outcome<usize> {
    let end = deadline(timeout);
    loop {
        if let Some(which) = cqs.iter().position(|cq| !cq.is_empty()) {
            return Ok(which);
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            return Err(quiet(abi::GNI_RC_TIMEOUT));
        }
        std::thread::sleep(Duration::from_micros(20));
    }
}

/// The queues of a list; all must block.
fn blocking(handles: *const abi::gni_cq_handle_t, count: u32) -> Outcome<Vec<&'static Cq>> {
    if handles.is_null() || count == 0 {
        return Err(invalid("no completion queues"));
    }
    // SAFETY: the program passes `count` handles.
    let handles = unsafe { std::slice::from_raw_parts(handles, count as usize) };
    let one = |handle: &abi::gni_cq_handle_t| {
        let cq = Cq::of(*handle)?;
        match cq.mode & abi::GNI_CQ_BLOCKING {
            0 => Err(invalid("the queue was not created for waiting (GNI_CQ_BLOCKING)")),
            _ => Ok(cq),
        }
    };
    handles.iter().map(one).collect()
}

#[no_mangle]
extern "C" fn GNI_CqVectorMonitor(
    cqs: *const abi::gni_cq_handle_t,
    count: u32,
    timeout: u64,
    which: *mut u32,
) -> abi::gni_return_t {
    call("GNI_CqVectorMonitor", || {
        let index = wait(&blocking(cqs, count)?, timeout)?;
        store(which, index as u32, "the pointer for the index is null")
    })
}

/// The name of an entry's status.
#[no_mangle]
extern "C" fn GNI_CqErrorStr(entry: abi::gni_cq_entry_t, buffer: *mut c_void, length: u32) -> abi::gni_return_t {
    call("GNI_CqErrorStr", || {
        if buffer.is_null() {
            return Err(invalid("no buffer"));
        }
        let status = entry::status(entry);
        let text = match Config::of_process() {
            Ok(config) if config.is_gemini() => status::gemini_name(status::gemini(status)),
            _ => status::name(status),
        };
        if text.len() >= length as usize {
            return Err(quiet(abi::GNI_RC_SIZE_ERROR));
        }
        // SAFETY: the buffer has `length` bytes.
        unsafe {
            buffer.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len());
            buffer.cast::<u8>().add(text.len()).write(0);
        }
        Ok(())
    })
}

#[no_mangle]
extern "C" fn GNI_CqErrorRecoverable(entry: abi::gni_cq_entry_t, out: *mut u32) -> abi::gni_return_t {
    call("GNI_CqErrorRecoverable", || match entry::status(entry) {
        0 => Err(refusal(abi::GNI_RC_INVALID_STATE, "the entry has no error")),
        status => store(
            out,
            u32::from(status::recoverable(status)),
            "the pointer for the answer is null",
        ),
    })
}
