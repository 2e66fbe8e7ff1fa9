//! Fault `forge`: a message that has immediate data is altered.

use emulator_common::forge::{self, bits, size};
use emulator_common::random::Random;

pub type Forgery = forge::Forgery<Change>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// An RDMA write with immediate data instead, whose completion has this length.
    Write(u32),
    /// Another length.
    Length(u32),
    /// An immediate word with these bits flipped.
    Imm(u32),
    /// No immediate word.
    NoImm,
    /// Other bits in its byte of this index, modulo its length.
    Byte(u32),
}

impl forge::Change for Change {
    fn parse(name: &str, value: Option<u64>) -> Result<Self, String> {
        let value = || match value.map(u32::try_from) {
            Some(Ok(value)) => Ok(value),
            Some(Err(_)) => Err("has too large a number".to_string()),
            None => Err("needs CHANGE:N:VALUE".to_string()),
        };
        Ok(match name {
            "write" => Self::Write(value()?),
            "length" => Self::Length(value()?),
            "imm" => Self::Imm(value()?),
            "no-imm" => Self::NoImm,
            "byte" => Self::Byte(value()?),
            _ => return Err("begins with write, length, imm, no-imm, byte or seed".to_string()),
        })
    }

    fn random(random: &Random) -> Self {
        match random.below(7) {
            0 => Self::Write(size(random, 32) as u32),
            1 | 2 => Self::Length(size(random, 20) as u32),
            3 => Self::NoImm,
            4 | 5 => Self::Imm(bits(random, 32) as u32),
            _ => Self::Byte(size(random, 16) as u32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_forgeries() {
        let forgery = |change, nth| Ok(Forgery { change, nth });
        assert_eq!(Forgery::parse("write:3:8000000"), forgery(Change::Write(8_000_000), 3));
        assert_eq!(Forgery::parse("imm:1:0xffffff"), forgery(Change::Imm(0xff_ffff), 1));
        assert_eq!(Forgery::parse("no-imm:2"), forgery(Change::NoImm, 2));
        assert_eq!(Forgery::parse("byte:1:7"), forgery(Change::Byte(7), 1));
        for text in ["write:3", "imm:1:0x100000000", "nothing:1", "no-imm"] {
            assert!(Forgery::parse(text).is_err(), "{text}");
        }
    }
}
