//! Bytes as text that every process manager stores unchanged: characters of `[A-Za-z0-9_-]`, never
//! empty, in pieces as long as the manager accepts.
//!
//! A text is the number of bytes in four hexadecimal digits, then the bytes in base64 with RFC
//! 4648's alphabet for file names, without padding. Managers differ in what else they accept:
//! spaces and `=` separate fields of PMI-1, `;` those of PMI-2. Cray's rejects `/` and changes
//! empty values.

use super::{KEY_MAX, VALUE_MAX};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const HEAD: usize = 4;
/// Characters of the longest key of [`piece_key`]: two separators, a rank and the number of a
/// piece.
pub const PIECE_KEY_MAX: usize = KEY_MAX + 1 + 10 + 1 + 4;
/// Least characters of a value that a manager must accept.
pub const PIECE_MIN: usize = 16;

/// The text for at max [`VALUE_MAX`] bytes.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = format!("{:04x}", bytes.len());
    for group in bytes.chunks(3) {
        let word = group
            .iter()
            .enumerate()
            .fold(0u32, |word, (i, &b)| word | u32::from(b) << (16 - 8 * i));
        let digits = (0..=group.len()).map(|i| ALPHABET[(word >> (18 - 6 * i)) as usize & 63] as char);
        text.extend(digits);
    }
    text
}

/// The length of the whole text that begins with `start`. None if `start` does not begin a text.
pub fn whole_length(start: &str) -> Option<usize> {
    let digits = start.get(..HEAD)?;
    let lower = |c: u8| matches!(c, b'0'..=b'9' | b'a'..=b'f');
    let bytes = usize::from_str_radix(digits, 16)
        .ok()
        .filter(|_| digits.bytes().all(lower))?;
    (bytes <= VALUE_MAX).then(|| HEAD + (bytes * 4).div_ceil(3))
}

/// The bytes of a text. None if [`encode`] does not produce it.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    if whole_length(text)? != text.len() {
        return None;
    }
    let digit = |c: u8| ALPHABET.iter().position(|&a| a == c).map(|d| d as u32);
    let mut bytes = Vec::new();
    for group in text.as_bytes()[HEAD..].chunks(4) {
        let mut word = 0;
        for (i, &c) in group.iter().enumerate() {
            word |= digit(c)? << (18 - 6 * i);
        }
        bytes.extend_from_slice(&word.to_be_bytes()[1..group.len()]);
    }
    Some(bytes)
}

/// The manager's key for a piece of a text. It differs between processes, because keys of PMI-1 are
/// global to the job.
pub fn piece_key(key: &str, owner: u32, piece: usize) -> String {
    match piece {
        0 => format!("{key}_{owner}"),
        _ => format!("{key}_{owner}_{piece}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        // RFC 4648, section 10.
        for (bytes, text) in [
            ("", "0000"),
            ("f", "0001Zg"),
            ("fo", "0002Zm8"),
            ("foo", "0003Zm9v"),
            ("foob", "0004Zm9vYg"),
        ] {
            assert_eq!(encode(bytes.as_bytes()), text);
        }
        assert_eq!(encode(&[0xfb, 0xef, 0xff]), "0003--__");
        for length in (0..70).chain([1022, 1023, 1024]) {
            let bytes: Vec<u8> = (0..length).map(|i| (i * 37 + length) as u8).collect();
            let text = encode(&bytes);
            assert_eq!(whole_length(&text), Some(text.len()));
            assert!(text
                .bytes()
                .all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_'));
            assert_eq!(decode(&text), Some(bytes));
        }
    }

    #[test]
    fn what_is_no_text() {
        for bad in [
            "", "000", "00x1Zg", "+001Zg", "000AZg", "0001Z", "0001Zg=", "0001Zgg", "0002Z/8", "0401", "ffff",
            "(null)", "000é",
        ] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }

    #[test]
    fn keys_of_pieces() {
        assert_eq!(piece_key("addr", 12, 0), "addr_12");
        assert_eq!(piece_key("addr", 12, 1), "addr_12_1");
        let max = encode(&[0; VALUE_MAX]).len().div_ceil(PIECE_MIN);
        let longest = piece_key(&"k".repeat(KEY_MAX), u32::MAX, max);
        assert!(longest.len() <= PIECE_KEY_MAX, "{longest}");
    }
}
