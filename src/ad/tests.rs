//! Offload to a conduit, and what comes back from a peer.

use std::sync::Mutex;

use super::*;
use crate::am::Arg;
use crate::event::FreeList;
use gasnet_conduit::{Class, ConduitError, Identity, JobRank, Limits, SegmentKey, StartInfo, Upcalls};

/// What a conduit was asked: type, operation, target, operands, whether the old value is wanted,
/// transfer.
type Asked = (u32, u32, usize, [u64; 2], bool, TransferId);

/// Has 64-bit additions and accessors, and performs them when told.
struct Nic {
    capabilities: Capabilities,
    full: bool,
    asked: Mutex<Vec<Asked>>,
}

impl Nic {
    fn new(capabilities: Capabilities, full: bool) -> Self {
        Self {
            capabilities,
            full,
            asked: Mutex::new(Vec::new()),
        }
    }
}

const NIC_OPS: u32 = codes::ADD | codes::fetch(codes::ADD) | codes::GET | codes::SET;

impl Conduit for Nic {
    fn identity(&self) -> Identity {
        Identity {
            name: "nic",
            version: "0",
        }
    }
    fn limits(&self) -> Limits {
        Limits {
            max_packet_bytes: 1024,
            max_ranks: 2,
            rails: 1,
        }
    }
    fn start(&self, _: &StartInfo<'_>) -> Result<(), ConduitError> {
        Ok(())
    }
    fn send(&self, _: JobRank, _: Class, _: &[&[u8]]) -> Result<(), Busy> {
        Err(Busy)
    }
    fn poll(&self, _: PollScope, _: &mut dyn Upcalls) -> usize {
        0
    }
    fn stop(&self) {}
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }
    fn atomic_support(&self, dt: u32, op: u32) -> bool {
        assert!(op.is_power_of_two());
        dt == codes::U64 && NIC_OPS & op != 0
    }
    fn atomic(
        &self,
        peer: JobRank,
        segment: &RemoteSegment,
        dt: u32,
        op: u32,
        target: usize,
        operands: [u64; 2],
        fetched: *mut u8,
        id: TransferId,
    ) -> Result<(), Busy> {
        assert!(peer == JobRank(1) && segment.contains(target, 8));
        if self.full {
            return Err(Busy);
        }
        if !fetched.is_null() {
            // SAFETY: the caller's result of eight bytes.
            unsafe { fetched.cast::<u64>().write(77) };
        }
        self.asked
            .lock()
            .unwrap()
            .push((dt, op, target, operands, !fetched.is_null(), id));
        Ok(())
    }
}

const PEER: Location = Location {
    rank: JobRank(1),
    ep: 0,
};
const SEGMENT: RemoteSegment = RemoteSegment {
    base: 4096,
    bytes: 4096,
    key: SegmentKey { words: [0; 8] },
    on_device: false,
};

fn call(op: u32, result: *mut u64) -> Call {
    Call {
        dt: codes::U64,
        op,
        target: 4104,
        operands: [3, 0],
        result: result.cast(),
    }
}

#[test]
fn a_conduit_serves_a_domain_if_it_has_all_of_its_operations() {
    let nic = Nic::new(Capabilities::ATOMICS, false);
    assert!(offered(&nic, codes::U64, NIC_OPS) && offered(&nic, codes::U64, codes::GET));
    assert!(!offered(&nic, codes::U64, NIC_OPS | codes::SWAP));
    assert!(!offered(&nic, codes::I64, codes::ADD));
    assert!(!offered(&Nic::new(Capabilities::RMA, false), codes::U64, codes::ADD));
}

#[test]
fn an_offloaded_operation_counts_in_its_category_until_the_conduit_says_so() {
    let nic = Nic::new(Capabilities::ATOMICS, false);
    let mut old = 0u64;
    let cases = [
        (codes::fetch(codes::ADD), 8, true),
        (codes::ADD, 8, false),
        (codes::GET, 4, true),
        (codes::SET, 1, false),
    ];
    for (op, category, fetches) in cases {
        let counted = FreeList::new().take();
        native(&nic, PEER, &SEGMENT, &call(op, &mut old), counted, true).unwrap();
        let (dt, asked, target, operands, wanted, id) = nic.asked.lock().unwrap().pop().unwrap();
        assert_eq!(
            (dt, asked, target, operands, wanted),
            (codes::U64, op, 4104, [3, 0], fetches),
            "{op:#x}"
        );
        assert!(!counted.is_done(category) && counted.is_done(31 & !category), "{op:#x}");
        transfer::finish(id);
        assert!(counted.is_done(31));
    }
    assert_eq!(old, 77);
}

#[test]
fn an_immediate_operation_that_finds_no_room_leaves_nothing() {
    let counted = FreeList::new().take();
    let mut old = 5u64;
    let refused = native(
        &Nic::new(Capabilities::ATOMICS, true),
        PEER,
        &SEGMENT,
        &call(codes::GET, &mut old),
        counted,
        true,
    );
    assert!(refused.is_err() && counted.is_done(31) && old == 5);
}

fn arguments(id: TransferId, words: &[Arg]) -> Vec<Arg> {
    let mut args = vec![(id.0 >> 32) as Arg, id.0 as Arg];
    args.extend_from_slice(words);
    args
}

#[test]
fn answers_are_taken_once_and_only_as_asked_for() {
    let mut old = [0u64; 2];
    let fetching = call(codes::fetch(codes::ADD), old.as_mut_ptr());
    let counted = FreeList::new().take();
    let id = fetching.begin(counted, JobRank(0));
    for bad in [&[][..], &[1][..], &[1, 2, 3][..]] {
        assert!(!packets::on_done(&arguments(id, bad)), "{bad:?}");
    }
    assert!(!packets::on_done(&[]) && !packets::on_done(&[0]) && !counted.is_done(31));
    assert!(packets::on_done(&arguments(id, &[-2, 1])) && counted.is_done(31));
    assert_eq!(old, [0x1_ffff_fffe, 0]);
    assert!(!packets::on_done(&arguments(id, &[-2, 1])));

    let narrow = Call {
        dt: codes::FLT,
        ..fetching
    };
    let id = narrow.begin(counted, JobRank(0));
    old = [0; 2];
    assert!(packets::on_done(&arguments(id, &[-1])) && counted.is_done(31));
    assert_eq!(old[0].to_ne_bytes(), [255, 255, 255, 255, 0, 0, 0, 0]);

    for op in [codes::ADD, codes::SET] {
        let id = call(op, std::ptr::null_mut()).begin(counted, JobRank(0));
        assert!(!packets::on_done(&arguments(id, &[1, 1])) && !counted.is_done(31));
        assert!(packets::on_done(&arguments(id, &[])) && counted.is_done(31));
    }
}
