//! Patterns for memory (`GASNET_MALLOC_INITVAL`, `_CLOBBERVAL`, `GASNET_SD_INITVAL`).

use std::mem::MaybeUninit;

use crate::parse::{self, ParseError};

/// A pattern: one byte, or eight bytes, that repeat from the start of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill([u8; 8]);

const QUIET_NAN: u64 = 0x7ff8_dead_7ff8_dead;
const SIGNALING_NAN: u64 = 0x7ff4_dead_7ff4_dead;

impl Fill {
    /// The default: a signaling NaN, which is no valid address.
    pub const NAN: Self = Self(SIGNALING_NAN.to_ne_bytes());

    /// Parses `NAN`, `sNAN`, `qNAN`, a number from 0 to 255 (each byte), or another number (each 8
    /// bytes).
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let word = text.trim();
        if word.eq_ignore_ascii_case("NAN") || word.eq_ignore_ascii_case("sNAN") {
            return Ok(Self::NAN);
        }
        if word.eq_ignore_ascii_case("qNAN") {
            return Ok(Self(QUIET_NAN.to_ne_bytes()));
        }
        let number = parse::integer(word)?;
        Ok(u8::try_from(number).map_or(Self(number.to_ne_bytes()), |byte| Self([byte; 8])))
    }

    /// Fills memory.
    pub fn write(self, memory: &mut [MaybeUninit<u8>]) {
        for (place, byte) in memory.iter_mut().zip(self.0.iter().cycle()) {
            place.write(*byte);
        }
    }

    /// Whether all of `memory` contains the pattern.
    pub fn covers(self, memory: &[u8]) -> bool {
        memory.iter().zip(self.0.iter().cycle()).all(|(a, b)| a == b)
    }
}
