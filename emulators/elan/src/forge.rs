//! Fault `forge`: a message of a queue or a port is altered.

use emulator_common::forge::{self, bits, size};
use emulator_common::random::Random;

pub type Forgery = forge::Forgery<Change>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// The first 8 bytes of a message of a queue.
    Head(u64),
    /// The length with which a message of a port arrives in an offered buffer.
    Length(u64),
}

impl forge::Change for Change {
    fn parse(name: &str, value: Option<u64>) -> Result<Self, String> {
        let value = value.ok_or("needs CHANGE:N:VALUE")?;
        match name {
            "head" => Ok(Self::Head(value)),
            "length" => Ok(Self::Length(value)),
            _ => Err("begins with head, length or seed".to_string()),
        }
    }

    fn random(random: &Random) -> Self {
        match random.below(4) {
            0 => Self::Length(size(random, 40)),
            // The length behind the number of the sender, which nothing vouches for.
            _ => Self::Head(bits(random, 32) << 32),
        }
    }

    fn kind(&self) -> usize {
        match self {
            Self::Head(_) => QUEUE,
            Self::Length(_) => PORT,
        }
    }
}

pub type Forge = forge::Forge<Change>;

/// Kinds of messages: of queues, and of ports.
const QUEUE: usize = 0;
const PORT: usize = 1;

/// Counts a message of a queue. The bits of its head to flip.
pub fn head(forge: &Forge) -> u64 {
    let bits = |change| match change {
        Change::Head(bits) => bits,
        Change::Length(_) => 0,
    };
    forge.next(QUEUE).map(bits).fold(0, |all, bits| all ^ bits)
}

/// Counts a message of a port. Its other length.
pub fn length(forge: &Forge) -> Option<u64> {
    forge.next(PORT).find_map(|change| match change {
        Change::Length(bytes) => Some(bytes),
        Change::Head(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_by_kind() {
        let forgeries = ["head:2:0x1", "length:1:0xff"].map(|text| Forgery::parse(text).unwrap());
        let forge = Forge::new(&forgeries);
        assert_eq!([head(&forge), head(&forge), head(&forge)], [0, 1, 0]);
        assert_eq!([length(&forge), length(&forge)], [Some(255), None]);
        for text in ["head:1", "tail:1:1"] {
            assert!(Forgery::parse(text).is_err(), "{text}");
        }
    }
}
