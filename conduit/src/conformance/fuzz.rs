//! Parsers of bytes that another process chooses, for fuzzing. `make fuzz` runs them under
//! libFuzzer; a unit test of each crate runs them on their seeds and on mutations of those.

use std::fs;
use std::path::{Path, PathBuf};

/// A parser and its name, which is also the folder of its seeds in `proofs/fuzz/corpus`. It panics
/// where bytes have an effect that no bytes may have.
pub type Target = (&'static str, fn(&[u8]));

/// Takes a little-endian number of at most 8 bytes off the front. Zeros follow the end.
pub fn number(from: &mut &[u8], bytes: usize) -> u64 {
    let (front, rest) = from.split_at(bytes.min(from.len()));
    *from = rest;
    front
        .iter()
        .rev()
        .fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Runs each parser on nothing, on its seeds, on all their prefixes, and on `GASNET_TEST_ROUNDS`
/// mutations (1000).
pub fn replay(targets: &[Target]) {
    let rounds = std::env::var("GASNET_TEST_ROUNDS").ok();
    let rounds: u64 = rounds.and_then(|rounds| rounds.parse().ok()).unwrap_or(1000);
    for (name, run) in targets {
        run(&[]);
        let seeds = seeds(name);
        for seed in &seeds {
            for length in 0..=seed.len() {
                run(&seed[..length]);
            }
        }
        let mut state = 1;
        for _ in 0..rounds {
            let index = next(&mut state) as usize;
            let mut input = seeds.get(index % seeds.len().max(1)).cloned().unwrap_or_default();
            for _ in 0..=next(&mut state) % 4 {
                mutate(&mut input, next(&mut state));
            }
            run(&input);
        }
    }
}

/// A committed seed of a parser, for tests that it still is what its name says.
pub fn seed(parser: &str, name: &str) -> Vec<u8> {
    let file = folder(parser).join(name);
    fs::read(&file).unwrap_or_else(|why| panic!("{}: {why}", file.display()))
}

fn folder(parser: &str) -> PathBuf {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proofs/fuzz/corpus");
    corpus.join(parser)
}

/// The committed seeds of a parser, in the order of their names.
pub fn seeds(name: &str) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(folder(name)).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

/// SplitMix64 (G. L. Steele et al., 2014).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let once = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let twice = (once ^ once >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    twice ^ twice >> 31
}

/// Flips a bit, writes a number that is often at an edge, cuts, or appends.
fn mutate(input: &mut Vec<u8>, choice: u64) {
    let place = (choice >> 32) as usize % (input.len() + 1);
    let width = [1, 2, 4, 8][(choice >> 8) as usize % 4].min(input.len() - place);
    let edge = [0, 1, u64::MAX, u64::MAX >> 1, 1 << 31, choice][(choice >> 16) as usize % 6];
    match choice % 8 {
        0..3 if place < input.len() => input[place] ^= 1 << (choice >> 8 & 7),
        0..6 => input[place..place + width].copy_from_slice(&edge.to_le_bytes()[..width]),
        6 => input.truncate(place),
        _ => input.extend(edge.to_le_bytes()),
    }
}
