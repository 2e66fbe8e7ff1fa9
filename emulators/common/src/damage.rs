//! Fault `damage`: the last byte of operations of a kind and of some lengths has other bits.

use std::ops::RangeInclusive;

use crate::words::number;

/// The operations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage<K> {
    kind: K,
    lengths: RangeInclusive<u64>,
}

impl<K: Copy + PartialEq> Damage<K> {
    /// `KIND:BYTES` or `KIND:LEAST-MOST`, with one of these kinds.
    pub fn parse(text: &str, kinds: &[(&str, K)]) -> Result<Self, String> {
        let (name, lengths) = text.split_once(':').ok_or("needs KIND:BYTES or KIND:LEAST-MOST")?;
        let Some((_, kind)) = kinds.iter().find(|kind| kind.0 == name) else {
            let names: Vec<&str> = kinds.iter().map(|kind| kind.0).collect();
            return Err(format!("must begin with one of {}", names.join(", ")));
        };
        let (least, most) = lengths.split_once('-').unwrap_or((lengths, lengths));
        let lengths = number(least)?..=number(most)?;
        if lengths.is_empty() {
            return Err("needs LEAST before MOST".to_string());
        }
        Ok(Self { kind: *kind, lengths })
    }
}

/// Whether an operation is among these.
pub fn hits<K: Copy + PartialEq>(damages: &[Damage<K>], kind: K, length: u64) -> bool {
    let mut damages = damages.iter();
    length != 0 && damages.any(|damage| damage.kind == kind && damage.lengths.contains(&length))
}

/// Flips bits of the last byte.
pub fn corrupt(bytes: &mut [u8]) {
    if let Some(last) = bytes.last_mut() {
        *last ^= 0xa5;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_lengths_are_chosen() {
        let kinds = [("put", 1), ("get", 2)];
        let damages = ["put:100", "get:8-64"].map(|text| Damage::parse(text, &kinds).unwrap());
        assert!(hits(&damages, 1, 100) && hits(&damages, 2, 8) && hits(&damages, 2, 64));
        assert!(!hits(&damages, 1, 64) && !hits(&damages, 2, 100) && !hits(&damages, 2, 65));
        let none = Damage::parse("put:0-9", &kinds).unwrap();
        assert!(!hits(&[none], 1, 0), "nothing has no last byte");
        for (text, why) in [
            ("put", "needs KIND:BYTES or KIND:LEAST-MOST"),
            ("send:8", "must begin with one of put, get"),
            ("put:8-", "needs a number"),
            ("put:9-3", "needs LEAST before MOST"),
        ] {
            assert_eq!(Damage::parse(text, &kinds).unwrap_err(), why);
        }
    }

    #[test]
    fn the_last_byte_changes() {
        let mut bytes = [7; 3];
        corrupt(&mut bytes);
        assert!(bytes[..2] == [7, 7] && bytes[2] != 7);
        corrupt(&mut []);
    }
}
