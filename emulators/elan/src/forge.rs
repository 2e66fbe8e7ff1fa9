//! Fault `forge`: a message of a queue or a port is altered.

use emulator_common::forge::{self, bits, size, Count};
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
}

/// The forgeries of a process, which counts messages of queues and of ports.
pub struct Forge {
    forgeries: Vec<Forgery>,
    queues: Count,
    ports: Count,
}

impl Forge {
    pub fn new(forgeries: Vec<Forgery>) -> Self {
        Self {
            forgeries,
            queues: Count::default(),
            ports: Count::default(),
        }
    }

    /// Counts a message of a queue. The bits of its head to flip.
    pub fn head(&self) -> u64 {
        let nth = self.queues.next();
        let of = |forgery: &Forgery| match forgery.change {
            Change::Head(bits) if forgery.nth == nth => bits,
            _ => 0,
        };
        self.forgeries.iter().map(of).fold(0, |all, bits| all ^ bits)
    }

    /// Counts a message of a port. Its other length.
    pub fn length(&self) -> Option<u64> {
        let nth = self.ports.next();
        self.forgeries.iter().find_map(|forgery| match forgery.change {
            Change::Length(bytes) if forgery.nth == nth => Some(bytes),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_by_kind() {
        let forgeries = ["head:2:0x1", "length:1:0xff"].map(|text| Forgery::parse(text).unwrap());
        let forge = Forge::new(forgeries.to_vec());
        assert_eq!([forge.head(), forge.head(), forge.head()], [0, 1, 0]);
        assert_eq!([forge.length(), forge.length()], [Some(255), None]);
        for text in ["head:1", "tail:1:1"] {
            assert!(Forgery::parse(text).is_err(), "{text}");
        }
    }
}
