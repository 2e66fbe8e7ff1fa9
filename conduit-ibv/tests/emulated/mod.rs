//! The emulator of verbs for a test program, or the devices of this machine.

use gasnet_conduit::config::{self, Config};
use gasnet_conduit::conformance::Emulator;
use gasnet_conduit::Conduit;
use gasnet_conduit_ibv::Ibv;
use gasnet_sys::env;
use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Its options may be [`NONE`], for the machine's own libibverbs and devices, or begin with
/// [`OLD`].
pub const EMULATOR: Emulator = Emulator {
    name: "verbs",
    options: "IBV_TEST_EMULATOR",
};
const NONE: &str = "none";
/// For a library of rdma-core 22 (RHEL 7), without [`LATER`].
const OLD: &str = "old-library";
/// Functions that came later, and that the conduit does without.
const LATER: [&str; 4] = [
    "_ibv_query_gid_ex",
    "ibv_is_fork_initialized",
    "ibv_query_qp_data_in_order",
    "ibv_reg_dmabuf_mr",
];

/// A copy of a library in a folder whose symbols of [`LATER`] have other names.
fn without_later(library: &Path, folder: &str) -> PathBuf {
    let mut bytes = std::fs::read(library).unwrap();
    for name in LATER {
        let name = format!("\0{name}\0").into_bytes();
        let places: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at..].starts_with(&name)).collect();
        assert!(!places.is_empty(), "{name:?}");
        for at in places {
            bytes[at + 1] = b'x';
        }
    }
    let copy = Path::new(folder).join("libibverbs-old.so");
    std::fs::write(&copy, bytes).unwrap();
    copy
}

/// Lets the conduits of this process use it. Once per process, since a library reads its options
/// once.
pub fn emulate() {
    let options = EMULATOR.own_options();
    if options != NONE {
        let (folder, mut library) = (EMULATOR.fabric(), EMULATOR.library());
        let options = match options.strip_prefix(OLD) {
            Some(others) => {
                library = without_later(&library, &folder);
                others
            }
            None => &options,
        };
        let library = CString::new(library.into_os_string().into_vec()).unwrap();
        let usual = "yield=10 no-overrun strict-lifetimes no-net-raw";
        let options = CString::new(format!("dir={folder} {usual} {options}")).unwrap();
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
