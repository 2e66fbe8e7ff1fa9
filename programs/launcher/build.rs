//! Records the compilers of this build, for `gasnet_info`.

use std::env;
use std::process::Command;

/// The first line of `program --version`.
fn version(program: &str) -> String {
    // CC may contain options.
    let mut words = program.split_whitespace();
    let name = words.next().unwrap_or("cc");
    let output = Command::new(name).args(words).arg("--version").output();
    let text = output.map_or_else(|_| String::new(), |o| String::from_utf8_lossy(&o.stdout).into_owned());
    text.lines().next().map_or_else(|| "unknown".into(), str::to_owned)
}

fn main() {
    println!("cargo:rerun-if-env-changed=CC");
    println!("cargo:rerun-if-changed=build.rs");
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let cc = env::var("CC").unwrap_or_else(|_| "cc".into());
    println!("cargo:rustc-env=GASNET_INFO_RUSTC={}", version(&rustc));
    println!("cargo:rustc-env=GASNET_INFO_CC={}", version(&cc));
}
