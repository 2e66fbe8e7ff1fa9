//! MPI in the same program. This library does not link MPI: a program that does has its symbols.

use std::ffi::{c_int, c_void};

use gasnet_sys::process;

/// The state of MPI in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mpi {
    /// The program has no MPI.
    Absent,
    /// Not initialised yet, or already finalized.
    Idle,
    /// Between `MPI_Init` and `MPI_Finalize`.
    Running,
}

/// Calls an MPI query that writes a flag (`MPI_Initialized`, `MPI_Finalized`). None if the program
/// has no such function.
fn flag(name: &std::ffi::CStr) -> Option<bool> {
    if process::is_static() {
        return None;
    }
    // SAFETY: a terminated name, looked up in all objects of the process.
    let address: *mut c_void = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if address.is_null() {
        return None;
    }
    // SAFETY: the MPI standard gives both functions this signature.
    let query = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_int) -> c_int>(address) };
    let mut set = 0;
    // SAFETY: MPI allows the call at any time, on any thread.
    unsafe { query(&raw mut set) };
    Some(set != 0)
}

pub fn state() -> Mpi {
    match (flag(c"MPI_Initialized"), flag(c"MPI_Finalized")) {
        (None, _) | (_, None) => Mpi::Absent,
        (Some(true), Some(false)) => Mpi::Running,
        _ => Mpi::Idle,
    }
}

/// Warns before ranks are made, as forks or fresh processes: a running MPI does not survive a fork,
/// and a fresh process has an MPI of its own.
pub fn before_ranks(are_fresh: bool) {
    let what = if are_fresh {
        "executes the program again for each rank, so that each is an MPI job of its own"
    } else {
        "forks its ranks. MPI does not work in forked ranks"
    };
    if state() == Mpi::Running {
        gasnet_tools::process::warn(format_args!(
            "MPI was initialised before GASNet, which now {what}. Start the program with mpiexec, or initialise GASNet \
             first"
        ));
    }
}
