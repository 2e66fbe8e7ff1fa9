//! A copy of UCX that the process has already is taken, also before one that the user names: a
//! second one fails to load.

use gasnet_conduit::config::{self, Config};
use gasnet_conduit::Conduit;
use gasnet_conduit_ucx::Ucx;
use gasnet_sys::env;
use std::env::consts::ARCH;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::{fs, process};

/// The installed libucp, which is not loaded yet.
fn installed() -> PathBuf {
    let folders = [format!("/usr/lib/{ARCH}-linux-gnu"), "/usr/lib64".into()];
    let mut files = folders.iter().map(|folder| Path::new(folder).join("libucp.so.0"));
    files.find(|file| file.exists()).expect("UCX is not installed")
}

#[test]
fn the_copy_of_the_process_is_taken() {
    let folder = std::env::temp_dir().join(format!("gasnet-ucx-loaded-{}", process::id()));
    fs::create_dir(&folder).unwrap();
    let copy = folder.join("libucp.so.0");
    fs::copy(installed(), &copy).unwrap();
    let name = CString::new(copy.to_str().unwrap()).unwrap();
    // SAFETY: runs the initialisers of UCX, as those of any program that uses it.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
    fs::remove_dir_all(&folder).unwrap();
    assert!(!handle.is_null());

    let named = CString::new(installed().to_str().unwrap()).unwrap();
    env::set(c"GASNET_UCX_LIBRARY", &named);
    let conduit = Ucx::new();
    config::install(Config::load(&[conduit.variables()]).unwrap());
    let report = &conduit.providers()[0];
    let file = report.facts.iter().find(|(label, _)| *label == "file");
    assert_eq!(file.map(|(_, file)| Path::new(file)), Some(&*copy), "{report:?}");
    assert_eq!(env::get(c"UCX_HANDLE_ERRORS"), None, "it has read its variables");
}
