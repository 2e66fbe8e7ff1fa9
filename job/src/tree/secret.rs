//! Authentication of both ends of a new connection, before any other message is read, and of each
//! frame afterwards. The secret never travels on the connection: each end sends a nonce, and the
//! other returns a keyed hash of both nonces (SipHash-2-4, 128 bits).
//!
//! Caller: magic, nonce, and a voucher, a hash of both. It proves nothing, as it can be replayed,
//! but distinguishes callers that know the secret before they are answered. Answer: magic, nonce,
//! hash. Caller: its id, and a hash that covers the id. Acknowledgement: the first MAC of its
//! direction, of an empty frame. Then frames, each with a MAC, and one for its length
//! ([`super::frames`]).
#![forbid(unsafe_code)]

use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher24};

use gasnet_sys::mem::random_u64;

/// Bytes of the caller's first message, without the voucher.
pub const CALL_BYTES: usize = 24;
pub const ANSWER_BYTES: usize = 40;
pub const PROOF_BYTES: usize = 20;
pub const MAC_BYTES: usize = 16;

const MAGIC: [u8; 8] = *b"GASNETj2";

/// The secret of a job, known only to its processes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret([u8; 16]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// One direction of a connection. The MAC of a frame covers its number, so that no frame can be
/// changed, inserted, repeated or left out.
#[derive(Debug)]
pub struct Seal {
    key: Secret,
    next: u64,
}

impl Seal {
    /// The MAC of the next frame.
    pub fn mac(&mut self, frame: &[u8]) -> [u8; MAC_BYTES] {
        let mac = self.key.hash(b'm', &[&self.next.to_le_bytes(), frame]);
        self.next += 1;
        mac
    }
}

/// Both directions of a connection.
#[derive(Debug)]
pub struct Seals {
    /// For frames that this end sends.
    pub sent: Seal,
    /// For frames that it receives.
    pub received: Seal,
}

/// Random bytes of one end.
pub type Nonce = [u8; 16];

pub fn nonce() -> Nonce {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&random_u64().to_le_bytes());
    bytes[8..].copy_from_slice(&random_u64().to_le_bytes());
    bytes
}

impl Secret {
    pub fn new() -> Self {
        Self(nonce())
    }

    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// As text, for a private channel that takes words only.
    pub fn to_text(self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }

    /// The secret of a [`Secret::to_text`].
    pub fn from_text(text: &str) -> Option<Self> {
        let digits = Some(text).filter(|text| text.len() == 32)?;
        Some(Self(u128::from_str_radix(digits, 16).ok()?.to_be_bytes()))
    }

    fn hash(&self, purpose: u8, parts: &[&[u8]]) -> [u8; 16] {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write_u8(purpose);
        for part in parts {
            hasher.write(part);
        }
        hasher.finish128().as_bytes()
    }

    /// Names the job's local socket on a host with this identity. Only the job's processes can
    /// predict it: one that another user sees on a host is of no use on another host.
    pub fn socket_name(&self, host: &str) -> u128 {
        u128::from_le_bytes(self.hash(b'n', &[host.as_bytes()]))
    }

    /// The job's token, known to all ranks and to nobody else.
    pub fn token(&self) -> u128 {
        u128::from_le_bytes(self.hash(b't', &[]))
    }

    /// Shows a listener that the caller knows the secret, unless it repeats another one's message.
    pub fn voucher(&self, call: &[u8]) -> [u8; MAC_BYTES] {
        self.hash(b'v', &[call])
    }

    /// Hides `text` from processes without the secret, or shows it again: adds a stream of keyed
    /// hashes. Only for one text of a job: the sum of two hidden texts would be that of the texts.
    pub fn mask(&self, text: &mut [u8]) {
        for (number, block) in (0_u64..).zip(text.chunks_mut(MAC_BYTES)) {
            let key = self.hash(b'e', &[&number.to_le_bytes()]);
            block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        }
    }

    /// The answer to `call`. None if `call` is no call of this protocol.
    pub fn answer(&self, call: &[u8], own: &Nonce) -> Option<[u8; ANSWER_BYTES]> {
        let theirs = call.strip_prefix(&MAGIC)?;
        let mut answer = [0; ANSWER_BYTES];
        answer[..8].copy_from_slice(&MAGIC);
        answer[8..24].copy_from_slice(own);
        answer[24..].copy_from_slice(&self.hash(b'a', &[theirs, own]));
        Some(answer)
    }

    /// Seals from the caller to the called end, and back. Each connection has keys of its own.
    fn seals(&self, caller: &[u8], called: &[u8]) -> [Seal; 2] {
        [b'>', b'<'].map(|direction| Seal {
            key: Self(self.hash(direction, &[caller, called])),
            next: 0,
        })
    }

    /// The caller's proof, if the answer proves knowledge of the secret.
    pub fn prove(&self, own: &Nonce, answer: &[u8], host: u32) -> Option<([u8; PROOF_BYTES], Seals)> {
        let (theirs, hash) = answer.strip_prefix(&MAGIC)?.split_at_checked(16)?;
        if hash != self.hash(b'a', &[own, theirs]) {
            return None;
        }
        let number = host.to_le_bytes();
        let mut proof = [0; PROOF_BYTES];
        proof[..4].copy_from_slice(&number);
        proof[4..].copy_from_slice(&self.hash(b'c', &[own, theirs, &number]));
        let [sent, received] = self.seals(own, theirs);
        Some((proof, Seals { sent, received }))
    }

    /// The caller's id, if its proof is right.
    pub fn verify(&self, call: &[u8], own: &Nonce, proof: &[u8]) -> Option<(u32, Seals)> {
        let theirs = call.strip_prefix(&MAGIC)?;
        let (number, hash) = proof.split_first_chunk::<4>()?;
        let [received, sent] = self.seals(theirs, own);
        let is_right = hash == self.hash(b'c', &[theirs, own, number]);
        is_right.then(|| (u32::from_le_bytes(*number), Seals { sent, received }))
    }
}

/// Whether a first message may begin with these bytes.
pub fn may_be_call(front: &[u8]) -> bool {
    front.iter().zip(MAGIC).all(|(byte, magic)| *byte == magic)
}

/// The caller's first message, without the voucher.
pub fn call(own: &Nonce) -> [u8; CALL_BYTES] {
    let mut call = [0; CALL_BYTES];
    call[..8].copy_from_slice(&MAGIC);
    call[8..].copy_from_slice(own);
    call
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meet(caller: Secret, called: Secret) -> Option<(Seals, u32, Seals)> {
        let (a, b) = (nonce(), nonce());
        let call = call(&a);
        let answer = called.answer(&call, &b)?;
        let (proof, of_caller) = caller.prove(&a, &answer, 77)?;
        called
            .verify(&call, &b, &proof)
            .map(|(id, of_called)| (of_caller, id, of_called))
    }

    #[test]
    fn only_who_knows_the_secret_gets_through() {
        let secret = Secret::new();
        assert_eq!(meet(secret, secret).map(|(_, id, _)| id), Some(77));
        assert!(meet(secret, Secret::new()).is_none());
        assert_ne!(secret.token(), Secret::new().token());
        // The caller authenticates the other end, too; and a proof is worthless on another
        // connection.
        let (a, b, c) = (nonce(), nonce(), nonce());
        let answer = secret.answer(&call(&a), &b).unwrap();
        let (mut proof, _) = secret.prove(&a, &answer, 5).unwrap();
        assert!(secret.verify(&call(&a), &c, &proof).is_none());
        proof[0] ^= 1;
        assert!(secret.verify(&call(&a), &b, &proof).is_none());
        let mut forged = answer;
        forged[39] ^= 1;
        assert!(secret.prove(&a, &forged, 5).is_none());
        assert_eq!(secret.answer(b"GET / HTTP/1.1\r\n\r\n      ", &b), None);
        assert_eq!(secret.answer(b"", &b), None);
    }

    #[test]
    fn each_host_has_a_socket_name_of_its_own() {
        let secret = Secret::new();
        let name = secret.socket_name("a net:[1]");
        assert_eq!(name, secret.socket_name("a net:[1]"));
        for other in ["b net:[1]", "a net:[2]", ""] {
            assert_ne!(name, secret.socket_name(other), "{other}");
        }
        assert_ne!(name, Secret::new().socket_name("a net:[1]"));
    }

    #[test]
    fn a_masked_text_needs_the_secret() {
        let (secret, text) = (Secret::new(), vec![b'x'; 100]);
        let mut masked = text.clone();
        secret.mask(&mut masked);
        let blocks: Vec<_> = masked.chunks(MAC_BYTES).collect();
        assert!(blocks.iter().enumerate().all(|(i, block)| !blocks[..i].contains(block)));
        assert!(!masked.windows(4).any(|part| part == b"xxxx"));
        let mut other = masked.clone();
        Secret::new().mask(&mut other);
        secret.mask(&mut masked);
        assert!(masked == text && other != text);
    }

    #[test]
    fn a_mac_is_for_one_frame_of_one_direction() {
        let secret = Secret::new();
        let (mut caller, _, mut called) = meet(secret, secret).unwrap();
        let (mut other, ..) = meet(secret, secret).unwrap();
        let first = caller.sent.mac(b"frame");
        assert_eq!(first, called.received.mac(b"frame"));
        for mac in [
            caller.sent.mac(b"frame"),
            caller.received.mac(b"frame"),
            other.sent.mac(b"frame"),
        ] {
            assert_ne!(first, mac);
        }
    }
}
