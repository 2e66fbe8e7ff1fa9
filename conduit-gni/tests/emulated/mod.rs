//! The emulator of uGNI for a test program.

use gasnet_conduit::config::{self, Config};
use gasnet_conduit::conformance::Emulator;
use gasnet_conduit::Conduit;
use gasnet_conduit_gni::Gni;
use gasnet_sys::env;
use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;

pub const EMULATOR: Emulator = Emulator {
    name: "ugni",
    options: "GNI_TEST_EMULATOR",
};

/// Lets the conduits of this process use it. Once per process, since a library reads its options
/// once.
pub fn emulate() {
    let library = CString::new(EMULATOR.library().into_os_string().into_vec()).unwrap();
    let (folder, options) = (EMULATOR.fabric(), EMULATOR.own_options());
    let options = CString::new(format!("dir={folder} yield=10 fma=1000 {options}")).unwrap();
    env::set(c"GASNET_GNI_LIBRARY", &library);
    env::set(c"EMU_UGNI", &options);
    for (name, value) in [(c"PMI_GNI_PTAG", c"17"), (c"PMI_GNI_COOKIE", c"305419896")] {
        env::set(name, value);
    }
    config::install(Config::load(&[Gni::new().variables()]).unwrap());
}

/// See [`Emulator::run_again`].
#[allow(dead_code, reason = "not every test program calls it")]
pub fn run_again(options: &str, variables: &str, arguments: &str) -> String {
    EMULATOR.run_again(options, variables, arguments)
}
