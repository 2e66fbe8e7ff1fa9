//! A check of puts from memory that cannot be written, as compilers place constants.

use super::rma::{get, put, until_taken, with_target};
use super::Make;
use crate::{Cookie, LocalCompletion, SourceUse};

const BYTES: usize = 300_001;

/// In a section that is mapped read-only.
static CONSTANTS: [u8; BYTES] = {
    let mut table = [0; BYTES];
    let mut at = 0;
    while at < BYTES {
        table[at] = (at * 7 + at / 256) as u8;
        at += 1;
    }
    table
};

/// The source of a put may be read-only memory outside segments.
pub fn constants_are_put(make: Make<'_>) {
    with_target(make, BYTES, |network, target, parts| {
        for (i, bytes) in [8, 100, 2000, 5000, 70_001, BYTES].into_iter().enumerate() {
            for (j, source) in [SourceUse::Later, SourceUse::Now].into_iter().enumerate() {
                let [put_cookie, get_cookie] = [0, 1].map(|k| Cookie::new((4 * i + 2 * j + k) as u64));
                let from = &CONSTANTS[BYTES - bytes..];
                if until_taken(network, parts, || put(network, target, from, source, put_cookie))
                    == LocalCompletion::AtReturn
                {
                    parts.source_at_return(put_cookie);
                }
                parts.wait(network, "a put", |parts| parts.whole(put_cookie));
                let mut back = vec![0; bytes];
                until_taken(network, parts, || get(network, target, &mut back, get_cookie));
                parts.wait(network, "a get", |parts| parts.whole(get_cookie));
                assert!(back == from, "{bytes} constant bytes");
            }
        }
    });
}
