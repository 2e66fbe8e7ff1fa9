//! Remote atomics by UCX, which `GASNET_UCX_ATOMICS` asks for: from UCX 1.16 on they exclude
//! reports of lost peers.

use gasnet_conduit::config::{self, Config};
use gasnet_conduit::Conduit;
use gasnet_conduit_ucx::Ucx;
use gasnet_sys::env;
use std::ffi::CStr;
use std::sync::Once;

/// The conduit over transports, with the variables of this process.
fn over(transports: &'static CStr) -> Box<dyn Conduit> {
    static VARIABLES: Once = Once::new();
    VARIABLES.call_once(|| {
        env::set(c"GASNET_UCX_ATOMICS", c"1");
        config::install(Config::load(&[Ucx::new().variables()]).unwrap());
    });
    Box::new(Ucx::with_transports(transports))
}

gasnet_conduit::atomics_conformance_tests! {
    over_tcp: || over(c"tcp");
    over_shm: || over(c"posix,cma,self");
}
