//! One parser of bytes that another process chooses, under libFuzzer: `FUZZ_TARGET` names it.
//! Without the variable, prints the names of all. See `scripts/check/fuzz.sh`.
#![no_main]

use std::sync::OnceLock;

static PARSER: OnceLock<fn(&[u8])> = OnceLock::new();

/// The parser that the environment names.
fn parser() -> fn(&[u8]) {
    let all = [
        gasnet::FUZZ_TARGETS,
        gasnet_conduit::FUZZ_TARGETS,
        gasnet_conduit_elan::FUZZ_TARGETS,
        gasnet_conduit_gni::FUZZ_TARGETS,
        gasnet_conduit_ibv::FUZZ_TARGETS,
        gasnet_conduit_ofi::FUZZ_TARGETS,
        gasnet_conduit_udp::FUZZ_TARGETS,
        gasnet_job::FUZZ_TARGETS,
    ];
    let all = all.into_iter().flatten();
    let Ok(wanted) = std::env::var("FUZZ_TARGET") else {
        all.for_each(|(name, _)| println!("{name}"));
        std::process::exit(0);
    };
    let found = all.clone().find(|(name, _)| *name == wanted);
    found
        .unwrap_or_else(|| panic!("FUZZ_TARGET={wanted}: there is no such parser"))
        .1
}

libfuzzer_sys::fuzz_target!(
    init: { PARSER.get_or_init(parser); },
    |bytes: &[u8]| PARSER.get_or_init(parser)(bytes)
);
