//! Puts, gets, events and collectives.

use std::ptr;
use std::thread;

use super::{Area, Random, Run};
use crate::abi::coll::{gex_Coll_BarrierNB, gex_Coll_BroadcastNB, gex_Coll_ReduceToAllNB};
use crate::abi::event::{
    gex_Event_QueryLeaf, gex_Event_Test, gex_Event_TestSome, gex_Event_Wait, gex_Event_WaitAll,
    gex_NBI_BeginAccessRegion, gex_NBI_EndAccessRegion, gex_NBI_Wait,
};
use crate::abi::rma::{
    gex_RMA_GetBlocking, gex_RMA_GetBlockingVal, gex_RMA_GetNB, gex_RMA_GetNBI, gex_RMA_PutBlocking,
    gex_RMA_PutBlockingVal, gex_RMA_PutNB, gex_RMA_PutNBI,
};
use crate::event::Event;
use crate::flags::{Flags, EC_ALL, EC_LC};
use crate::progress;
use crate::rules::{LC_DEFER, LC_NOW};
use crate::types::Rank;
use gasnet_conduit::PollScope;

/// `GEX_DT_U64`.
const U64: u32 = 1 << 3;
/// `GEX_OP_ADD`.
const ADD: u32 = 1 << 3;

/// Lengths: small, odd, around powers of two, and larger than a message.
fn lengths(area: Area) -> impl Iterator<Item = usize> {
    let all = [
        0, 1, 2, 3, 7, 8, 63, 64, 65, 511, 4096, 4097, 65_535, 65_536, 65_537, 200_001,
    ];
    all.into_iter().filter(move |&bytes| bytes <= area.bytes)
}

/// Puts and gets return the same data, and change nothing beside it.
fn put_and_get(run: &Run, area: Area, random: &mut Random) {
    for bytes in lengths(area) {
        let offset = random.below(area.bytes - bytes + 1);
        let at = (area.base + offset) as *mut u8;
        let sent = random.bytes(bytes);
        gex_RMA_PutBlocking(run.args.tm, run.args.peer, at, sent.as_ptr(), bytes, Flags::NONE);
        let mut got = vec![0xa5; bytes + 1];
        gex_RMA_GetBlocking(run.args.tm, got.as_mut_ptr(), run.args.peer, at, bytes, Flags::NONE);
        run.check(
            got[..bytes] == sent && got[bytes] == 0xa5,
            format_args!("{bytes} bytes at offset {offset}: a get returned other data than the put"),
        );
    }
    for bytes in 1..=8usize.min(area.bytes) {
        let value = random.word() >> (64 - 8 * bytes);
        let at = (area.base + random.below(area.bytes - 7)) as *mut u8;
        gex_RMA_PutBlockingVal(run.args.tm, run.args.peer, at, value, bytes, Flags::NONE);
        let got = gex_RMA_GetBlockingVal(run.args.tm, run.args.peer, at, bytes, Flags::NONE);
        run.check(
            got == value,
            format_args!("a value of {bytes} bytes: {got:#x}, expected {value:#x}"),
        );
    }
}

/// Puts and gets in the peer's area, then one pattern over the whole area.
pub fn patterns(run: &Run) {
    if run.remote.bytes < 64 || run.own.bytes < 64 {
        return;
    }
    let mut random = Random(run.args.seed ^ u64::from(run.rank.0));
    for _ in 0..(run.args.iterations / 50).max(1) {
        put_and_get(run, run.remote, &mut random);
    }
    let bytes = run.remote.bytes.min(1 << 20);
    let pattern = Random(run.args.seed).bytes(bytes);
    run.barrier();
    gex_RMA_PutBlocking(
        run.args.tm,
        run.args.peer,
        run.remote.base as *mut u8,
        pattern.as_ptr(),
        bytes,
        Flags::NONE,
    );
    run.barrier();
    let bytes = bytes.min(run.own.bytes);
    // SAFETY: this rank's segment, which no rank writes between the barriers.
    let own = unsafe { std::slice::from_raw_parts(run.own.base as *const u8, bytes) };
    run.check(
        own == &pattern[..bytes],
        format_args!("this segment does not contain the pattern that the peer put"),
    );
}

/// Many outstanding operations, with every kind of synchronisation.
pub fn events(run: &Run) {
    const MANY: usize = 64;
    if run.remote.bytes < 64 * MANY {
        return;
    }
    let mut random = Random(run.args.seed ^ 3 ^ u64::from(run.rank.0));
    let at = |i: usize| (run.remote.base + 64 * i) as *mut u8;
    for round in 0..(run.args.iterations / 10).max(1) {
        let sent: Vec<Vec<u8>> = (0..MANY).map(|_| random.bytes(64)).collect();
        let mut events: Vec<Event> = Vec::new();
        for (i, piece) in sent.iter().enumerate() {
            let mut leaf = Event::INVALID;
            // SAFETY: the source lives until the events are done; `leaf` is writable.
            let root = unsafe {
                gex_RMA_PutNB(
                    run.args.tm,
                    run.args.peer,
                    at(i),
                    piece.as_ptr(),
                    64,
                    if i % 2 == 0 { &raw mut leaf } else { LC_DEFER },
                    Flags::NONE,
                )
            };
            if i % 2 == 0 && !root.is_invalid() {
                run.check(
                    gex_Event_QueryLeaf(root, EC_LC) == leaf || leaf.is_invalid(),
                    format_args!("two leaves of one root differ"),
                );
            }
            events.push(root);
        }
        sync(run, &mut events, round);
        let mut got = vec![vec![0u8; 64]; MANY];
        if round % 2 == 0 {
            let mut events: Vec<Event> = (0..MANY)
                .map(|i| gex_RMA_GetNB(run.args.tm, got[i].as_mut_ptr(), run.args.peer, at(i), 64, Flags::NONE))
                .collect();
            sync(run, &mut events, round / 2);
        } else {
            gex_NBI_BeginAccessRegion(Flags::NONE);
            for (i, piece) in got.iter_mut().enumerate() {
                gex_RMA_GetNBI(run.args.tm, piece.as_mut_ptr(), run.args.peer, at(i), 64, Flags::NONE);
            }
            gex_Event_Wait(gex_NBI_EndAccessRegion(Flags::NONE));
        }
        run.check(
            got == sent,
            format_args!("round {round}: gets with events returned other data than the puts"),
        );
        gex_RMA_PutNBI(
            run.args.tm,
            run.args.peer,
            at(0),
            sent[1].as_ptr(),
            64,
            LC_NOW,
            Flags::NONE,
        );
        gex_NBI_Wait(EC_ALL, Flags::NONE);
    }
}

/// Synchronises all `events`: by WaitAll, TestSome or Test.
fn sync(run: &Run, events: &mut [Event], way: u32) {
    // SAFETY: the array is of that length.
    unsafe {
        match way % 3 {
            0 => gex_Event_WaitAll(events.as_mut_ptr(), events.len(), Flags::NONE),
            1 => {
                while events.iter().any(|e| !e.is_invalid()) {
                    if gex_Event_TestSome(events.as_mut_ptr(), events.len(), Flags::NONE) != 0 {
                        progress::poll(PollScope::All);
                    }
                }
            }
            _ => {
                for event in events.iter_mut().rev() {
                    while gex_Event_Test(*event) != 0 {
                        progress::poll(PollScope::All);
                    }
                    *event = Event::INVALID;
                }
            }
        }
    }
    run.check(
        events.iter().all(|e| e.is_invalid()),
        format_args!("an event is valid after all were synchronised"),
    );
}

/// Concurrent collectives, whose only progress is by polls.
pub fn collectives(run: &Run) {
    for round in 0..u64::from((run.args.iterations / 50).max(1)) {
        let root = Rank((round % u64::from(run.size)) as u32);
        let mut data = Random(run.args.seed ^ round ^ if run.rank == root { 0 } else { 9 }).bytes(5000);
        let address = data.as_mut_ptr();
        let (mine, mut sum) = ([u64::from(run.rank.0) + round, 1], [0u64; 2]);
        let mut events = [
            gex_Coll_BroadcastNB(run.args.tm, root, address, address, 5000, Flags::NONE),
            gex_Coll_ReduceToAllNB(
                run.args.tm,
                (&raw mut sum).cast(),
                (&raw const mine).cast(),
                U64,
                8,
                2,
                ADD,
                None,
                ptr::null_mut(),
                Flags::NONE,
            ),
            gex_Coll_BarrierNB(run.args.tm, Flags::NONE),
        ];
        sync(run, &mut events, 1);
        let size = u64::from(run.size);
        run.check(
            data == Random(run.args.seed ^ round).bytes(5000),
            format_args!("broadcast {round} from rank {root}: wrong data"),
        );
        let expected = [size * round + size * (size - 1) / 2, size];
        run.check(
            sum == expected,
            format_args!("reduction {round}: {sum:?}, expected {expected:?}"),
        );
    }
}

/// Concurrent threads put and get, each in its part of the area.
pub fn of_threads(run: &Run) {
    thread::scope(|scope| {
        for i in 0..run.args.threads {
            scope.spawn(move || {
                let area = run.remote.part(i, run.args.threads);
                let mut random = Random(run.args.seed ^ (i as u64) << 32 ^ u64::from(run.rank.0));
                if area.bytes >= 64 {
                    for _ in 0..(run.args.iterations / 50).max(1) {
                        put_and_get(run, area, &mut random);
                    }
                }
            });
        }
    });
}
