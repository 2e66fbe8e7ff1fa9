//! Message authentication: every header ends with two MACs that only ranks of the job can compute.
//!
//! They are the halves of SipHash-2-4-128 (J.-P. Aumasson and D. J. Bernstein, 2012) of the header,
//! the implicit fields ([`ImplicitFields`]) and the payload length. The first half is sent as it
//! is. The second masks a universal hash of the payload ([`crate::clnh`]), the construction of M.
//! N. Wegman and J. L. Carter (1981). So a header can be verified before the payload is read, or
//! even received.
//!
//! Datagrams with equal headers have equal payloads, because the flags hold the transmission
//! number; no mask is ever used for two hashes. A replayed datagram has a number that was received
//! before, or the wrong implicit high half; the same holds for replayed acknowledgements.
#![forbid(unsafe_code)]

use crate::clnh;
use crate::wire::{ImplicitFields, HEADER_BYTES, MAC_OFFSET};
use siphasher::{sip::SipHasher24, sip128};

/// Length and hash of a payload.
#[derive(Clone, Copy, Debug)]
pub struct PayloadDigest {
    /// Length in bytes.
    pub bytes: usize,
    /// Its [`Keys::hash`].
    pub hash: u64,
}

/// The secret keys of a job.
#[derive(Debug)]
pub struct Keys {
    /// First field of every header. Tells jobs apart; it is not a secret.
    pub job: u32,
    sip: [u64; 2],
    payload: clnh::ClnhKey,
}

impl Keys {
    /// Derives the keys from secrets of the job.
    pub fn new(token: u128, random: &[u8]) -> Self {
        let hash = sip128::SipHasher24::new_with_key(&token.to_le_bytes()).hash(random);
        let seed = [hash.h1, hash.h2];
        let mut counter = 0u64;
        let mut word = || {
            counter += 1;
            SipHasher24::new_with_keys(seed[0], seed[1]).hash(&counter.to_le_bytes())
        };
        Self {
            job: word() as u32,
            sip: [word(), word()],
            payload: clnh::ClnhKey::new(word),
        }
    }

    /// The universal hash of a payload. Senders keep it for retransmissions.
    pub fn hash(&self, payload: &[u8]) -> u64 {
        if payload.is_empty() {
            return 0;
        }
        self.payload.hash(payload)
    }

    /// Length and hash of a payload.
    pub fn digest(&self, payload: &[u8]) -> PayloadDigest {
        PayloadDigest {
            bytes: payload.len(),
            hash: self.hash(payload),
        }
    }

    /// The MAC of a header and the mask for a payload of `bytes`.
    fn macs(&self, header: &[u8; HEADER_BYTES], implicit: &ImplicitFields, bytes: usize) -> (u64, u64) {
        let mut all = [0; MAC_OFFSET + 20];
        all[..MAC_OFFSET].copy_from_slice(&header[..MAC_OFFSET]);
        let numbers = [implicit.number, *implicit.next.requests(), *implicit.next.replies()];
        let high = numbers.map(|number| (number >> 32) as u32);
        let words = [implicit.target.0, bytes as u32, high[0], high[1], high[2]];
        for (to, word) in all[MAC_OFFSET..].chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        sip128::SipHasher24::new_with_keys(self.sip[0], self.sip[1])
            .hash(&all)
            .as_u64()
    }

    /// Writes the MACs into an encoded header.
    pub fn seal(&self, header: &mut [u8; HEADER_BYTES], implicit: &ImplicitFields, payload: PayloadDigest) {
        let (mac, mask) = self.macs(header, implicit, payload.bytes);
        header[MAC_OFFSET..MAC_OFFSET + 8].copy_from_slice(&mac.to_le_bytes());
        header[MAC_OFFSET + 8..].copy_from_slice(&(mask ^ payload.hash).to_le_bytes());
    }

    /// The hash that the payload must have, if the header of a datagram with `bytes` of payload is
    /// authentic.
    pub fn verify_header(&self, header: &[u8; HEADER_BYTES], implicit: &ImplicitFields, bytes: usize) -> Option<u64> {
        let (mac, mask) = self.macs(header, implicit, bytes);
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| header[at + i]));
        (word(MAC_OFFSET) == mac).then(|| word(MAC_OFFSET + 8) ^ mask)
    }

    /// Whether both MACs are right.
    pub fn verify(&self, header: &[u8; HEADER_BYTES], implicit: &ImplicitFields, payload: &[u8]) -> bool {
        self.verify_header(header, implicit, payload.len()) == Some(self.hash(payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::per_class::PerClass;
    use gasnet_conduit::JobRank;

    const NUMBER_SPACE: u64 = 1 << 32;

    #[test]
    fn only_the_exact_datagram_is_verified() {
        let keys = Keys::new(1, b"random");
        let mut header = [3; HEADER_BYTES];
        let payload = vec![5; 3000];
        let implicit = ImplicitFields {
            target: JobRank(9),
            number: 77,
            next: PerClass::new(5, 6),
        };
        keys.seal(&mut header, &implicit, keys.digest(&payload));
        assert!(keys.verify(&header, &implicit, &payload));
        let (target, number, next) = (implicit.target, implicit.number, implicit.next);
        for other in [
            ImplicitFields {
                target: JobRank(8),
                ..implicit
            },
            ImplicitFields {
                number: number + NUMBER_SPACE,
                ..implicit
            },
            ImplicitFields {
                next: PerClass::new(next.requests() + NUMBER_SPACE, *next.replies()),
                ..implicit
            },
            ImplicitFields {
                next: PerClass::new(*next.requests(), next.replies() + NUMBER_SPACE),
                ..implicit
            },
        ] {
            assert_eq!(
                keys.verify_header(&header, &other, payload.len()),
                None,
                "{other:?}, not {target}"
            );
        }
        // A header authenticates itself and the length, and no other payload.
        assert_eq!(
            keys.verify_header(&header, &implicit, payload.len()),
            Some(keys.hash(&payload))
        );
        assert_eq!(keys.verify_header(&header, &implicit, payload.len() - 1), None);
        assert!(!keys.verify(&header, &implicit, &payload[1..]) && !keys.verify(&header, &implicit, &[]));
        let mut changed = payload.clone();
        changed[2999] ^= 128;
        assert!(!keys.verify(&header, &implicit, &changed));
        for other_job in [
            Keys::new(1, b"randoM"),
            Keys::new(2, b"random"),
            Keys::new(1 | 1 << 127, b"random"),
        ] {
            assert_eq!(other_job.verify_header(&header, &implicit, payload.len()), None);
        }
        for byte in 0..HEADER_BYTES {
            let mut bad = header;
            bad[byte] ^= 1;
            assert!(!keys.verify(&bad, &implicit, &payload), "{byte}");
            assert_eq!(
                keys.verify_header(&bad, &implicit, payload.len()).is_some(),
                byte >= MAC_OFFSET + 8,
                "{byte}"
            );
        }
    }

    #[test]
    fn masks_differ() {
        let keys = Keys::new(1, b"random");
        let implicit = ImplicitFields {
            target: JobRank(9),
            number: 77,
            next: PerClass::new(5, 6),
        };
        let seal = |first: u8, implicit: &ImplicitFields| {
            let mut header = [first; HEADER_BYTES];
            keys.seal(&mut header, implicit, PayloadDigest { bytes: 100, hash: 0 });
            header[MAC_OFFSET + 8..].to_vec()
        };
        let all = [
            seal(1, &implicit),
            seal(2, &implicit),
            seal(
                1,
                &ImplicitFields {
                    number: 77 + NUMBER_SPACE,
                    ..implicit
                },
            ),
        ];
        assert!(all[0] != all[1] && all[0] != all[2] && all[1] != all[2]);
    }
}
