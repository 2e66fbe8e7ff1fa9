//! Who may speak: every datagram ends its header with a tag that only members of the job can make.
//!
//! The tag is SipHash-2-4 (J.-P. Aumasson and D. J. Bernstein, 2012) of the header, the high halves of the datagram's number and of those that it
//! acknowledges, which are not sent, and the universal hash of the payload ([`crate::clnh`]). A replayed datagram has a number that has come, or
//! belongs to another four billion, and so do its acknowledgements.
#![forbid(unsafe_code)]

use crate::clnh;
use crate::wire::{Have, HEADER, SEALED};
use siphasher::sip::SipHasher24;

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

    fn tag(&self, header: &[u8], number: u64, have: [Have; 2], hash: u64) -> u64 {
        let mut all = [0; SEALED + 20];
        all[..SEALED].copy_from_slice(&header[..SEALED]);
        for (i, number) in [number, have[0].next, have[1].next].into_iter().enumerate() {
            all[SEALED + 4 * i..SEALED + 4 * i + 4].copy_from_slice(&number.to_le_bytes()[4..]);
        }
        all[SEALED + 12..].copy_from_slice(&hash.to_le_bytes());
        SipHasher24::new_with_keys(self.sip.0, self.sip.1).hash(&all)
    }

    /// Puts the tag into an encoded header, of which `number` and `have` are the full numbers.
    pub fn seal(&self, header: &mut [u8; HEADER], number: u64, have: [Have; 2], hash: u64) {
        let tag = self.tag(header, number, have, hash);
        header[SEALED..].copy_from_slice(&tag.to_le_bytes());
    }

    /// Whether the tag is right. Its comparison takes the same time wherever it differs.
    pub fn proves(&self, header: &[u8; HEADER], number: u64, have: [Have; 2], payload: &[u8]) -> bool {
        let tag = self.tag(header, number, have, self.hash(payload)).to_le_bytes();
        let differs = tag.iter().zip(&header[SEALED..]).fold(0, |sum, (a, b)| sum | (a ^ b));
        differs == 0
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
        let have = |first, second| [first, second].map(|next| Have { next, beyond: 0 });
        keys.seal(&mut header, 77, have(5, 6), keys.hash(&payload));
        assert!(keys.proves(&header, 77, have(5, 6), &payload));
        for (number, first, second) in [(77 + BILLIONS, 5, 6), (77, 5 + BILLIONS, 6), (77, 5, 6 + BILLIONS)] {
            assert!(!keys.proves(&header, number, have(first, second), &payload));
        }
        assert!(!keys.proves(&header, 77, have(5, 6), &payload[1..]));
        assert!(!keys.proves(&header, 77, have(5, 6), &[]));
        assert!(!Keys::new(1, b"randoM").proves(&header, 77, have(5, 6), &payload));
        assert!(!Keys::new(2, b"random").proves(&header, 77, have(5, 6), &payload));
        for byte in 0..HEADER {
            let mut bad = header;
            bad[byte] ^= 1;
            assert!(!keys.proves(&bad, 77, have(5, 6), &payload), "{byte}");
        }
    }
}
