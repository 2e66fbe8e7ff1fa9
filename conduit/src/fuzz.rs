//! Parsers of the values of environment variables, which launchers pass on between hosts, for a
//! fuzzer ([`crate::conformance::fuzz`]).
#![forbid(unsafe_code)]

use crate::config::{Value, ValueType, TABLE};
use crate::conformance::fuzz::{number, Target};
use crate::size_spec::{self, Limit};
use gasnet_tools::parse;

/// All of them.
pub const TARGETS: &[Target] = &[("conduit-values", values)];

/// A value of one of the variables, and amounts.
fn values(mut bytes: &[u8]) {
    let variable = &TABLE[number(&mut bytes, 2) as usize % TABLE.len()];
    let text = String::from_utf8_lossy(bytes);
    match variable.parse(&text) {
        Ok(value) => drop(variable.kind.show(&value)),
        Err(why) => assert!(!why.is_empty() && !variable.complaint(&text).is_empty()),
    }
    for kind in [
        ValueType::Ranks,
        ValueType::Signals,
        ValueType::SegmentLimit,
        ValueType::Faults,
    ] {
        if let Ok(Value::Ranks(ranks)) = kind.parse(&text) {
            let _ = ranks.contains(1);
        }
    }
    let _ = (
        size_spec::part(&text),
        size_spec::size_in(&text, "M"),
        parse::size(&text, 1 << 40),
    );
    if let Some(limit) = Limit::parse(&text) {
        let _ = limit.bytes(1 << 40);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn parsers_take_any_bytes() {
        crate::conformance::fuzz::replay(super::TARGETS);
    }
}
