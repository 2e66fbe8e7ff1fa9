//! Names that no document lists and that clients use all the same. `include/gasnet_compat.h` has their prototypes, with the same clients beside them.
//!
//! | what | who needs it | where |
//! |---|---|---|
//! | `gasnet_client_attach_hook` | Chapel | here |
//! | `gasnet_barrier`, `gasnet_barrier_result` | Berkeley UPC, UPC++ v0.1; the reference's tests | here |
//! | `gasnet_try_syncnb_nopoll` | UPC++ v0.1 | here |
//! | `gasnet_hold_interrupts`, `gasnet_resume_interrupts` | OpenCoarrays; in the specification of GASNet-1, with nothing to do | here |
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

/// A client may store a function here before it attaches; it is called with base and size of the segment before any other rank can write there.
#[no_mangle]
pub static gasnet_client_attach_hook: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Calls `gasnet_client_attach_hook`, if there is one.
pub fn call_attach_hook(base: usize, bytes: usize) {
    let hook = gasnet_client_attach_hook.load(Ordering::Acquire);
    if !hook.is_null() {
        // SAFETY: the client stored a function of this type, which the header says.
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

/// 0 and the name of the last barrier, or not 0 if it had none.
#[no_mangle]
pub unsafe extern "C" fn gasnet_barrier_result(id: *mut c_int) -> c_int {
    match split_phase::last_name() {
        Some(last) => {
            // SAFETY: null or the client's to write.
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

/// Handlers never interrupt, so there is nothing to hold.
#[no_mangle]
pub extern "C" fn gasnet_hold_interrupts() {}

/// See `gasnet_hold_interrupts`.
#[no_mangle]
pub extern "C" fn gasnet_resume_interrupts() {}

/// Starts and completes a barrier over a team.
#[no_mangle]
pub extern "C" fn gex_Coll_BarrierBlocking(tm: TeamHandle, flags: Flags) {
    event::gex_Event_Wait(coll::gex_Coll_BarrierNB(tm, flags));
}
