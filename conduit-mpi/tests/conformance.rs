//! The conformance suite on the mpi conduit: ranks are threads of this process, each with
//! communicators of its own, of `MPI_COMM_SELF`. With `GASNET_MPI_LIBRARY` that MPI takes the place
//! of the installed one.
//!
//! MPI does not notice the end of a peer.

use gasnet_conduit::config::{self, Config};
use gasnet_conduit::conformance::with_faults;
use gasnet_conduit::Conduit;
use gasnet_conduit_mpi::Mpi;
use gasnet_sys::env;
use std::sync::Once;

/// The conduit, with the variables of this process.
fn threads() -> Box<dyn Conduit> {
    static VARIABLES: Once = Once::new();
    VARIABLES.call_once(|| {
        // Receives of jobs that ended stay posted, and MPICH 5 searches all of them.
        env::set(c"GASNET_NETWORKDEPTH", c"4");
        config::install(Config::load(&[Mpi::new().variables()]).unwrap());
    });
    Box::new(Mpi::simulated())
}

fn faulty() -> Box<dyn Conduit> {
    with_faults(threads(), "seed=5,busy=0.2,delay=0.1,reorder=0.1,split=0.1")
}

gasnet_conduit::lossless_conformance_tests! {
    over_mpi: threads;
    over_faulty_mpi: faulty;
}
// Without puts that notify.
gasnet_conduit::each_check! {
    prepared_over_mpi threads, reserved_packets_arrive reserved_buffers_hold_nothing_up
}
gasnet_conduit::each_check! {
    prepared_over_faulty_mpi faulty, reserved_packets_arrive reserved_buffers_hold_nothing_up
}
