//! Parsers of what peers send, for a fuzzer ([`gasnet_conduit::conformance::fuzz`]).
#![forbid(unsafe_code)]

use crate::boot_record::BootRecord;
use crate::connect::file;
use crate::connect::handshake::Datagram;
use crate::connect::policy::exchange;
use crate::eager_rdma::{self, Report, Rings, Slot, SlotHeader};
use crate::memory::Keys;
use crate::ports::filter::Filter;
use crate::receive::offer::Offer;
use crate::wire;
use gasnet_conduit::conformance::fuzz::{number, Target};
use gasnet_conduit::conformance::start_info;
use gasnet_conduit::{JobRank, SegmentMemory};
use gasnet_conduit_util::record::{records, Record};
use std::sync::atomic::AtomicU64;

/// All of them.
pub const TARGETS: &[Target] = &[
    ("ibv-datagram", datagram),
    ("ibv-boot-record", record),
    ("ibv-keys", keys),
    ("ibv-lists", lists),
    ("ibv-note", note),
    ("ibv-ring", ring),
    ("ibv-text", text),
];

/// A datagram that connects queue pairs.
fn datagram(bytes: &[u8]) {
    if let Some(datagram) = Datagram::decode(bytes) {
        assert_eq!(Datagram::decode(&datagram.encode()), Some(datagram));
    }
}

/// Boot records of all processes.
fn record(bytes: &[u8]) {
    let all: Vec<BootRecord> = records(bytes).collect();
    for (rank, one) in (0..).zip(&all) {
        let encoded: [u8; BootRecord::BYTES] = one.encode();
        assert_eq!(BootRecord::decode(&encoded), *one);
        let _ = BootRecord::agree(&all, JobRank(rank));
    }
}

/// The keys of a segment, and those for some of its addresses.
fn keys(mut bytes: &[u8]) {
    let rails = number(&mut bytes, 1) as usize % 4 + 1;
    let (base, length) = (number(&mut bytes, 8) as usize, number(&mut bytes, 8) as usize);
    let memory = SegmentMemory::host(base, length);
    if let Some(keys) = Keys::read(&memory, bytes, rails) {
        for address in [base, base + length / 2, base + length, 0, usize::MAX] {
            assert!(keys.at(address, rails - 1, rails).1 > 0);
        }
    }
}

/// The peers that each process wants to be connected to at start.
fn lists(bytes: &[u8]) {
    let all = [JobRank(0), JobRank(1)];
    let exchange = |own: &[u8]| {
        let mut theirs = bytes.to_vec();
        theirs.resize(own.len(), 0);
        [own, &theirs].concat()
    };
    let lists = self::exchange(&start_info(JobRank(0), &all, &exchange), &[JobRank(1)]);
    assert!(lists.len() == 2 && lists.iter().all(|list| list.len() <= 2));
}

/// The immediate data of a message, and notes.
fn note(mut bytes: &[u8]) {
    let word = number(&mut bytes, 4) as u32;
    let (kind, source, credits) = wire::decode(word);
    assert_eq!(wire::encode(kind, source, credits), word);
    if bytes.len() == Offer::BYTES {
        let offer = Offer::decode(bytes);
        let encoded: [u8; Offer::BYTES] = offer.encode();
        assert_eq!(Offer::decode(&encoded), offer);
    }
    if let Some(report) = Report::read(bytes) {
        Rings::default().take(report);
        let encoded: [u8; Report::BYTES] = report.encode();
        assert_eq!(encoded, bytes);
    }
}

/// A message in a ring, parts of which are overwritten.
fn ring(mut bytes: &[u8]) {
    let length = number(&mut bytes, 2) as usize % (eager_rdma::LARGEST + 1);
    let (message, mut changes) = bytes.split_at(length.min(bytes.len()));
    let mut slot = Slot::new();
    slot.fill(&[message], message.len());
    let header = SlotHeader { word: 7, taken: 8 };
    let mut memory = slot.complete(9, message.len(), header).to_vec();
    memory.resize(eager_rdma::BYTES / 64, 0);
    while !changes.is_empty() {
        let place = number(&mut changes, 2) as usize % memory.len();
        memory[place] ^= number(&mut changes, 1) as u8;
    }
    let words = memory.chunks_exact(8).map(|mut word| number(&mut word, 8));
    let words: Vec<AtomicU64> = words.map(AtomicU64::new).collect();
    if let Some((length, _)) = Slot::new().load(&words, 9) {
        assert!(length <= eager_rdma::LARGEST);
    }
}

/// Connect files and lists of ports.
fn text(mut bytes: &[u8]) {
    let size = number(&mut bytes, 2) as u32;
    let text = String::from_utf8_lossy(bytes);
    let _ = text.parse::<Filter>();
    if let Ok(peers) = file::parse(&text, JobRank(1), size) {
        assert!(peers.iter().all(|peer| peer.0 < size && peer.0 != 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Kind;
    use gasnet_conduit::conformance::fuzz::{replay, seed};
    use gasnet_conduit::Class;

    #[test]
    fn parsers_take_any_bytes() {
        replay(TARGETS);
    }

    /// Seeds of formats that change are written anew with them.
    #[test]
    fn seeds_decode() {
        for (name, length) in [("offer", Offer::BYTES), ("report", Report::BYTES)] {
            let bytes = seed("ibv-note", name);
            let word = number(&mut &bytes[..], 4) as u32;
            assert_eq!(wire::decode(word), (Kind::Note, JobRank(3), 0));
            assert_eq!(bytes.len() - 4, length, "{name}");
        }
        let offer = Offer::decode(&seed("ibv-note", "offer")[4..]);
        assert_eq!((offer.memory.address, offer.memory.rkey), (0x1000, 7));
        assert_eq!((offer.bytes, offer.number), (70_000, 1));
        assert_eq!((offer.class, offer.path), (Class::Reply, 1));
        assert!(Report::read(&seed("ibv-note", "report")[4..]).is_some_and(|report| report.taken == 5));

        let bytes = seed("ibv-boot-record", "two");
        assert_eq!(bytes.len(), 2 * BootRecord::BYTES);
        let all: Vec<BootRecord> = records(&bytes).collect();
        for rank in [0, 1] {
            assert_eq!(BootRecord::agree(&all, JobRank(rank)), Ok(()));
            let BootRecord {
                paths, pkeys, mailbox, ..
            } = all[rank as usize];
            assert_eq!((paths, pkeys[3], mailbox.number), (4, 0x8012, 0xabcd));
        }
    }
}
