//! GASNet-1 puts and gets of scattered data, for OpenCoarrays and gasnet-bench. In a strided call
//! `count[0]` is the length of a contiguous piece; strides are not negative.

use crate::abi::gasnet1::team;
use crate::abi::vis::{
    gex_VIS_IndexedGetBlocking, gex_VIS_IndexedGetNB, gex_VIS_IndexedGetNBI, gex_VIS_IndexedPutBlocking,
    gex_VIS_IndexedPutNB, gex_VIS_IndexedPutNBI, gex_VIS_StridedGetBlocking, gex_VIS_StridedGetNB,
    gex_VIS_StridedGetNBI, gex_VIS_StridedPutBlocking, gex_VIS_StridedPutNB, gex_VIS_StridedPutNBI,
    gex_VIS_VectorGetBlocking, gex_VIS_VectorGetNB, gex_VIS_VectorGetNBI, gex_VIS_VectorPutBlocking,
    gex_VIS_VectorPutNB, gex_VIS_VectorPutNBI,
};
use crate::event::Event;
use crate::flags::Flags;
use crate::types::Rank;
use crate::vis::shape::Memvec;

/// `gasnet_memvec_t`, which has the layout of `gex_Memvec_t`.
type GasnetMemvec = Memvec;

macro_rules! function {
    ($doc:expr, $name:ident($($arg:ident: $type:ty),*) -> $result:ty = $call:ident($($passed:expr),*)) => {
        #[doc = $doc]
        ///
        /// # Safety
        /// The arrays have as many entries as the call says, and the local memory that they name is
        /// valid until the operation is complete.
        #[no_mangle]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> $result {
            // SAFETY: the caller's contract. `count` has `stridelevels` + 1 entries.
            finish(unsafe { $call(team(stringify!($name)), $($passed,)* Flags::NONE) })
        }
    };
}

macro_rules! forms {
    ($($text:literal $result:ty:
        $putv:ident $vector_put:ident $getv:ident $vector_get:ident
        $puti:ident $indexed_put:ident $geti:ident $indexed_get:ident
        $puts:ident $strided_put:ident $gets:ident $strided_get:ident;)*) => {$(
        function! {
            concat!("Puts pieces of any length", $text),
            $putv(node: Rank, dstcount: usize, dst: *const GasnetMemvec, srccount: usize, src: *const GasnetMemvec)
                -> $result = $vector_put(node, dstcount, dst, srccount, src)
        }
        function! {
            concat!("Gets pieces of any length", $text),
            $getv(dstcount: usize, dst: *const GasnetMemvec, node: Rank, srccount: usize, src: *const GasnetMemvec)
                -> $result = $vector_get(dstcount, dst, node, srccount, src)
        }
        function! {
            concat!("Puts pieces of equal length", $text),
            $puti(node: Rank, dstcount: usize, dst: *const *mut u8, dstlen: usize, srccount: usize,
                src: *const *mut u8, srclen: usize)
                -> $result = $indexed_put(node, dstcount, dst, dstlen, srccount, src, srclen)
        }
        function! {
            concat!("Gets pieces of equal length", $text),
            $geti(dstcount: usize, dst: *const *mut u8, dstlen: usize, node: Rank, srccount: usize,
                src: *const *mut u8, srclen: usize)
                -> $result = $indexed_get(dstcount, dst, dstlen, node, srccount, src, srclen)
        }
        function! {
            concat!("Puts a strided section", $text),
            $puts(node: Rank, dst: *mut u8, dststrides: *const usize, src: *mut u8, srcstrides: *const usize,
                count: *const usize, stridelevels: usize)
                -> $result = $strided_put(node, dst, dststrides.cast(), src, srcstrides.cast(),
                    *count, count.wrapping_add(1), stridelevels)
        }
        function! {
            concat!("Gets a strided section", $text),
            $gets(dst: *mut u8, dststrides: *const usize, node: Rank, src: *mut u8, srcstrides: *const usize,
                count: *const usize, stridelevels: usize)
                -> $result = $strided_get(dst, dststrides.cast(), node, src, srcstrides.cast(),
                    *count, count.wrapping_add(1), stridelevels)
        }
    )*};
}

/// The result in GASNet-1: an event, or nothing, since a call without IMMEDIATE is never refused.
fn finish<T: Outcome>(outcome: T) -> T::Result {
    outcome.result()
}

trait Outcome {
    type Result;
    fn result(self) -> Self::Result;
}

impl Outcome for Event {
    type Result = Self;
    fn result(self) -> Self {
        self
    }
}

impl Outcome for std::ffi::c_int {
    type Result = ();
    fn result(self) {}
}

forms! {
    " and waits." ():
        gasnet_putv_bulk gex_VIS_VectorPutBlocking gasnet_getv_bulk gex_VIS_VectorGetBlocking
        gasnet_puti_bulk gex_VIS_IndexedPutBlocking gasnet_geti_bulk gex_VIS_IndexedGetBlocking
        gasnet_puts_bulk gex_VIS_StridedPutBlocking gasnet_gets_bulk gex_VIS_StridedGetBlocking;
    ": starts, with a handle." Event:
        gasnet_putv_nb_bulk gex_VIS_VectorPutNB gasnet_getv_nb_bulk gex_VIS_VectorGetNB
        gasnet_puti_nb_bulk gex_VIS_IndexedPutNB gasnet_geti_nb_bulk gex_VIS_IndexedGetNB
        gasnet_puts_nb_bulk gex_VIS_StridedPutNB gasnet_gets_nb_bulk gex_VIS_StridedGetNB;
    ": starts, in the implicit set." ():
        gasnet_putv_nbi_bulk gex_VIS_VectorPutNBI gasnet_getv_nbi_bulk gex_VIS_VectorGetNBI
        gasnet_puti_nbi_bulk gex_VIS_IndexedPutNBI gasnet_geti_nbi_bulk gex_VIS_IndexedGetNBI
        gasnet_puts_nbi_bulk gex_VIS_StridedPutNBI gasnet_gets_nbi_bulk gex_VIS_StridedGetNBI;
}
