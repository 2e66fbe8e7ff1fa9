//! Parsers of what peers and providers pass on, for a fuzzer
//! ([`gasnet_conduit::conformance::fuzz`]).
#![forbid(unsafe_code)]

use crate::boot_record::Names;
use crate::receive::place::extent;
use crate::wire::{is_request, Header, HEADER};
use gasnet_conduit::conformance::fuzz::{number, Target};
use gasnet_conduit::conformance::start_info;
use gasnet_conduit::{JobRank, PACKET_ALIGN};

/// All of them.
pub const TARGETS: &[Target] = &[("ofi-extent", extents), ("ofi-message", message), ("ofi-names", names)];

/// A message, with the job's token or without.
fn message(mut bytes: &[u8]) {
    const TOKEN: u64 = 0x0123_4567_89ab_cdef;
    let (is_member, ranks) = (number(&mut bytes, 1) % 2 == 0, number(&mut bytes, 1) as u32);
    let mut message = bytes.to_vec();
    if let Some(token) = message.get_mut(..8).filter(|_| is_member) {
        token.copy_from_slice(&TOKEN.to_ne_bytes());
    }
    let _ = is_request(&message);
    if let Ok((header, place)) = Header::decode(&message, TOKEN, ranks) {
        assert!(header.source.0 < ranks && place.start >= HEADER && place.end <= message.len());
        let mut again = message.clone();
        let front = header.encode(place.len(), &mut again);
        assert_eq!((front, message.len() % PACKET_ALIGN), (place.start, 0));
        assert_eq!(Header::decode(&again, TOKEN, ranks), Ok((header, place)));
    }
}

/// The place that a completion reports for a message.
fn extents(mut bytes: &[u8]) {
    let mut word = || number(&mut bytes, 8) as usize;
    let (address, length, first) = (word(), word(), word());
    let room = word().min(usize::MAX - first);
    if let Some(extent) = extent((address, length), (first, room)) {
        assert_eq!(first + extent.offset, address);
        assert!(extent.offset + extent.bytes <= room && extent.bytes <= length);
        assert!(!extent.is_whole || extent.bytes == length);
    }
}

/// The address and provider of another process.
fn names(bytes: &[u8]) {
    let all = [JobRank(0), JobRank(1)];
    let exchange = |own: &[u8]| {
        let mut theirs = bytes.to_vec();
        theirs.resize(own.len(), 0);
        [own, &theirs].concat()
    };
    let _ = Names::exchange(&start_info(JobRank(0), &all, &exchange), None, Some(b"name"));
}

#[cfg(test)]
mod tests {
    #[test]
    fn parsers_take_any_bytes() {
        gasnet_conduit::conformance::fuzz::replay(super::TARGETS);
    }
}
