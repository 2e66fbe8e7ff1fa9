//! Fault `forge`: a message that its target notices, or its event, arrives with bits flipped.

use emulator_common::forge::{self, bits};
use emulator_common::random::Random;

/// `seed` alters one of the first words, of which this many count: more than a packet's header has.
const WORDS: u64 = 4;
/// Bits of an event that `seed` leaves alone: the number of the sender, which nothing vouches for.
const SENDER_BITS: u32 = 22;

pub type Forgery = forge::Forgery<Change>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// The event at the target.
    Event(u32),
    /// The word of this index of the data, modulo their length.
    Word(usize, u64),
}

impl forge::Change for Change {
    fn parse(name: &str, value: Option<u64>) -> Result<Self, String> {
        let value = value.ok_or("needs CHANGE:N:BITS")?;
        match name.split_once('/') {
            None if name == "event" => Ok(Self::Event(value as u32)),
            None if name == "data" => Ok(Self::Word(0, value)),
            Some(("data", word)) => {
                let word = word.parse().map_err(|_| "needs a number behind a /")?;
                Ok(Self::Word(word, value))
            }
            _ => Err("begins with event, data or seed".to_string()),
        }
    }

    fn random(random: &Random) -> Self {
        match random.below(2) {
            0 => Self::Event((bits(random, 10) as u32) << SENDER_BITS),
            _ => Self::Word(random.below(WORDS) as usize, bits(random, 64)),
        }
    }

    fn kind(&self) -> usize {
        match self {
            Self::Event(_) => MESSAGE,
            Self::Word(..) => PUT,
        }
    }
}

pub type Forge = forge::Forge<Change>;

/// Kinds of messages: all, and puts among them.
const MESSAGE: usize = 0;
const PUT: usize = 1;

/// Counts a message. The changes of it.
pub fn next(forge: &Forge, is_put: bool) -> impl Iterator<Item = Change> + use<'_> {
    let of_put = is_put.then(|| forge.next(PUT));
    forge.next(MESSAGE).chain(of_put.into_iter().flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_forgeries() {
        let forgery = |change, nth| Ok(Forgery { change, nth });
        assert_eq!(Forgery::parse("event:3:0xf0"), forgery(Change::Event(0xf0), 3));
        assert_eq!(Forgery::parse("data:1:0x7"), forgery(Change::Word(0, 7), 1));
        assert_eq!(Forgery::parse("data/2:1:0x7"), forgery(Change::Word(2, 7), 1));
        for text in ["event:1", "data/x:1:0x7", "words:1:0x7"] {
            assert!(Forgery::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn puts_are_counted_by_themselves() {
        let forgeries = ["event:2:0x1", "data:2:0x2"].map(|text| Forgery::parse(text).unwrap());
        let forge = Forge::new(&forgeries);
        let changes = |is_put| next(&forge, is_put).collect::<Vec<_>>();
        let expected = [vec![], vec![Change::Event(1)], vec![Change::Word(0, 2)]];
        assert_eq!([true, false, true].map(changes), expected);
    }
}
