//! Messages: sends and receives that do not block, and their completion.

use super::{Failure, Functions, Handle};
use std::ffi::{c_int, c_void};
use std::ptr;

/// A send or receive that was started, or none.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Request<H>(pub(super) H);

/// A destination: a rank of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<H> {
    /// The communicator.
    pub comm: H,
    /// The rank in it.
    pub rank: c_int,
}

/// The tag of all messages: communicators and headers distinguish them.
const TAG: c_int = 1;

impl<H: Handle> Functions<H> {
    /// No request.
    #[inline]
    pub fn no_request(&self) -> Request<H> {
        Request(self.constants.request_null)
    }

    /// Starts to send `bytes` bytes, less than 2 GiB, from an address.
    ///
    /// # Safety
    /// Nobody changes them until the request is complete. No other thread is inside MPI, unless it
    /// has the level MULTIPLE.
    #[inline]
    pub unsafe fn send(&self, to: Place<H>, from: usize, bytes: usize) -> Result<Request<H>, Failure> {
        let mut request = self.constants.request_null;
        // SAFETY: the caller's.
        let code = unsafe {
            (self.isend)(
                from as *const c_void,
                bytes as c_int,
                self.constants.byte,
                to.rank,
                TAG,
                to.comm,
                &raw mut request,
            )
        };
        self.check("MPI_Isend", code)?;
        Ok(Request(request))
    }

    /// Starts to receive a message of at most `bytes` bytes, less than 2 GiB, from any rank of a
    /// communicator.
    ///
    /// # Safety
    /// Nobody uses the bytes at the address until the request is complete. Threads as in `send`.
    #[inline]
    pub unsafe fn receive(&self, comm: H, to: usize, bytes: usize) -> Result<Request<H>, Failure> {
        let mut request = self.constants.request_null;
        let constants = &self.constants;
        // SAFETY: the caller's.
        let code = unsafe {
            (self.irecv)(
                to as *mut c_void,
                bytes as c_int,
                constants.byte,
                constants.any_source,
                TAG,
                comm,
                &raw mut request,
            )
        };
        self.check("MPI_Irecv", code)?;
        Ok(Request(request))
    }

    /// The request, unless it is complete.
    ///
    /// # Safety
    /// Threads as in `send`.
    #[inline]
    pub unsafe fn test(&self, request: Request<H>) -> Result<Option<Request<H>>, Failure> {
        let (mut request, mut is_done) = (request, 0);
        let status = ptr::without_provenance_mut(self.constants.status_ignore);
        // SAFETY: a request of this library, and a number to write.
        let code = unsafe { (self.test)(&raw mut request.0, &raw mut is_done, status) };
        self.check("MPI_Test", code)?;
        Ok((is_done == 0).then_some(request))
    }

    /// Lets MPI work, and finds a request that is complete, which is none afterwards.
    ///
    /// # Safety
    /// Threads as in `send`.
    #[inline]
    pub unsafe fn test_any(&self, requests: &mut [Request<H>]) -> Result<Option<usize>, Failure> {
        let (mut index, mut is_found) = (0, 0);
        // SAFETY: requests of this library, each in one place, and numbers to write.
        let code = unsafe {
            (self.testany)(
                requests.len() as c_int,
                requests.as_mut_ptr().cast(),
                &raw mut index,
                &raw mut is_found,
                ptr::without_provenance_mut(self.constants.status_ignore),
            )
        };
        self.check("MPI_Testany", code)?;
        // Among no requests MPI finds one with a negative number, MPI_UNDEFINED.
        Ok(usize::try_from(index).ok().filter(|_| is_found != 0))
    }
}
