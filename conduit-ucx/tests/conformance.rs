//! The conformance suite on the ucx conduit, over the transports that UCX has everywhere. With
//! `GASNET_UCX_LIBRARY` that UCX takes the place of the installed one.
//!
//! Over shared memory UCX does not notice the end of a peer. Puts over tcp are messages, which
//! write whatever the target can write: no key is checked.

use gasnet_conduit::config::{self, Config};
use gasnet_conduit::conformance::with_faults;
use gasnet_conduit::Conduit;
use gasnet_conduit_ucx::Ucx;
use std::ffi::CStr;
use std::sync::Once;

/// The conduit over transports, with the variables of this process.
fn over(transports: &'static CStr) -> Box<dyn Conduit> {
    static VARIABLES: Once = Once::new();
    VARIABLES.call_once(|| config::install(Config::load(&[Ucx::new().variables()]).unwrap()));
    Box::new(Ucx::with_transports(transports))
}

fn tcp() -> Box<dyn Conduit> {
    over(c"tcp")
}

fn shm() -> Box<dyn Conduit> {
    over(c"posix,cma,self")
}

fn faulty() -> Box<dyn Conduit> {
    with_faults(tcp(), "seed=5,busy=0.2,delay=0.1,reorder=0.1,split=0.1")
}

mod packets {
    use super::{faulty, shm, tcp};
    gasnet_conduit::conformance_tests! { over_tcp: tcp; }
    gasnet_conduit::lossless_conformance_tests! {
        over_shm: shm;
        over_faulty_tcp: faulty;
    }
}

mod notification {
    use super::{faulty, shm, tcp};
    gasnet_conduit::notify_conformance_tests! {
        over_tcp: tcp;
        over_shm: shm;
        over_faulty_tcp: faulty;
    }
}

mod operations {
    use super::{faulty, shm, tcp};
    gasnet_conduit::keyless_rma_conformance_tests! {
        over_tcp: tcp;
        over_shm: shm;
        over_faulty_tcp: faulty;
    }
}

mod small {
    use super::{shm, tcp};
    gasnet_conduit::small_put_conformance_tests! {
        over_tcp: tcp;
        over_shm: shm;
    }
}

mod reserved {
    use super::{faulty, shm, tcp};
    gasnet_conduit::send_buffers_conformance_tests! {
        over_tcp: tcp;
        over_shm: shm;
        over_faulty_tcp: faulty;
    }
}
