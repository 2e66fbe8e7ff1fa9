//! The emulator of libelan for a test program.

use gasnet_conduit::config::{self, Config};
use gasnet_conduit::conformance::Emulator;
use gasnet_conduit::Conduit;
use gasnet_conduit_elan::Elan;
use gasnet_sys::env;
use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;

pub const EMULATOR: Emulator = Emulator {
    name: "elan",
    options: "ELAN_TEST_EMULATOR",
};

/// Lets the conduits of this process use it. Once per process, since a library reads its options
/// once. A call that would wait for others, other than those that may, ends the process.
pub fn emulate() {
    let library = CString::new(EMULATOR.library().into_os_string().into_vec()).unwrap();
    let (folder, options) = (EMULATOR.fabric(), EMULATOR.own_options());
    let options = CString::new(format!("dir={folder} yield=10 must-not-wait shuffle {options}")).unwrap();
    env::set(c"GASNET_ELAN_SHIM", &library);
    env::set(c"EMU_ELAN", &options);
    config::install(Config::load(&[Elan::new().variables()]).unwrap());
}
