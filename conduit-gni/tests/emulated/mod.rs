//! The emulator of uGNI for a test program.

use gasnet_conduit::config::{self, Config};
use gasnet_conduit::conformance::Emulator;
use gasnet_conduit::Conduit;
use gasnet_conduit_gni::Gni;
use gasnet_sys::env;
use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

pub const EMULATOR: Emulator = Emulator {
    name: "ugni",
    options: "GNI_TEST_EMULATOR",
};

/// A copy of the emulator in a folder, without functions of these names: nobody finds them.
fn library_without(names: &str, folder: &Path) -> PathBuf {
    let mut bytes = std::fs::read(EMULATOR.library()).unwrap();
    let names: Vec<_> = names.split(',').collect();
    let is_named = |text: &[u8]| names.iter().any(|name| name.as_bytes() == text);
    for text in bytes.split_mut(|byte| *byte == 0).filter(|text| is_named(text)) {
        text[0] = b'_';
    }
    let path = folder.join("libugni.so");
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Lets the conduits of this process use it. Once per process, since a library reads its options
/// once.
pub fn emulate() {
    let (folder, options) = (EMULATOR.fabric(), EMULATOR.own_options());
    let library = match std::env::var("GNI_TEST_LACKS") {
        Ok(names) => library_without(&names, Path::new(&folder)),
        Err(_) => EMULATOR.library(),
    };
    let library = CString::new(library.into_os_string().into_vec()).unwrap();
    let options = CString::new(format!("dir={folder} yield=10 fma=1000 ce=32 check-all {options}")).unwrap();
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
