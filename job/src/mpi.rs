//! MPI in the same program. Nothing here links it: a program that does has its functions among its symbols.

use std::ffi::{c_int, c_void};

use gasnet_sys::process;

/// What this process has of MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mpi {
    /// The program has none.
    Absent,
    /// It was not initialised yet, or is over.
    Idle,
    /// Between `MPI_Init` and `MPI_Finalize`.
    Running,
}

/// A query of MPI's that writes a flag (`MPI_Initialized`, `MPI_Finalized`). None if the program has no such function.
fn flag(name: &std::ffi::CStr) -> Option<bool> {
    if process::is_static() {
        return None;
    }
    // SAFETY: a terminated name, and all objects of the process.
    let address: *mut c_void = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if address.is_null() {
        return None;
    }
    // SAFETY: the MPI standard gives both functions this signature.
    let query = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_int) -> c_int>(address) };
    let mut set = 0;
    // SAFETY: may be called at any time, on any thread.
    unsafe { query(&raw mut set) };
    Some(set != 0)
}

/// What this process has of MPI now.
pub fn state() -> Mpi {
    match (flag(c"MPI_Initialized"), flag(c"MPI_Finalized")) {
        (None, _) | (_, None) => Mpi::Absent,
        (Some(true), Some(false)) => Mpi::Running,
        _ => Mpi::Idle,
    }
}

/// Warns before ranks are forked: a running MPI does not survive that.
pub fn before_fork() {
    if state() == Mpi::Running {
        gasnet_tools::process::warn(format_args!(
            "MPI was initialised before GASNet, which now forks its ranks; MPI does not work in them. Start the program with mpiexec, or initialise \
             GASNet first"
        ));
    }
}
