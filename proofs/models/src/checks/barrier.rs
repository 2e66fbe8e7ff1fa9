//! `src/shm/barrier_cells.rs` and `src/barrier/stage.rs`.

use std::sync::Arc;

use loom::thread;

use super::Data;
use crate::atomic::{AtomicU64, Ordering};
use crate::barrier::plan_of;
use crate::barrier::stage::{Participant, Stage, WORDS};
use crate::doubles::conduit::JobRank;
use crate::shm::barrier_cells::{Cells, Flags, Name};

struct Shared {
    cells: Cells,
    /// Written by each rank before each phase.
    data: Vec<Vec<Data>>,
}

/// Runs `rank`: it writes, enters with its name, waits, and reads what all ranks wrote before.
/// `names` is by phase, then rank.
fn take_part(shared: &Shared, rank: usize, names: &[Vec<Name>], expected: &[Name], leader_releases: bool) {
    let ranks = names[0].len() as u32;
    for (phase, (names, &expected)) in names.iter().zip(expected).enumerate() {
        shared.data[phase][rank].set(7);
        let number = phase as u32;
        if shared.cells.arrive(number, ranks, names[rank]) {
            if leader_releases {
                shared.cells.set_ready(number);
            } else {
                shared.cells.release(number, shared.cells.name(number));
            }
        }
        let name = loop {
            if leader_releases && rank == 0 && shared.cells.result(number).is_none() && shared.cells.is_ready(number) {
                shared.cells.release(number, shared.cells.name(number));
            }
            if let Some(name) = shared.cells.result(number) {
                break name;
            }
            thread::yield_now();
        };
        assert_eq!(name, expected);
        assert!(shared.data[phase].iter().all(|d| d.get() == 7));
    }
}

fn run(names: &[Vec<Name>], expected: &[Name], leader_releases: bool) {
    let ranks = names[0].len();
    let data = names
        .iter()
        .map(|_| (0..ranks).map(|_| Data::default()).collect())
        .collect();
    let shared = Arc::new(Shared {
        cells: Cells::default(),
        data,
    });
    let threads: Vec<_> = (1..ranks)
        .map(|rank| {
            let (shared, names, expected) = (Arc::clone(&shared), names.to_vec(), expected.to_vec());
            thread::spawn(move || take_part(&shared, rank, &names, &expected, leader_releases))
        })
        .collect();
    take_part(&shared, 0, names, expected, leader_releases);
    threads.into_iter().for_each(|t| t.join().unwrap());
}

use Name::{Anonymous, Mismatch, Named};

/// Three ranks enter and check once (loom cannot handle two threads that wait in a loop);
/// afterwards the phase is complete.
/// Catches: arrival not acquire or not release; `done` not release; test not acquire; names not
/// merged atomically.
pub fn three_ranks() {
    let shared = Arc::new(Shared {
        cells: Cells::default(),
        data: vec![(0..3).map(|_| Data::default()).collect()],
    });
    let names = [Named(4), Anonymous, Named(4)];
    let enter = move |shared: &Shared, rank: usize| {
        shared.data[0][rank].set(7);
        if shared.cells.arrive(0, 3, names[rank]) {
            shared.cells.release(0, shared.cells.name(0));
        }
        let name = shared.cells.result(0);
        if name.is_some() {
            assert!(shared.data[0].iter().all(|d| d.get() == 7));
        }
        assert!(name.is_none_or(|n| n == Named(4)));
    };
    let threads = [1, 2].map(|rank| {
        let shared = Arc::clone(&shared);
        thread::spawn(move || enter(&shared, rank))
    });
    enter(&shared, 0);
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(shared.cells.result(0), Some(Named(4)));
}

/// The third phase reuses the words of the first.
/// Catches: words not cleared at release; cleared after `done`.
pub fn three_phases() {
    run(
        &[
            vec![Named(1), Named(2)],
            vec![Named(3), Anonymous],
            vec![Anonymous, Named(5)],
        ],
        &[Mismatch, Named(3), Named(5)],
        false,
    );
}

/// As with several neighbourhoods.
/// Catches: `ready` not release; its load not acquire.
pub fn leader_releases() {
    run(
        &[vec![Named(1), Anonymous], vec![Anonymous, Named(9)], vec![Anonymous; 2]],
        &[Named(1), Named(9), Anonymous],
        true,
    );
}

/// Two ranks with flags, over three phases.
/// Catches: arrival not release; load not acquire; flags that do not distinguish phases.
pub fn flags() {
    struct Shared {
        flags: Flags,
        data: Vec<[Data; 2]>,
    }
    const NAMES: [[Name; 2]; 3] = [[Named(1), Anonymous], [Named(2), Named(3)], [Anonymous, Named(4)]];
    const RESULTS: [Name; 3] = [Named(1), Mismatch, Named(4)];
    let shared = Arc::new(Shared {
        flags: Flags::default(),
        data: NAMES.map(|_| Default::default()).into(),
    });
    let take_part = |shared: &Shared, rank: usize| {
        for (phase, result) in RESULTS.into_iter().enumerate() {
            shared.data[phase][rank].set(7);
            shared.flags.arrive(phase as u32, rank, NAMES[phase][rank]);
            let name = loop {
                if let Some(name) = shared.flags.result(phase as u32, 2) {
                    break name;
                }
                thread::yield_now();
            };
            assert_eq!(name, result);
            assert!(shared.data[phase].iter().all(|d| d.get() == 7));
        }
    };
    let other = Arc::clone(&shared);
    let other = thread::spawn(move || take_part(&other, 1));
    take_part(&shared, 0);
    other.join().unwrap();
}

/// Two participants of a stage, over three barriers: the third reuses the slots of the first.
/// Catches: load not acquire.
pub fn stage() {
    const NAMES: [[Name; 2]; 3] = [[Named(1), Anonymous], [Named(2), Named(3)], [Anonymous, Named(4)]];
    const RESULTS: [Name; 3] = [Named(1), Mismatch, Named(4)];
    let words = [0, 1].map(|_| &*(0..WORDS).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak());
    let participant = |index| Participant {
        process: JobRank(index as u32),
        first: 0,
    };
    let data: Arc<Vec<[Data; 2]>> = Arc::new(NAMES.map(|_| Default::default()).into());
    let take_part = move |data: &[[Data; 2]], rank: usize| {
        let stage = Stage::new(&plan_of(rank, 2, false), participant, words[rank]);
        for (phase, result) in RESULTS.into_iter().enumerate() {
            data[phase][rank].set(7);
            let name = loop {
                let write = |to: JobRank, at: u32, word| {
                    words[to.0 as usize][at as usize].store(word, Ordering::Release);
                    true
                };
                if let Some(name) = stage.advance(phase as u32, NAMES[phase][rank], write) {
                    break name;
                }
                thread::yield_now();
            };
            assert_eq!(name, result);
            assert!(data[phase].iter().all(|d| d.get() == 7));
        }
    };
    let other = Arc::clone(&data);
    let other = thread::spawn(move || take_part(&other, 1));
    take_part(&data, 0);
    other.join().unwrap();
}
