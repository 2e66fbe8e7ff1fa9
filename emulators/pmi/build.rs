//! Names the shared library as Cray's is named.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libpmi.so.0");
}
