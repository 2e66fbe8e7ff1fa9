//! Who may speak: every datagram ends its header with two tags that only members of the job can make.
//!
//! They are the halves of SipHash-2-4-128 (J.-P. Aumasson and D. J. Bernstein, 2012) of the header and of what both ends know without being told
//! ([`Known`], and how long the payload is): the first half as it is, the second masks the universal hash of the payload ([`crate::clnh`]), as M. N. Wegman
//! and J. L. Carter do it (1981). So a header proves itself before anybody looks at the payload, or even has it. Datagrams with the same header have the same
//! payload (its flags tell tries apart), so that one mask never goes with two hashes. A replayed datagram has a number that has come, or belongs to another four billion,
//! and so do its acknowledgements.
#![forbid(unsafe_code)]

use crate::clnh;
use crate::wire::{Known, HEADER, SEALED};
use siphasher::{sip::SipHasher24, sip128};

/// The secrets of a job.
#[derive(Debug)]
pub struct Keys {
    /// What every header begins with; tells jobs apart, proves nothing.
    pub job: u32,
    sip: (u64, u64),
    payload: clnh::Key,
}

impl Keys {
    /// From what only the job's processes know.
    pub fn new(token: u64, random: &[u8]) -> Self {
        let seed = [1, 2].map(|number| SipHasher24::new_with_keys(token, number).hash(random));
        let mut counter = 0u64;
        let mut word = || {
            counter += 1;
            SipHasher24::new_with_keys(seed[0], seed[1]).hash(&counter.to_le_bytes())
        };
        Self {
            job: word() as u32,
            sip: (word(), word()),
            payload: clnh::Key::new(word),
        }
    }

    /// The hash of a payload, which a sender keeps for the next time.
    pub fn hash(&self, payload: &[u8]) -> u64 {
        if payload.is_empty() {
            return 0;
        }
        self.payload.hash(payload)
    }

    /// What a header's first tag is, and what masks the hash of its payload, which is of so many bytes.
    fn tags(&self, header: &[u8; HEADER], known: &Known, bytes: usize) -> (u64, u64) {
        let mut all = [0; SEALED + 20];
        all[..SEALED].copy_from_slice(&header[..SEALED]);
        let high = [known.number, known.next[0], known.next[1]].map(|number| (number >> 32) as u32);
        let words = [known.target, bytes as u32, high[0], high[1], high[2]];
        for (to, word) in all[SEALED..].chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        sip128::SipHasher24::new_with_keys(self.sip.0, self.sip.1).hash(&all).as_u64()
    }

    /// Puts the tags into an encoded header, whose payload is of so many bytes and has this hash.
    pub fn seal(&self, header: &mut [u8; HEADER], known: &Known, (bytes, hash): (usize, u64)) {
        let (tag, mask) = self.tags(header, known, bytes);
        header[SEALED..SEALED + 8].copy_from_slice(&tag.to_le_bytes());
        header[SEALED + 8..].copy_from_slice(&(mask ^ hash).to_le_bytes());
    }

    /// The hash that the payload must have, if the header of a datagram with so many bytes behind it is of a member.
    pub fn opens(&self, header: &[u8; HEADER], known: &Known, bytes: usize) -> Option<u64> {
        let (tag, mask) = self.tags(header, known, bytes);
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| header[at + i]));
        (word(SEALED) == tag).then(|| word(SEALED + 8) ^ mask)
    }

    /// Whether both tags are right.
    pub fn proves(&self, header: &[u8; HEADER], known: &Known, payload: &[u8]) -> bool {
        self.opens(header, known, payload.len()) == Some(self.hash(payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BILLIONS: u64 = 1 << 32;

    #[test]
    fn only_the_very_same_is_proved() {
        let keys = Keys::new(1, b"random");
        let mut header = [3; HEADER];
        let payload = vec![5; 3000];
        let known = Known {
            target: 9,
            number: 77,
            next: [5, 6],
        };
        keys.seal(&mut header, &known, (payload.len(), keys.hash(&payload)));
        assert!(keys.proves(&header, &known, &payload));
        let (target, number, next) = (known.target, known.number, known.next);
        for other in [
            Known { target: 8, ..known },
            Known {
                number: number + BILLIONS,
                ..known
            },
            Known {
                next: [next[0] + BILLIONS, next[1]],
                ..known
            },
            Known {
                next: [next[0], next[1] + BILLIONS],
                ..known
            },
        ] {
            assert_eq!(keys.opens(&header, &other, payload.len()), None, "{other:?}, not {target}");
        }
        // The header proves itself, its length, and no other payload.
        assert_eq!(keys.opens(&header, &known, payload.len()), Some(keys.hash(&payload)));
        assert_eq!(keys.opens(&header, &known, payload.len() - 1), None);
        assert!(!keys.proves(&header, &known, &payload[1..]) && !keys.proves(&header, &known, &[]));
        let mut changed = payload.clone();
        changed[2999] ^= 128;
        assert!(!keys.proves(&header, &known, &changed));
        for stranger in [Keys::new(1, b"randoM"), Keys::new(2, b"random")] {
            assert_eq!(stranger.opens(&header, &known, payload.len()), None);
        }
        for byte in 0..HEADER {
            let mut bad = header;
            bad[byte] ^= 1;
            assert!(!keys.proves(&bad, &known, &payload), "{byte}");
            assert_eq!(
                keys.opens(&bad, &known, payload.len()).is_some(),
                byte >= SEALED + 8,
                "{byte}"
            );
        }
    }

    #[test]
    fn masks_differ() {
        let keys = Keys::new(1, b"random");
        let known = Known {
            target: 9,
            number: 77,
            next: [5, 6],
        };
        let seal = |first: u8, known: &Known| {
            let mut header = [first; HEADER];
            keys.seal(&mut header, known, (100, 0));
            header[SEALED + 8..].to_vec()
        };
        let all = [
            seal(1, &known),
            seal(2, &known),
            seal(
                1,
                &Known {
                    number: 77 + BILLIONS,
                    ..known
                },
            ),
        ];
        assert!(all[0] != all[1] && all[0] != all[2] && all[1] != all[2]);
    }
}
