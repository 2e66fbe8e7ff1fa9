//! Functions that no document lists but clients use. Their prototypes are in
//! `include/gasnet_compat.h`.
//!
//! | function | clients | module |
//! |---|---|---|
//! | `gasnet_client_attach_hook` | Chapel | here |
//! | `gasnet_barrier`, `gasnet_barrier_result` | Berkeley UPC, UPC++ v0.1; the reference's tests | here |
//! | `gasnet_try_syncnb_nopoll` | UPC++ v0.1 | here |
//! | `gasnet_hold_interrupts`, `gasnet_resume_interrupts` | OpenCoarrays; GASNet-1 specifies them; they have nothing to do | here |
//! | `gex_Coll_BarrierBlocking` | the reference's tests | here |
//! | `gasnet_coll_*` | BCL, Realm's GASNet-1 module, Berkeley UPC, UPC++ v0.1 | `collectives` |
//! | `gasnet_putv_bulk` and its family | OpenCoarrays, gasnet-bench | `scattered` |
//! | `gasnett_format_dt`, `_op`, `_ti` | the reference's tests | `names` |
//! | `gasnett_format_memveclist` and its family | the reference's tests | `lists` |
//! | `gasnett_run_diagnostics`, `gasnett_diagnostic_gethandlers` | the reference's tests | `diagnose` |

mod collectives;
mod diagnose;
mod lists;
mod names;
mod scattered;

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::{barrier, coll, event, system};
use crate::barrier::split_phase;
use crate::event::Event;
use crate::flags::Flags;
use crate::team::TeamHandle;

/// A client may store a function here before it attaches. The library calls it with the base and
/// the size of the segment before any other rank can write to it.
#[no_mangle]
pub static gasnet_client_attach_hook: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Calls `gasnet_client_attach_hook`, if there is one.
pub fn call_attach_hook(base: usize, bytes: usize) {
    let hook = gasnet_client_attach_hook.load(Ordering::Acquire);
    if !hook.is_null() {
        // SAFETY: the header declares the type of the function that the client stores.
        let hook = unsafe { std::mem::transmute::<*mut c_void, extern "C-unwind" fn(*mut c_void, usize)>(hook) };
        hook(base as *mut c_void, bytes);
    }
}

/// Enters and leaves the barrier of GASNet-1.
#[no_mangle]
pub extern "C" fn gasnet_barrier(id: c_int, flags: c_int) -> c_int {
    barrier::gasnet_barrier_notify(id, flags);
    barrier::gasnet_barrier_wait(id, flags)
}

/// Returns 0 and writes the name of the last barrier; non-zero if it had none.
///
/// # Safety
/// `id` is null or valid for a write.
#[no_mangle]
pub unsafe extern "C" fn gasnet_barrier_result(id: *mut c_int) -> c_int {
    match split_phase::last_name() {
        Some(last) => {
            // SAFETY: the caller's contract.
            unsafe { system::store(id, last) };
            0
        }
        None => 1,
    }
}

/// Tests a handle without polling.
#[no_mangle]
pub extern "C" fn gasnet_try_syncnb_nopoll(handle: Event) -> c_int {
    event::gex_Event_Test(handle)
}

/// Does nothing: handlers never interrupt a thread.
#[no_mangle]
pub extern "C" fn gasnet_hold_interrupts() {}

/// Does nothing.
#[no_mangle]
pub extern "C" fn gasnet_resume_interrupts() {}

/// A blocking barrier over a team.
#[no_mangle]
pub extern "C" fn gex_Coll_BarrierBlocking(tm: TeamHandle, flags: Flags) {
    event::gex_Event_Wait(coll::gex_Coll_BarrierNB(tm, flags));
}
