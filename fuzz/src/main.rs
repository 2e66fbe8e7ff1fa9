//! Datagrams of a broken or hostile member of a job, chosen by what code they reach. See
//! `scripts/check/fuzz.sh`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gasnet_conduit_udp::fuzz(bytes));
