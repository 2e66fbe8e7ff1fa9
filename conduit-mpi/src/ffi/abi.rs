//! The three ABIs: types of handles, and constants. Sources: reference/mpi.md, whose values were
//! compiled from the headers of MPICH 4.0.2 and 5.0.2, Open MPI 4.1.4 and 5.0.11, Intel MPI 2021.19
//! and mpi-forum/mpi-abi-stubs@e5f65c7:mpi.h. The tests in `headers` compare them again.

use gasnet_conduit::library::Library;
use std::ffi::{c_int, c_void, CStr};
use std::fmt::Debug;

/// The type of handles in an ABI.
pub trait Handle: Copy + PartialEq + Debug + Send + Sync + 'static {
    /// As a number, for another conduit of this process.
    fn number(self) -> u64;
    /// The handle of a number.
    fn of_number(number: u64) -> Self;
}

impl Handle for c_int {
    fn number(self) -> u64 {
        self as u64
    }
    fn of_number(number: u64) -> Self {
        number as Self
    }
}

/// A pointer, or a constant of its size.
impl Handle for usize {
    fn number(self) -> u64 {
        self as u64
    }
    fn of_number(number: u64) -> Self {
        number as Self
    }
}

/// The constants of an ABI that this conduit uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constants<H> {
    pub comm_world: H,
    pub comm_self: H,
    pub request_null: H,
    pub info_null: H,
    pub byte: H,
    pub errors_return: H,
    /// `MPI_STATUS_IGNORE`, as an address.
    pub status_ignore: usize,
    pub comm_type_shared: c_int,
    /// The key of `MPI_WIN_MODEL`, and its value `MPI_WIN_UNIFIED`.
    pub win_model: c_int,
    pub win_unified: c_int,
    pub mode_nocheck: c_int,
    pub any_source: c_int,
    /// SINGLE, FUNNELED, SERIALIZED, MULTIPLE: ascending in every ABI.
    pub levels: [c_int; 4],
}

/// MPICH's.
pub const MPICH: Constants<c_int> = Constants {
    comm_world: 0x4400_0000,
    comm_self: 0x4400_0001,
    request_null: 0x2c00_0000,
    info_null: 0x1c00_0000,
    byte: 0x4c00_010d,
    errors_return: 0x5400_0001,
    status_ignore: 1,
    comm_type_shared: 1,
    win_model: 0x6600_0009,
    win_unified: 2,
    mode_nocheck: 1024,
    any_source: -2,
    levels: [0, 1, 2, 3],
};

/// That of MPI 5.
pub const STANDARD: Constants<usize> = Constants {
    comm_world: 0x101,
    comm_self: 0x102,
    request_null: 0x180,
    info_null: 0x130,
    byte: 0x247,
    errors_return: 0x143,
    status_ignore: 0,
    comm_type_shared: 221,
    win_model: 605,
    win_unified: 321,
    mode_nocheck: 1024,
    any_source: -1,
    levels: [0, 1024, 2048, 4096],
};

/// `MPI_ERRORS_RETURN` of the standard ABI's draft, in Intel MPI 2021.19: its mpi_abi.h has this
/// value, and there 0x143 aborts (tried).
pub const INTEL_ERRORS_RETURN: usize = 0x142;

/// Objects of Open MPI, whose addresses are the handles.
pub const OBJECTS: Constants<&CStr> = Constants {
    comm_world: c"ompi_mpi_comm_world",
    comm_self: c"ompi_mpi_comm_self",
    request_null: c"ompi_request_null",
    info_null: c"ompi_mpi_info_null",
    byte: c"ompi_mpi_byte",
    errors_return: c"ompi_mpi_errors_return",
    status_ignore: 0,
    comm_type_shared: 0,
    win_model: 11,
    win_unified: 0,
    mode_nocheck: 1,
    any_source: -1,
    levels: [0, 1, 2, 3],
};

/// Those of Open MPI, in an open library.
pub fn open_mpi(library: &Library) -> Result<Constants<usize>, String> {
    // SAFETY: an address that is not accessed.
    let object = |name| unsafe { library.function::<*const c_void>(name) }.map(|object| object as usize);
    Ok(Constants {
        comm_world: object(OBJECTS.comm_world)?,
        comm_self: object(OBJECTS.comm_self)?,
        request_null: object(OBJECTS.request_null)?,
        info_null: object(OBJECTS.info_null)?,
        byte: object(OBJECTS.byte)?,
        errors_return: object(OBJECTS.errors_return)?,
        status_ignore: OBJECTS.status_ignore,
        comm_type_shared: OBJECTS.comm_type_shared,
        win_model: OBJECTS.win_model,
        win_unified: OBJECTS.win_unified,
        mode_nocheck: OBJECTS.mode_nocheck,
        any_source: OBJECTS.any_source,
        levels: OBJECTS.levels,
    })
}
