//! Sets `cfg(loom)` for the library's sources, which shrinks some sizes.

fn main() {
    println!("cargo:rustc-cfg=loom");
    println!("cargo:rustc-check-cfg=cfg(loom, gasnet_tsan)");
    println!("cargo:rustc-check-cfg=cfg(feature, values(\"debug-checks\"))");
    println!("cargo:rerun-if-changed=build.rs");
}
