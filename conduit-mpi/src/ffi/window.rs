//! A window of MPI: memory of all processes of a communicator, for puts and gets. It is dynamic,
//! for segments come and go in each process alone, and locked once for all.

use super::{Failure, Functions, Handle, Request};
use std::ffi::{c_int, c_void};

/// A window. Displacements are addresses.
pub struct Window<H: 'static> {
    functions: &'static Functions<H>,
    window: H,
}

/// Memory of a rank of the window's communicator.
#[derive(Clone, Copy, Debug)]
pub struct Remote {
    pub rank: c_int,
    pub address: usize,
}

/// Most bytes of a call, whose count is a `c_int`.
const PIECE: usize = 1 << 30;

impl<H: Handle> Window<H> {
    /// A window without memory. Collective over the communicator.
    pub fn new(functions: &'static Functions<H>, comm: H) -> Result<Self, Failure> {
        let constants = &functions.constants;
        let mut window = comm;
        // SAFETY: a handle to write.
        let code = unsafe { (functions.win_create_dynamic)(constants.info_null, comm, &raw mut window) };
        functions.check("MPI_Win_create_dynamic", code)?;
        let new = Self { functions, window };
        // SAFETY: handles of this library.
        let code = unsafe { (functions.win_set_errhandler)(window, constants.errors_return) };
        functions.check("MPI_Win_set_errhandler", code)?;
        if !new.is_unified()? {
            return Err(Failure("it keeps two copies of a window's memory".into()));
        }
        // SAFETY: a handle of this library.
        let code = unsafe { (functions.win_lock_all)(constants.mode_nocheck, window) };
        functions.check("MPI_Win_lock_all", code)?;
        Ok(new)
    }

    /// Whether loads see what puts have written (MPI 3.0, 11.4).
    fn is_unified(&self) -> Result<bool, Failure> {
        let (mut model, mut is_set): (*const c_int, c_int) = (std::ptr::null(), 0);
        let functions = self.functions;
        // SAFETY: the attribute is a pointer to a number.
        let code = unsafe {
            let place = (&raw mut model).cast();
            (functions.win_get_attr)(self.window, functions.constants.win_model, place, &raw mut is_set)
        };
        functions.check("MPI_Win_get_attr", code)?;
        // SAFETY: the number of a window that exists.
        Ok(is_set != 0 && unsafe { *model } == functions.constants.win_unified)
    }

    /// Adds memory of this process.
    ///
    /// # Safety
    /// It stays mapped until `detach`. No other thread is inside MPI, unless it has the level
    /// MULTIPLE.
    pub unsafe fn attach(&self, base: usize, bytes: usize) -> Result<(), Failure> {
        // SAFETY: the caller's.
        let code = unsafe { (self.functions.win_attach)(self.window, base as *mut c_void, bytes as isize) };
        self.functions.check("MPI_Win_attach", code)
    }

    /// Removes it.
    ///
    /// # Safety
    /// It was attached. Threads as in `attach`.
    pub unsafe fn detach(&self, base: usize) {
        // SAFETY: the caller's.
        unsafe { (self.functions.win_detach)(self.window, base as *const c_void) };
    }

    /// Starts a put. Its source is free when the request is complete, or, without one, when it has
    /// arrived: after `flush`. A put of several pieces has none.
    ///
    /// # Safety
    /// The source is unchanged until then, and the destination attached. Threads as in `attach`.
    pub unsafe fn put(
        &self,
        to: Remote,
        from: usize,
        bytes: usize,
        has_request: bool,
    ) -> Result<Option<Request<H>>, Failure> {
        let functions = self.functions;
        let (byte, window) = (functions.constants.byte, self.window);
        let mut request = functions.constants.request_null;
        let has_request = has_request && is_one_piece(bytes);
        for (offset, count) in pieces(bytes) {
            let (from, at) = ((from + offset) as *const c_void, (to.address + offset) as isize);
            // SAFETY: the caller's.
            let code = unsafe {
                if has_request {
                    (functions.rput)(from, count, byte, to.rank, at, count, byte, window, &raw mut request)
                } else {
                    (functions.put)(from, count, byte, to.rank, at, count, byte, window)
                }
            };
            functions.check("MPI_Put", code)?;
        }
        Ok(has_request.then_some(Request(request)))
    }

    /// Starts a get. It is complete when the request is, or, without one, after `flush`. A get of
    /// several pieces has none.
    ///
    /// # Safety
    /// Nobody uses the destination until then, and the source is attached. Threads as in `attach`.
    pub unsafe fn get(
        &self,
        from: Remote,
        to: usize,
        bytes: usize,
        has_request: bool,
    ) -> Result<Option<Request<H>>, Failure> {
        let functions = self.functions;
        let (byte, window) = (functions.constants.byte, self.window);
        let mut request = functions.constants.request_null;
        let has_request = has_request && is_one_piece(bytes);
        for (offset, count) in pieces(bytes) {
            let (to, at) = ((to + offset) as *mut c_void, (from.address + offset) as isize);
            // SAFETY: the caller's.
            let code = unsafe {
                if has_request {
                    (functions.rget)(to, count, byte, from.rank, at, count, byte, window, &raw mut request)
                } else {
                    (functions.get)(to, count, byte, from.rank, at, count, byte, window)
                }
            };
            functions.check("MPI_Get", code)?;
        }
        Ok(has_request.then_some(Request(request)))
    }

    /// Waits for all operations with a rank.
    ///
    /// # Safety
    /// Threads as in `attach`.
    pub unsafe fn flush(&self, rank: c_int) -> Result<(), Failure> {
        // SAFETY: the caller's.
        let code = unsafe { (self.functions.win_flush)(rank, self.window) };
        self.functions.check("MPI_Win_flush", code)
    }

    /// Ends the window, in which nobody starts an operation any more. Without that `MPI_Finalize`
    /// fails in MPICH and Intel MPI over libfabric. Collective.
    ///
    /// # Safety
    /// Once. Threads as in `attach`.
    pub unsafe fn free(&self) {
        let mut window = self.window;
        // SAFETY: the caller's.
        unsafe {
            (self.functions.win_unlock_all)(window);
            (self.functions.win_free)(&raw mut window);
        }
    }
}

/// Whether one call moves this many bytes.
fn is_one_piece(bytes: usize) -> bool {
    bytes <= PIECE
}

/// Offset and length of each piece.
fn pieces(bytes: usize) -> impl Iterator<Item = (usize, c_int)> {
    let offsets = (0..bytes).step_by(PIECE);
    offsets.map(move |offset| (offset, PIECE.min(bytes - offset) as c_int))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_all() {
        for bytes in [1, PIECE, PIECE + 1, 5 * PIECE - 1] {
            let all: Vec<_> = pieces(bytes).collect();
            let mut end = 0;
            for (offset, count) in &all {
                assert_eq!(*offset, end);
                end += *count as usize;
            }
            assert_eq!(is_one_piece(bytes), all.len() == 1);
            assert_eq!((end, all.len()), (bytes, bytes.div_ceil(PIECE)));
        }
    }
}
