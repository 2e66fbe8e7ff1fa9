//! Offload to a conduit, and what comes back from a peer.

use std::sync::Mutex;

use super::*;
use crate::am::Arg;
use crate::event::FreeList;
use gasnet_conduit::{Completion, RemoteSegment};

/// Has 64-bit additions and accessors, and performs them when the test lets it.
#[derive(Default)]
struct Nic {
    full: bool,
    started: Mutex<Vec<Atomic>>,
}

// SAFETY: the pointers in `started` are to results on the stack of the thread that uses the Nic.
unsafe impl Sync for Nic {}

const NIC_OPS: u32 = codes::ADD | codes::fetch(codes::ADD) | codes::GET | codes::SET;

impl Atomics for Nic {
    fn supports(&self, dt: u32, op: u32) -> bool {
        assert!(op.is_power_of_two());
        dt == codes::U64 && NIC_OPS & op != 0
    }
    fn atomic(&self, atomic: &Atomic) -> Result<(), Busy> {
        if self.full {
            return Err(Busy);
        }
        if !atomic.fetched.is_null() {
            // SAFETY: the caller's result of eight bytes.
            unsafe { atomic.fetched.cast::<u64>().write(77) };
        }
        self.started.lock().unwrap().push(*atomic);
        Ok(())
    }
}

const PEER: Location = Location {
    rank: JobRank(1),
    ep: 0,
};
const TARGET: RemoteMemory = RemoteMemory {
    peer: PEER.rank,
    segment: RemoteSegment(5),
    address: 4104,
};

fn call(op: u32, result: *mut u64) -> Call {
    Call {
        dt: codes::U64,
        op,
        target: TARGET.address,
        operands: [3, 0],
        result: result.cast(),
    }
}

#[test]
fn a_conduit_serves_a_domain_if_it_has_all_of_its_operations() {
    let nic = Nic::default();
    assert!(offered(&nic, codes::U64, NIC_OPS) && offered(&nic, codes::U64, codes::GET));
    assert!(!offered(&nic, codes::U64, NIC_OPS | codes::SWAP));
    assert!(!offered(&nic, codes::I64, codes::ADD));
}

#[test]
fn an_offloaded_operation_counts_in_its_category_until_the_conduit_says_so() {
    let nic = Nic::default();
    let mut old = 0u64;
    let cases = [
        (codes::fetch(codes::ADD), 8, true),
        (codes::ADD, 8, false),
        (codes::GET, 4, true),
        (codes::SET, 1, false),
    ];
    for (op, category, fetches) in cases {
        let counted = FreeList::new().take();
        by_network(&nic, TARGET, &call(op, &mut old), counted, true).unwrap();
        let started = nic.started.lock().unwrap().pop().unwrap();
        assert_eq!(
            (started.dt, started.op, started.operands, !started.fetched.is_null()),
            (codes::U64, op, [3, 0], fetches),
            "{op:#x}"
        );
        assert_eq!(
            (started.target.peer, started.target.segment, started.target.address),
            (TARGET.peer, TARGET.segment, TARGET.address)
        );
        assert!(!counted.is_done(category) && counted.is_done(31 & !category), "{op:#x}");
        native::done(started.cookie, Completion::Both);
        assert!(counted.is_done(31));
    }
    assert_eq!(old, 77);
}

#[test]
fn an_immediate_operation_that_finds_no_room_leaves_nothing() {
    let counted = FreeList::new().take();
    let mut old = 5u64;
    let nic = Nic {
        full: true,
        ..Nic::default()
    };
    let refused = by_network(&nic, TARGET, &call(codes::GET, &mut old), counted, true);
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
    let on_done = |args: &[Arg]| packets::on_done(JobRank(0), args);
    let id = fetching.begin(counted, JobRank(0));
    for bad in [&[][..], &[1][..], &[1, 2, 3][..]] {
        assert!(!on_done(&arguments(id, bad)), "{bad:?}");
    }
    assert!(!on_done(&[]) && !on_done(&[0]) && !counted.is_done(31));
    assert!(!packets::on_done(JobRank(1), &arguments(id, &[-2, 1])) && !counted.is_done(31));
    assert!(on_done(&arguments(id, &[-2, 1])) && counted.is_done(31));
    assert_eq!(old, [0x1_ffff_fffe, 0]);
    assert!(!on_done(&arguments(id, &[-2, 1])));

    let narrow = Call {
        dt: codes::FLT,
        ..fetching
    };
    let id = narrow.begin(counted, JobRank(0));
    old = [0; 2];
    assert!(on_done(&arguments(id, &[-1])) && counted.is_done(31));
    assert_eq!(old[0].to_ne_bytes(), [255, 255, 255, 255, 0, 0, 0, 0]);

    for op in [codes::ADD, codes::SET] {
        let id = call(op, std::ptr::null_mut()).begin(counted, JobRank(0));
        assert!(!on_done(&arguments(id, &[1, 1])) && !counted.is_done(31));
        assert!(on_done(&arguments(id, &[])) && counted.is_done(31));
    }
}

#[test]
fn nics_in_software_compute_what_the_cpu_does() {
    use gasnet_conduit::atomic_values;
    let floats = [0.0, -0.0, 1.5, -2.75, 1e30, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    let bits = |dt| {
        let of_float = |x: f64| match dt {
            codes::FLT => (x as f32).to_bits().into(),
            _ => x.to_bits(),
        };
        let integers = [0, 1, 5, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 1 << 63, u64::MAX];
        floats.map(of_float).into_iter().chain(integers).collect::<Vec<u64>>()
    };
    let mut compared = 0;
    for dt in [codes::I32, codes::U32, codes::I64, codes::U64, codes::FLT, codes::DBL] {
        let used = if codes::bytes(dt) == 4 {
            u64::from(u32::MAX)
        } else {
            u64::MAX
        };
        let is_nan = |value: u64| match dt {
            codes::FLT => f32::from_bits(value as u32).is_nan(),
            codes::DBL => f64::from_bits(value).is_nan(),
            _ => false,
        };
        let ops = (0..32).map(|bit| 1 << bit).filter(|op| codes::operations(dt) & op != 0);
        for (op, old, a) in ops.flat_map(|op| {
            let values = bits(dt);
            let pairs = values
                .clone()
                .into_iter()
                .flat_map(move |old| values.clone().into_iter().map(move |a| (old, a)));
            pairs.map(move |(old, a)| (op, old & used, a & used))
        }) {
            let mut memory = old;
            // SAFETY: eight bytes that nobody else uses; a shorter type has the low ones.
            let seen = unsafe { cpu::perform_wire(dt, (&raw mut memory).cast(), op, [a, old]) };
            let after = atomic_values::after(dt, op, old, [a, old]);
            assert!(op == codes::SET || seen == Some(old), "{dt:#x} {op:#x}");
            let after = after.expect("an operation of the type");
            assert!(
                after == memory || (is_nan(after) && is_nan(memory)),
                "{dt:#x} {op:#x} of {old:#x} and {a:#x}: {after:#x}, but {memory:#x} by the CPU"
            );
            compared += 1;
        }
    }
    assert!(compared > 10_000, "{compared}");
}
