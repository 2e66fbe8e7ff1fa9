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

/// The element size and the counts in the form of GASNet-EX.
///
/// # Safety
/// `count` is an array of at least one entry.
unsafe fn element(count: *const usize) -> (usize, *const usize) {
    // SAFETY: the caller's contract.
    (unsafe { *count }, count.wrapping_add(1))
}

macro_rules! forms {
    ($($text:literal $result:ty:
        $putv:ident $vector_put:ident $getv:ident $vector_get:ident
        $puti:ident $indexed_put:ident $geti:ident $indexed_get:ident
        $puts:ident $strided_put:ident $gets:ident $strided_get:ident;)*) => {$(
        #[doc = concat!("Puts pieces of any length", $text)]
        ///
        /// # Safety
        /// The arrays have as many entries as the call says, and the local memory that they name is
        /// valid until the operation is complete.
        #[no_mangle]
        pub unsafe extern "C" fn $putv(
            node: Rank,
            dstcount: usize,
            dst: *const GasnetMemvec,
            srccount: usize,
            src: *const GasnetMemvec,
        ) -> $result {
            // SAFETY: the caller's contract.
            finish(unsafe { $vector_put(team(stringify!($putv)), node, dstcount, dst, srccount, src, Flags::NONE) })
        }

        #[doc = concat!("Gets pieces of any length", $text)]
        ///
        /// # Safety
        /// The arrays have as many entries as the call says, and the local memory that they name is
        /// valid until the operation is complete.
        #[no_mangle]
        pub unsafe extern "C" fn $getv(
            dstcount: usize,
            dst: *const GasnetMemvec,
            node: Rank,
            srccount: usize,
            src: *const GasnetMemvec,
        ) -> $result {
            // SAFETY: the caller's contract.
            finish(unsafe { $vector_get(team(stringify!($getv)), dstcount, dst, node, srccount, src, Flags::NONE) })
        }

        #[doc = concat!("Puts pieces of equal length", $text)]
        ///
        /// # Safety
        /// The arrays have as many entries as the call says, and the local memory that they name is
        /// valid until the operation is complete.
        #[no_mangle]
        pub unsafe extern "C" fn $puti(
            node: Rank,
            dstcount: usize,
            dst: *const *mut u8,
            dstlen: usize,
            srccount: usize,
            src: *const *mut u8,
            srclen: usize,
        ) -> $result {
            // SAFETY: the caller's contract.
            finish(unsafe {
                $indexed_put(team(stringify!($puti)), node, dstcount, dst, dstlen, srccount, src, srclen, Flags::NONE)
            })
        }

        #[doc = concat!("Gets pieces of equal length", $text)]
        ///
        /// # Safety
        /// The arrays have as many entries as the call says, and the local memory that they name is
        /// valid until the operation is complete.
        #[no_mangle]
        pub unsafe extern "C" fn $geti(
            dstcount: usize,
            dst: *const *mut u8,
            dstlen: usize,
            node: Rank,
            srccount: usize,
            src: *const *mut u8,
            srclen: usize,
        ) -> $result {
            // SAFETY: the caller's contract.
            finish(unsafe {
                $indexed_get(team(stringify!($geti)), dstcount, dst, dstlen, node, srccount, src, srclen, Flags::NONE)
            })
        }

        #[doc = concat!("Puts a strided section", $text)]
        ///
        /// # Safety
        /// The arrays have as many entries as the call says, and the local memory that they name is
        /// valid until the operation is complete.
        #[no_mangle]
        pub unsafe extern "C" fn $puts(
            node: Rank,
            dst: *mut u8,
            dststrides: *const usize,
            src: *mut u8,
            srcstrides: *const usize,
            count: *const usize,
            stridelevels: usize,
        ) -> $result {
            // SAFETY: `stridelevels` + 1 entries by contract.
            let (elem, count) = unsafe { element(count) };
            let (dststrides, srcstrides) = (dststrides.cast(), srcstrides.cast());
            let tm = team(stringify!($puts));
            // SAFETY: the caller's contract.
            finish(unsafe {
                $strided_put(tm, node, dst, dststrides, src, srcstrides, elem, count, stridelevels, Flags::NONE)
            })
        }

        #[doc = concat!("Gets a strided section", $text)]
        ///
        /// # Safety
        /// The arrays have as many entries as the call says, and the local memory that they name is
        /// valid until the operation is complete.
        #[no_mangle]
        pub unsafe extern "C" fn $gets(
            dst: *mut u8,
            dststrides: *const usize,
            node: Rank,
            src: *mut u8,
            srcstrides: *const usize,
            count: *const usize,
            stridelevels: usize,
        ) -> $result {
            // SAFETY: `stridelevels` + 1 entries by contract.
            let (elem, count) = unsafe { element(count) };
            let (dststrides, srcstrides) = (dststrides.cast(), srcstrides.cast());
            let tm = team(stringify!($gets));
            // SAFETY: the caller's contract.
            finish(unsafe {
                $strided_get(tm, dst, dststrides, node, src, srcstrides, elem, count, stridelevels, Flags::NONE)
            })
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
