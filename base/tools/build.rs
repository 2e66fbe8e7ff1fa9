//! Compiles the C part of the tools: what stable Rust cannot define (variadic functions, exported
//! variables that a client may override) and the exported twins of the headers' inline functions.

fn main() {
    let include = "../../include";
    for file in [
        "gasnett_annotate.h",
        "gasnett_atomic.h",
        "gasnett_sync.h",
        "gasnet_portable_platform.h",
    ] {
        println!("cargo:rerun-if-changed={include}/{file}");
    }
    println!("cargo:rerun-if-changed=src/abi/native.c");
    println!("cargo:rerun-if-changed=src/abi/twins.c");
    let here = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let mut build = cc::Build::new();
    build
        .include(include)
        .file("src/abi/native.c")
        .file("src/abi/twins.c")
        .define("_GNU_SOURCE", "1")
        .warnings(true)
        .extra_warnings(true)
        .std("gnu11")
        .flag_if_supported("-Wno-unused-parameter")
        .flag_if_supported(format!("-ffile-prefix-map={here}=tools"));
    if std::env::var_os("CARGO_FEATURE_DEBUG_CHECKS").is_some() {
        build.define("GASNET_DEBUG", "1");
    }
    build.compile("gasnet_tools_c");
}
