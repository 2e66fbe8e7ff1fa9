//! Operations of an endpoint.

use super::bindings as abi;
use super::memory::{MemoryType, RemoteKey};
use super::worker::{Endpoint, Turn};
use super::{Functions, Status};
use std::ffi::c_void;

/// The owner of the contexts of operations.
pub trait Completes {
    /// The operation with this context is complete, or failed. Called inside calls of UCX, so it
    /// makes none.
    ///
    /// # Safety
    /// A context of a call that returned [`Outcome::Pending`], once.
    unsafe fn completed(context: *mut c_void, result: Result<(), Status>);
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The operation is complete. Its context is not reported.
    Done,
    /// Its context will be reported.
    Pending,
}

/// The result of a call. The context of one that failed is not reported.
pub type Started = Result<Outcome, Status>;

/// Local memory of a put or get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// First byte.
    pub address: usize,
    /// Length.
    pub bytes: usize,
}

/// Remote memory of an operation.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// The endpoint of its owner.
    pub endpoint: Endpoint,
    /// Address of the first byte, there.
    pub address: u64,
    /// The key of its memory, of this endpoint.
    pub key: &'a RemoteKey,
}

/// An atomic of UCX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicOp(abi::ucp_atomic_op_t);

impl AtomicOp {
    /// `UCP_ATOMIC_OP_ADD`.
    pub const ADD: Self = Self(abi::UCP_ATOMIC_OP_ADD);
    /// `UCP_ATOMIC_OP_SWAP`.
    pub const SWAP: Self = Self(abi::UCP_ATOMIC_OP_SWAP);
    /// `UCP_ATOMIC_OP_CSWAP`.
    pub const CSWAP: Self = Self(abi::UCP_ATOMIC_OP_CSWAP);
    /// `UCP_ATOMIC_OP_AND`.
    pub const AND: Self = Self(abi::UCP_ATOMIC_OP_AND);
    /// `UCP_ATOMIC_OP_OR`.
    pub const OR: Self = Self(abi::UCP_ATOMIC_OP_OR);
    /// `UCP_ATOMIC_OP_XOR`.
    pub const XOR: Self = Self(abi::UCP_ATOMIC_OP_XOR);
}

unsafe extern "C" fn on_completed<C: Completes>(request: *mut c_void, status: abi::ucs_status_t, context: *mut c_void) {
    if let Some(library) = Functions::get() {
        // SAFETY: a request that is complete, once; it is released when this returns.
        unsafe { (library.request_free)(request) };
    }
    // SAFETY: the context of the call that returned this request.
    unsafe { C::completed(context, Status::check(status)) };
}

/// Parameters of a call whose completion is reported.
fn parameters<C: Completes>(context: *mut c_void) -> abi::ucp_request_param_t {
    // SAFETY: all zero is a valid value.
    let mut parameters: abi::ucp_request_param_t = unsafe { std::mem::zeroed() };
    parameters.op_attr_mask = abi::UCP_OP_ATTR_FIELD_CALLBACK | abi::UCP_OP_ATTR_FIELD_USER_DATA;
    parameters.cb.send = Some(on_completed::<C>);
    parameters.user_data = context;
    parameters
}

/// The same for a kind of local memory.
fn in_memory(memory: MemoryType, mut parameters: abi::ucp_request_param_t) -> abi::ucp_request_param_t {
    parameters.op_attr_mask |= abi::UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    parameters.memory_type = memory.0;
    parameters
}

/// The outcome that a function has returned as a pointer: null, an error number, or a request.
fn started(pointer: abi::ucs_status_ptr_t) -> Started {
    let number = pointer as isize;
    if pointer.is_null() {
        Ok(Outcome::Done)
    } else if (abi::UCS_ERR_LAST as isize..0).contains(&number) {
        Err(Status(number as i8))
    } else {
        Ok(Outcome::Pending)
    }
}

impl Turn<'_> {
    /// Sends a message of a header and data, of host memory, in the eager way: its receiver never
    /// has to fetch it.
    ///
    /// # Safety
    /// Header and data are unchanged until completion.
    pub unsafe fn send<C: Completes>(
        &self,
        endpoint: Endpoint,
        (id, header, data): (u32, &[u8], &[u8]),
        context: *mut c_void,
    ) -> Started {
        // SAFETY: the caller's.
        unsafe { self.send_by(parameters::<C>(context), endpoint, (id, header, data)) }
    }

    /// The same if it is complete at return. False: nothing was sent.
    pub fn send_at_once(&self, endpoint: Endpoint, message: (u32, &[u8], &[u8])) -> bool {
        // SAFETY: all zero is a valid value.
        let mut parameters: abi::ucp_request_param_t = unsafe { std::mem::zeroed() };
        parameters.op_attr_mask = abi::UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL;
        // SAFETY: it is complete, or was not started.
        unsafe { self.send_by(parameters, endpoint, message) == Ok(Outcome::Done) }
    }

    /// # Safety
    /// Header and data are unchanged until completion.
    unsafe fn send_by(
        &self,
        mut parameters: abi::ucp_request_param_t,
        endpoint: Endpoint,
        (id, header, data): (u32, &[u8], &[u8]),
    ) -> Started {
        parameters.op_attr_mask |= abi::UCP_OP_ATTR_FIELD_FLAGS;
        parameters.flags = abi::UCP_AM_SEND_FLAG_EAGER;
        let parameters = in_memory(MemoryType::HOST, parameters);
        let [(header, header_bytes), (data, bytes)] = [header, data].map(|part| (part.as_ptr().cast(), part.len()));
        let (send, endpoint) = (self.library().am_send, endpoint.raw());
        // SAFETY: a live endpoint, and memory by the contract.
        started(unsafe { send(endpoint, id, header, header_bytes, data, bytes, &raw const parameters) })
    }

    /// Starts a put from a kind of memory. Its completion is that of its source.
    ///
    /// # Safety
    /// The source is readable and unchanged until completion.
    pub unsafe fn put<C: Completes>(
        &self,
        to: Target<'_>,
        (from, memory): (Source, MemoryType),
        context: *mut c_void,
    ) -> Started {
        let (parameters, Target { endpoint, address, key }) = (in_memory(memory, parameters::<C>(context)), to);
        let (endpoint, key, here) = (endpoint.raw(), key.raw(), from.address as *const c_void);
        // SAFETY: a live endpoint with its key, and memory by the contract.
        started(unsafe { (self.library().put)(endpoint, here, from.bytes, address, key, &raw const parameters) })
    }

    /// Starts a get to a kind of memory.
    ///
    /// # Safety
    /// The destination is writable, and nobody else's, until completion.
    pub unsafe fn get<C: Completes>(
        &self,
        from: Target<'_>,
        (to, memory): (Source, MemoryType),
        context: *mut c_void,
    ) -> Started {
        let (parameters, Target { endpoint, address, key }) = (in_memory(memory, parameters::<C>(context)), from);
        let (endpoint, key, here) = (endpoint.raw(), key.raw(), to.address as *mut c_void);
        // SAFETY: as above.
        started(unsafe { (self.library().get)(endpoint, here, to.bytes, address, key, &raw const parameters) })
    }

    /// Starts an atomic on 4 or 8 bytes that fetches. `operand` is the address of its operand, and
    /// `result` that of the old value, which has the new one of a compare-and-swap before.
    ///
    /// # Safety
    /// As many bytes there are readable and writable, and nobody else's, until completion.
    pub unsafe fn atomic<C: Completes>(
        &self,
        op: AtomicOp,
        to: Target<'_>,
        (operand, result, bytes): (usize, usize, usize),
        context: *mut c_void,
    ) -> Started {
        let mut parameters = parameters::<C>(context);
        parameters.op_attr_mask |= abi::UCP_OP_ATTR_FIELD_DATATYPE | abi::UCP_OP_ATTR_FIELD_REPLY_BUFFER;
        parameters.datatype = (bytes as u64) << abi::UCP_DATATYPE_SHIFT;
        parameters.reply_buffer = result as *mut c_void;
        let (call, Target { endpoint, address, key }) = (self.library().atomic, to);
        let (endpoint, key, operand) = (endpoint.raw(), key.raw(), operand as *const c_void);
        // SAFETY: as above.
        started(unsafe { call(endpoint, op.0, operand, 1, address, key, &raw const parameters) })
    }

    /// Completes when the puts before it are visible at their target.
    pub fn flush<C: Completes>(&self, endpoint: Endpoint, context: *mut c_void) -> Started {
        let parameters = parameters::<C>(context);
        // SAFETY: a live endpoint.
        started(unsafe { (self.library().ep_flush)(endpoint.raw(), &raw const parameters) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_from_pointers() {
        assert_eq!(started(std::ptr::null_mut()), Ok(Outcome::Done));
        for status in [abi::UCS_ERR_NO_MESSAGE, abi::UCS_ERR_CANCELED, abi::UCS_ERR_LAST] {
            assert_eq!(started(isize::from(status) as *mut c_void), Err(Status(status)));
        }
        for request in [8_usize, usize::MAX - 200, 1 << 46] {
            assert_eq!(started(request as *mut c_void), Ok(Outcome::Pending));
        }
    }
}
