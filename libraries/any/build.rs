//! Writes the list of the conduits whose features are enabled, in the order of the dependencies in
//! Cargo.toml.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=Cargo.toml");
    let manifest = fs::read_to_string("Cargo.toml").expect("Cargo.toml of this crate");
    let mut list = vec!["&[".to_string()];
    for line in manifest.lines() {
        let Some(name) = line
            .strip_prefix("gasnet-conduit-")
            .and_then(|rest| rest.split_whitespace().next())
        else {
            continue;
        };
        let feature = format!("CARGO_FEATURE_GASNET_CONDUIT_{}", name.to_uppercase());
        if env::var_os(feature).is_some() {
            list.push(format!("    &gasnet_conduit_{name}::CONDUIT,"));
        }
    }
    list.push("]\n".to_string());
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by Cargo"));
    fs::write(out.join("conduits.rs"), list.join("\n")).expect("OUT_DIR is writable");
}
