//! Checksums and counting of zero bytes.

// At most seven bytes are counted one by one.
#![allow(clippy::naive_bytecount)]

/// Number of zero bytes in a word.
pub fn zero_bytes_in(word: u64) -> u32 {
    const LOW: u64 = 0x7F7F_7F7F_7F7F_7F7F;
    // Bit 7 of each byte of `filled` is set exactly where the byte is not zero.
    let filled = ((word & LOW) + LOW) | word;
    8 - (filled & !LOW).count_ones()
}

/// Number of zero bytes.
pub fn zero_bytes(bytes: &[u8]) -> usize {
    let words = bytes.chunks_exact(8);
    let tail = words.remainder().iter().filter(|b| **b == 0).count();
    words.fold(tail, |sum, word| {
        let mut eight = [0; 8];
        eight.copy_from_slice(word);
        sum + zero_bytes_in(u64::from_ne_bytes(eight)) as usize
    })
}

/// A 64-bit checksum (FNV-1a): not cryptographic, the same on every machine.
pub fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros() {
        for word in [0, 1, 0x80, 0x0100_0000_0000_00FF, u64::MAX, 0x7F00_0001_8000_0000] {
            let expected = word.to_ne_bytes().iter().filter(|b| **b == 0).count();
            assert_eq!(zero_bytes_in(word) as usize, expected, "{word:x}");
        }
        let bytes: Vec<u8> = (0..100).map(|i| if i % 3 == 0 { 0 } else { i }).collect();
        for from in 0..9 {
            for to in from..bytes.len() {
                assert_eq!(
                    zero_bytes(&bytes[from..to]),
                    bytes[from..to].iter().filter(|b| **b == 0).count()
                );
            }
        }
    }

    #[test]
    fn checksums_differ() {
        assert_ne!(checksum(b"abc"), checksum(b"acb"));
        assert_ne!(checksum(b""), checksum(b"\0"));
        assert_eq!(checksum(b"abc"), checksum(b"abc"));
        // As published with FNV-1a.
        assert_eq!(checksum(b"foobar"), 0x8594_4171_F739_67E8);
    }
}
