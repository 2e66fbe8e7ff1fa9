//! Fuzzing of the receiver with mutated datagrams of every kind. [`unauthenticated`] sends them
//! without the job's keys, [`byzantine`] as a defective or hostile rank with the keys. `make fuzz`
//! sends more of them than the tests do, guided by coverage.
#![forbid(unsafe_code)]

pub mod byzantine;
#[cfg(test)]
mod unauthenticated;

use crate::wire::{at, HEADER_BYTES, MAC_OFFSET};

/// A source of choices.
pub trait Choices {
    /// A number of `bytes` bytes.
    fn number(&mut self, bytes: usize) -> u64;

    /// Whether the source is exhausted.
    fn is_over(&self) -> bool {
        false
    }

    /// A number below `limit`.
    fn below(&mut self, limit: usize) -> usize {
        let bytes = if limit <= 1 << 8 { 1 } else { 4 };
        self.number(bytes) as usize % limit.max(1)
    }

    /// One of these.
    fn one_of<T: Copy>(&mut self, all: &[T]) -> T
    where
        Self: Sized,
    {
        all[self.below(all.len())]
    }
}

/// Offset and length of a field in a datagram.
#[derive(Clone, Copy)]
pub struct Field {
    offset: usize,
    bytes: usize,
}

impl Field {
    pub const fn new(offset: usize, bytes: usize) -> Self {
        Self { offset, bytes }
    }
}

/// The fields of a header.
const FIELDS: [Field; 16] = [
    Field::new(at::JOB, 4),
    Field::new(at::VERSION, 1),
    Field::new(at::KIND, 1),
    Field::new(at::CLASS, 1),
    Field::new(at::FLAGS, 1),
    Field::new(at::SOURCE, 4),
    Field::new(at::NUMBER, 4),
    Field::new(at::MESSAGE, 4),
    Field::new(at::PART, 2),
    Field::new(at::PARTS, 2),
    Field::new(*at::ACK.requests(), 4),
    Field::new(*at::ACK.replies(), 4),
    Field::new(*at::SACK.requests(), 8),
    Field::new(*at::SACK.replies(), 8),
    Field::new(MAC_OFFSET, 8),
    Field::new(MAC_OFFSET + 8, 8),
];

/// Writes a field, if the datagram is long enough.
pub fn set(datagram: &mut [u8], field: Field, value: u64) {
    if let Some(bytes) = datagram.get_mut(field.offset..field.offset + field.bytes) {
        bytes.copy_from_slice(&value.to_le_bytes()[..field.bytes]);
    }
}

/// Mutates a datagram in one way, perhaps with a part of another one.
pub fn change(choices: &mut impl Choices, datagram: &mut Vec<u8>, other: &[u8]) {
    let offset = choices.below(datagram.len());
    match choices.below(8) {
        // Changes of the header are the most interesting ones.
        0 => flip(choices, datagram, HEADER_BYTES),
        1 => flip(choices, datagram, usize::MAX),
        2 => {
            let field = choices.one_of(&FIELDS);
            let any = choices.number(field.bytes);
            let value = choices.one_of(&[0, 1, u64::MAX, u64::MAX - 1, u64::MAX / 2, 1 << 31, any]);
            set(datagram, field, value);
        }
        3 => {
            let bytes = choices.below(16);
            for byte in datagram.iter_mut().skip(offset).take(bytes) {
                *byte = choices.number(1) as u8;
            }
        }
        4 => {
            let (from, bytes) = (choices.below(other.len()), choices.below(other.len() + 1));
            for (to, from) in datagram
                .iter_mut()
                .skip(offset)
                .zip(other.iter().skip(from).take(bytes))
            {
                *to = *from;
            }
        }
        5 => datagram.truncate(offset),
        6 => {
            let bytes = choices.one_of(&[1, 7, 8, 64, 1408]);
            let byte = choices.number(1) as u8;
            datagram.resize(datagram.len() + bytes, byte);
        }
        _ => datagram.extend_from_slice(other),
    }
}

fn flip(choices: &mut impl Choices, datagram: &mut [u8], most: usize) {
    let bits = 8 * datagram.len().min(most);
    let bit = choices.below(bits);
    if bits > 0 {
        datagram[bit / 8] ^= 1 << (bit % 8);
    }
}

/// The input of a coverage-guided fuzzer, followed by zeros.
#[cfg(fuzzing)]
struct FuzzInput<'a>(&'a [u8]);

#[cfg(fuzzing)]
impl Choices for FuzzInput<'_> {
    fn number(&mut self, bytes: usize) -> u64 {
        let (some, rest) = self.0.split_at(bytes.min(self.0.len()));
        self.0 = rest;
        some.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
    }

    fn is_over(&self) -> bool {
        self.0.is_empty()
    }
}

/// The parsers of this crate.
#[cfg(fuzzing)]
pub const TARGETS: &[gasnet_conduit::conformance::fuzz::Target] =
    &[("udp-address", address), ("udp-datagrams", run_input)];

/// The address of a process.
#[cfg(fuzzing)]
fn address(bytes: &[u8]) {
    use crate::peers::{decode_address, encode_address, ADDRESS_BYTES};
    for bytes in bytes.chunks_exact(ADDRESS_BYTES) {
        let address = decode_address(bytes);
        assert_eq!(decode_address(&encode_address(address)), address);
    }
}

/// Runs one scenario with the input of a coverage-guided fuzzer.
#[cfg(fuzzing)]
fn run_input(bytes: &[u8]) {
    use crate::mac::Keys;
    use std::rc::Rc;
    thread_local!(static KEYS: Rc<Keys> = Rc::new(Keys::new(9, b"fuzz")));
    KEYS.with(|keys| byzantine::attack(&mut FuzzInput(bytes), keys, || ()));
}

/// A pseudo-random generator: SplitMix64 (G. L. Steele et al., 2014).
#[cfg(test)]
struct Seeded(u64);

#[cfg(test)]
impl Choices for Seeded {
    fn number(&mut self, bytes: usize) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let once = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let twice = (once ^ once >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (twice ^ twice >> 31) >> (64 - 8 * bytes)
    }
}

/// The number of mutated datagrams, and the seed, from the environment. Prints its position when
/// the test fails.
#[cfg(test)]
struct Trial {
    rounds: u64,
    seed: u64,
    round: u64,
}

#[cfg(test)]
impl Trial {
    fn new(rounds: u64) -> Self {
        let number = |name, or| {
            std::env::var(name)
                .ok()
                .and_then(|text| text.parse().ok())
                .unwrap_or(or)
        };
        Self {
            rounds: number("GASNET_TEST_ROUNDS", rounds),
            seed: number("GASNET_TEST_SEED", 1),
            round: 0,
        }
    }
}

#[cfg(test)]
impl Drop for Trial {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("with GASNET_TEST_SEED={}, changed datagram {}", self.seed, self.round);
        }
    }
}
