//! Loading UCX, which installs signal handlers of its own by default, leaves those of the process.

use gasnet_conduit::config::{self, Config};
use gasnet_conduit::conformance::start_info;
use gasnet_conduit::{Conduit, JobRank, Stop};
use gasnet_conduit_ucx::Ucx;
use gasnet_sys::signal;
use std::ffi::c_int;

const SIGNALS: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGHUP];

extern "C" fn ours(_: c_int) {}

#[test]
fn handlers_of_the_process_stay() {
    let ours = ours as extern "C" fn(c_int) as usize;
    for signal in SIGNALS {
        signal::set_handler(signal, ours);
    }
    let conduit = Ucx::with_transports(c"tcp");
    config::install(Config::load(&[conduit.variables()]).unwrap());
    let all = [JobRank(0)];
    let network = conduit.start(&start_info(JobRank(0), &all, &<[u8]>::to_vec)).unwrap();
    for signal in SIGNALS {
        let found = signal::set_handler(signal, libc::SIG_DFL);
        assert_eq!(found, ours, "the handler of signal {signal} was replaced");
    }
    network.stop(Stop::Orderly);
}
