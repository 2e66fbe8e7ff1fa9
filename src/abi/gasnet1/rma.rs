//! GASNet-1 puts and gets, memset, handles and implicit sets.

use std::ffi::c_int;

use super::team;
use crate::abi::event::{
    gex_Event_Test, gex_Event_TestAll, gex_Event_TestSome, gex_Event_Wait, gex_Event_WaitAll, gex_Event_WaitSome,
    gex_NBI_BeginAccessRegion, gex_NBI_EndAccessRegion, gex_NBI_Test, gex_NBI_Wait,
};
use crate::abi::rma::{
    gex_RMA_GetBlocking, gex_RMA_GetBlockingVal, gex_RMA_GetNB, gex_RMA_GetNBI, gex_RMA_PutBlocking,
    gex_RMA_PutBlockingVal, gex_RMA_PutNB, gex_RMA_PutNBI, gex_RMA_PutNBIVal, gex_RMA_PutNBVal,
};
use crate::event::Event;
use crate::flags::{Flags, EC_ALL, EC_GET, EC_PUT};
use crate::progress;
use crate::rules::{LC_DEFER, LC_NOW};
use crate::types::Rank;
use gasnet_conduit::PollScope;

macro_rules! blocking {
    ($($get:ident $put:ident)*) => {$(
        /// Gets and waits.
        #[no_mangle]
        pub extern "C" fn $get(dest: *mut u8, node: Rank, src: *const u8, bytes: usize) {
            gex_RMA_GetBlocking(team(stringify!($get)), dest, node, src, bytes, Flags::NONE);
        }

        /// Puts and waits.
        #[no_mangle]
        pub extern "C" fn $put(node: Rank, dest: *mut u8, src: *const u8, bytes: usize) {
            gex_RMA_PutBlocking(team(stringify!($put)), node, dest, src, bytes, Flags::NONE);
        }
    )*};
}

blocking! { gasnet_get gasnet_put gasnet_get_bulk gasnet_put_bulk }

macro_rules! explicit {
    ($($get:ident $put:ident $lc:ident)*) => {$(
        /// Starts a get.
        #[no_mangle]
        pub extern "C" fn $get(dest: *mut u8, node: Rank, src: *const u8, bytes: usize) -> Event {
            gex_RMA_GetNB(team(stringify!($get)), dest, node, src, bytes, Flags::NONE)
        }

        /// Starts a put. The source of a bulk put must stay until it is synchronised; that of
        /// others may be reused at return.
        #[no_mangle]
        pub extern "C" fn $put(node: Rank, dest: *mut u8, src: *const u8, bytes: usize) -> Event {
            // SAFETY: a constant, not an event to write.
            unsafe { gex_RMA_PutNB(team(stringify!($put)), node, dest, src, bytes, $lc, Flags::NONE) }
        }
    )*};
}

explicit! { gasnet_get_nb gasnet_put_nb LC_NOW gasnet_get_nb_bulk gasnet_put_nb_bulk LC_DEFER }

macro_rules! implicit {
    ($($get:ident $put:ident $lc:ident)*) => {$(
        /// Starts a get in the implicit set.
        #[no_mangle]
        pub extern "C" fn $get(dest: *mut u8, node: Rank, src: *const u8, bytes: usize) {
            gex_RMA_GetNBI(team(stringify!($get)), dest, node, src, bytes, Flags::NONE);
        }

        /// Starts a put in the implicit set. The source of a bulk put must stay until it is
        /// synchronised.
        #[no_mangle]
        pub extern "C" fn $put(node: Rank, dest: *mut u8, src: *const u8, bytes: usize) {
            gex_RMA_PutNBI(team(stringify!($put)), node, dest, src, bytes, $lc, Flags::NONE);
        }
    )*};
}

implicit! { gasnet_get_nbi gasnet_put_nbi LC_NOW gasnet_get_nbi_bulk gasnet_put_nbi_bulk LC_DEFER }

/// Gets a value.
#[no_mangle]
pub extern "C" fn gasnet_get_val(node: Rank, src: *const u8, bytes: usize) -> u64 {
    gex_RMA_GetBlockingVal(team("gasnet_get_val"), node, src, bytes, Flags::NONE)
}

/// Puts a value and waits.
#[no_mangle]
pub extern "C" fn gasnet_put_val(node: Rank, dest: *mut u8, value: u64, bytes: usize) {
    gex_RMA_PutBlockingVal(team("gasnet_put_val"), node, dest, value, bytes, Flags::NONE);
}

/// Starts a put of a value.
#[no_mangle]
pub extern "C" fn gasnet_put_nb_val(node: Rank, dest: *mut u8, value: u64, bytes: usize) -> Event {
    gex_RMA_PutNBVal(team("gasnet_put_nb_val"), node, dest, value, bytes, Flags::NONE)
}

/// Starts a put of a value in the implicit set.
#[no_mangle]
pub extern "C" fn gasnet_put_nbi_val(node: Rank, dest: *mut u8, value: u64, bytes: usize) {
    gex_RMA_PutNBIVal(team("gasnet_put_nbi_val"), node, dest, value, bytes, Flags::NONE);
}

/// An outstanding get of a value. `gasnet_valget_handle_t` is its address. Freed when it is
/// synchronised.
#[repr(C, align(8))]
#[derive(Debug)]
pub struct ValueGet {
    memory: [u8; 8],
    bytes: usize,
    event: Event,
}

/// Starts a get of a value.
#[no_mangle]
pub extern "C" fn gasnet_get_nb_val(node: Rank, src: *const u8, bytes: usize) -> *mut ValueGet {
    let get = Box::into_raw(Box::new(ValueGet {
        memory: [0; 8],
        bytes: bytes.min(8),
        event: Event::INVALID,
    }));
    // SAFETY: just leaked; the get writes to it until it is synchronised.
    let memory = unsafe { &raw mut (*get).memory }.cast::<u8>();
    let event = gex_RMA_GetNB(team("gasnet_get_nb_val"), memory, node, src, bytes.min(8), Flags::NONE);
    // SAFETY: as above.
    unsafe { (&raw mut (*get).event).write(event) };
    get
}

/// Waits for a get of a value.
///
/// # Safety
/// `handle` came from `gasnet_get_nb_val`, and is not used again.
#[no_mangle]
pub unsafe extern "C" fn gasnet_wait_syncnb_valget(handle: *mut ValueGet) -> u64 {
    // SAFETY: the caller's contract.
    gex_Event_Wait(unsafe { (*handle).event });
    // SAFETY: as above; the get is complete, so nothing else uses the memory.
    let get = unsafe { Box::from_raw(handle) };
    let raw = u64::from_ne_bytes(get.memory);
    if cfg!(target_endian = "big") {
        raw >> (64 - 8 * get.bytes)
    } else {
        raw
    }
}

/// Most bytes that a memset puts at once.
const PIECE: usize = 16_384;

fn memset_with(
    node: Rank,
    dest: *mut u8,
    value: c_int,
    bytes: usize,
    mut put: impl FnMut(Rank, *mut u8, *const u8, usize),
) {
    let pattern = vec![value as u8; PIECE.min(bytes)];
    let mut offset = 0;
    while offset < bytes {
        let piece = PIECE.min(bytes - offset);
        put(node, dest.wrapping_add(offset), pattern.as_ptr(), piece);
        offset += piece;
    }
}

/// Fills remote memory and waits.
#[no_mangle]
pub extern "C" fn gasnet_memset(node: Rank, dest: *mut u8, value: c_int, bytes: usize) {
    gex_Event_Wait(gasnet_memset_nb(node, dest, value, bytes));
}

/// Starts filling remote memory.
#[no_mangle]
pub extern "C" fn gasnet_memset_nb(node: Rank, dest: *mut u8, value: c_int, bytes: usize) -> Event {
    let thread = crate::thread::current();
    let outer = thread.swap_region(None);
    thread.begin_region();
    gasnet_memset_nbi(node, dest, value, bytes);
    let event = gex_NBI_EndAccessRegion(Flags::NONE);
    thread.swap_region(outer);
    event
}

/// Starts filling remote memory in the implicit set.
#[no_mangle]
pub extern "C" fn gasnet_memset_nbi(node: Rank, dest: *mut u8, value: c_int, bytes: usize) {
    memset_with(node, dest, value, bytes, |node, to, from, piece| {
        gex_RMA_PutNBI(team("gasnet_memset_nbi"), node, to, from, piece, LC_NOW, Flags::NONE);
    });
}

/// Waits for a handle.
#[no_mangle]
pub extern "C" fn gasnet_wait_syncnb(handle: Event) {
    gex_Event_Wait(handle);
}

/// Polls, then tests a handle.
#[no_mangle]
pub extern "C" fn gasnet_try_syncnb(handle: Event) -> c_int {
    progress::poll(PollScope::All);
    gex_Event_Test(handle)
}

macro_rules! arrays {
    ($($wait:ident $ex_wait:ident $try:ident $ex_test:ident)*) => {$(
        /// Waits for all or for some handles of an array.
        ///
        /// # Safety
        /// `handles` is null or has `count` entries.
        #[no_mangle]
        pub unsafe extern "C" fn $wait(handles: *mut Event, count: usize) {
            // SAFETY: the caller's contract.
            unsafe { $ex_wait(handles, count, Flags::NONE) };
        }

        /// Polls, then tests for all or for some handles of an array.
        ///
        /// # Safety
        /// `handles` is null or has `count` entries.
        #[no_mangle]
        pub unsafe extern "C" fn $try(handles: *mut Event, count: usize) -> c_int {
            progress::poll(PollScope::All);
            // SAFETY: the caller's contract.
            unsafe { $ex_test(handles, count, Flags::NONE) }
        }
    )*};
}

arrays! {
    gasnet_wait_syncnb_all gex_Event_WaitAll gasnet_try_syncnb_all gex_Event_TestAll
    gasnet_wait_syncnb_some gex_Event_WaitSome gasnet_try_syncnb_some gex_Event_TestSome
}

macro_rules! sets {
    ($($wait:ident $try:ident $mask:ident)*) => {$(
        /// Waits for implicit operations of this thread.
        #[no_mangle]
        pub extern "C" fn $wait() {
            gex_NBI_Wait($mask, Flags::NONE);
        }

        /// Polls, then tests for implicit operations of this thread.
        #[no_mangle]
        pub extern "C" fn $try() -> c_int {
            progress::poll(PollScope::All);
            gex_NBI_Test($mask, Flags::NONE)
        }
    )*};
}

sets! {
    gasnet_wait_syncnbi_gets gasnet_try_syncnbi_gets EC_GET
    gasnet_wait_syncnbi_puts gasnet_try_syncnbi_puts EC_PUT
    gasnet_wait_syncnbi_all gasnet_try_syncnbi_all EC_ALL
}

/// Opens an access region.
#[no_mangle]
pub extern "C" fn gasnet_begin_nbi_accessregion() {
    gex_NBI_BeginAccessRegion(Flags::NONE);
}

/// Ends an access region.
#[no_mangle]
pub extern "C" fn gasnet_end_nbi_accessregion() -> Event {
    gex_NBI_EndAccessRegion(Flags::NONE)
}
