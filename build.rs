//! Refuses targets that the sources are not written for, with the reason instead of the errors that
//! would follow from it.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |key: &str| env::var(format!("CARGO_CFG_TARGET_{key}")).unwrap_or_default();
    let (system, bits) = (target("OS"), target("POINTER_WIDTH"));
    if (system.as_str(), bits.as_str()) != ("linux", "64") {
        println!("cargo::error=libgasnet needs Linux and 64 bits; this target has {system} and {bits} bits");
    }
}
