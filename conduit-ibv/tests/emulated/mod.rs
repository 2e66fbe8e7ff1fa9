//! The emulator of verbs for a test program: its library, which Cargo puts beside the program, and
//! a fabric of its own, which disappears with the process.

use gasnet_conduit::config::{self, Config};
use gasnet_conduit::Conduit;
use gasnet_conduit_ibv::Ibv;
use gasnet_sys::env;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

/// Lets conduits of this process use an emulator with these options, and these variables. Once per
/// process, since a library reads its options once.
pub fn emulate(options: &str, variables: &[(&str, &str)]) {
    let path = std::env::current_exe().unwrap().with_file_name("libemulator_verbs.so");
    assert!(path.exists(), "{} was not built", path.display());
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    env::set(c"GASNET_IBV_LIBRARY", &path);
    env::set(
        c"EMU_VERBS",
        &CString::new(format!("dir={} {options}", fabric())).unwrap(),
    );
    for (name, value) in variables {
        env::set(&CString::new(*name).unwrap(), &CString::new(*value).unwrap());
    }
    config::install(Config::load(&[Ibv::new().variables()]).unwrap());
}

/// A folder that a shell removes when it reads the end of its standard input, which is that of this
/// process.
fn fabric() -> String {
    let folder = format!("/dev/shm/emu-verbs.test.{}", std::process::id());
    std::fs::create_dir(&folder).unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"read -r _; rm -rf -- "$1""#, "cleaner", &folder]);
    let mut cleaner = shell.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    std::mem::forget(cleaner.stdin.take());
    folder
}
