//! The emulator of verbs for a test program, or the devices of this machine.

use gasnet_conduit::config::{self, Config};
use gasnet_conduit::conformance::Emulator;
use gasnet_conduit::Conduit;
use gasnet_conduit_ibv::Ibv;
use gasnet_sys::env;
use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;

/// Its options may be [`NONE`], for the machine's own libibverbs and devices.
pub const EMULATOR: Emulator = Emulator {
    name: "verbs",
    options: "IBV_TEST_EMULATOR",
};
const NONE: &str = "none";

/// Lets the conduits of this process use it. Once per process, since a library reads its options
/// once.
pub fn emulate() {
    let options = EMULATOR.own_options();
    if options != NONE {
        let library = CString::new(EMULATOR.library().into_os_string().into_vec()).unwrap();
        let options = CString::new(format!("dir={} yield=10 {options}", EMULATOR.fabric())).unwrap();
        env::set(c"GASNET_IBV_LIBRARY", &library);
        env::set(c"EMU_VERBS", &options);
    }
    config::install(Config::load(&[Ibv.variables()]).unwrap());
}

/// See [`Emulator::run_again`].
#[allow(dead_code, reason = "not every test program calls it")]
pub fn run_again(options: &str, variables: &str, arguments: &str) -> String {
    EMULATOR.run_again(options, variables, arguments)
}

/// See [`Emulator::run`].
#[allow(dead_code, reason = "not every test program calls it")]
pub fn run(options: &str, variables: &str, arguments: &str) -> (bool, String) {
    EMULATOR.run(options, variables, arguments)
}
