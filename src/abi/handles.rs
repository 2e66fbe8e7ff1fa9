//! Handles of clients, endpoints and segments: pointers to objects of this library. The debug
//! flavour checks that they are.

use std::ptr;

use crate::client::Client;
use crate::endpoint::{self, Endpoint};
use crate::rules::CHECKED;
use crate::runtime;
use crate::segment::create;
use crate::segment::Segment;

/// The two functions for the client's pointer (`cdata`) of an object: their names, the type of the
/// object, the function that checks its handle, and what the object is called.
macro_rules! cdata {
    ($set:ident $query:ident $type:ty, $checked:path, $what:literal) => {
        #[doc = concat!("Sets the client's pointer of a ", $what, ".")]
        ///
        /// # Safety
        #[doc = concat!("`object` is the handle of a ", $what, ".")]
        #[no_mangle]
        pub unsafe extern "C" fn $set(object: *const $type, value: *mut std::ffi::c_void) {
            // SAFETY: the caller's contract.
            let object = unsafe { $checked(stringify!($set), object) };
            object.cdata.store(value, std::sync::atomic::Ordering::Release);
        }

        #[doc = concat!("The client's pointer of a ", $what, "; null at first.")]
        ///
        /// # Safety
        #[doc = concat!("`object` is the handle of a ", $what, ".")]
        #[no_mangle]
        pub unsafe extern "C" fn $query(object: *const $type) -> *mut std::ffi::c_void {
            // SAFETY: the caller's contract.
            let object = unsafe { $checked(stringify!($query), object) };
            object.cdata.load(std::sync::atomic::Ordering::Acquire)
        }
    };
}
pub(super) use cdata;

/// Queries of an object: their names, the type of the object, the function that checks its handle,
/// and the answer.
macro_rules! query {
    ($(
        $(#[$doc:meta])*
        $name:ident($type:ty, $checked:path) -> $result:ty = |$object:ident| $answer:expr;
    )*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// `object` is the handle of an object of that type.
        #[no_mangle]
        pub unsafe extern "C" fn $name(object: *const $type) -> $result {
            // SAFETY: the caller's contract.
            let $object = unsafe { $checked(stringify!($name), object) };
            $answer
        }
    )*};
}
pub(super) use query;

/// The endpoint behind a handle.
///
/// # Safety
/// `ep` is null or the handle of an endpoint. The debug flavour checks that.
#[inline]
pub unsafe fn endpoint<'a>(function: &str, ep: *const Endpoint) -> &'a Endpoint {
    if ep.is_null() {
        fatal!("{function} was given GEX_EP_INVALID");
    }
    if CHECKED && !ptr::eq(ep, runtime::get().endpoint0) && !endpoint::is_other(ep) {
        fatal!("{function}: {ep:p} is not a gex_EP_t");
    }
    // SAFETY: by contract.
    unsafe { &*ep }
}

/// The segment behind a handle.
///
/// # Safety
/// `segment` is the handle of a segment. The debug flavour checks that it is not null or destroyed.
#[inline]
pub unsafe fn segment<'a>(function: &str, segment: *const Segment) -> &'a Segment {
    if CHECKED {
        if segment.is_null() {
            fatal!("{function} was given GEX_SEGMENT_INVALID");
        }
        if create::DESTROYED.has(segment as usize) {
            fatal!("{function}: the segment {segment:p} was destroyed");
        }
    }
    // SAFETY: by contract.
    unsafe { &*segment }
}

/// The client behind a handle.
///
/// # Safety
/// `client` is the handle of the client. The debug flavour checks that.
#[inline]
pub unsafe fn client<'a>(function: &str, client: *const Client) -> &'a Client {
    if CHECKED && !ptr::eq(client, runtime::get().client) {
        let what = if client.is_null() {
            "GEX_CLIENT_INVALID"
        } else {
            "a value that is not a gex_Client_t"
        };
        fatal!("{function} was given {what}");
    }
    // SAFETY: by contract.
    unsafe { &*client }
}
