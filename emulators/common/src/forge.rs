//! Fault `forge`: a message of a process is altered below it, as a corrupted process would send it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::random::Random;

/// `seed` alters one of the first messages, of which this many count.
const FIRST: u64 = 64;

/// A way to alter a message.
pub trait Change: Copy {
    /// The change of a word with its value. Err: the reason why there is none.
    fn parse(name: &str, value: Option<u64>) -> Result<Self, String>;

    /// Any.
    fn random(random: &Random) -> Self;

    /// The kind of messages that it is for, 0 or 1: these are counted by themselves.
    fn kind(&self) -> usize {
        0
    }
}

/// The nth message of a process is altered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Forgery<C> {
    pub change: C,
    pub nth: u64,
}

impl<C: Change> Forgery<C> {
    /// `CHANGE:N[:VALUE]`, or `seed:N`. A value may be hexadecimal.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut fields = text.split(':');
        let (name, nth) = (fields.next().unwrap_or_default(), fields.next().map(number));
        let nth = nth.ok_or("needs CHANGE:N")??;
        let value = fields.next().map(number).transpose()?;
        if fields.next().is_some() {
            return Err("has too many fields".to_string());
        }
        if name == "seed" {
            let random = Random::new(nth, 0);
            let nth = 1 + random.below(FIRST);
            let change = C::random(&random);
            return Ok(Self { change, nth });
        }
        let change = C::parse(name, value)?;
        Ok(Self { change, nth })
    }
}

/// The forgeries of a process, which counts its messages.
pub struct Forge<C> {
    forgeries: Vec<Forgery<C>>,
    counts: [Count; 2],
}

impl<C: Change> Forge<C> {
    pub fn new(forgeries: &[Forgery<C>]) -> Self {
        Self {
            forgeries: forgeries.to_vec(),
            counts: Default::default(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.forgeries.is_empty()
    }

    /// Counts a message of a kind. The changes of it.
    pub fn next(&self, kind: usize) -> impl Iterator<Item = C> + use<'_, C> {
        let nth = self.counts[kind].next();
        let is_due = move |forgery: &&Forgery<C>| forgery.change.kind() == kind && forgery.nth == nth;
        self.forgeries.iter().filter(is_due).map(|forgery| forgery.change)
    }
}

/// Decimal, or hexadecimal behind 0x.
fn number(text: &str) -> Result<u64, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|_| format!("{text} is no number"))
}

/// Bits to flip among the lowest `count`: one of them, or many.
pub fn bits(random: &Random, count: u64) -> u64 {
    let (bit, all) = (1 << random.below(count), u64::MAX >> (64 - count));
    match random.below(2) {
        0 => bit,
        _ => bit | random.next() & all,
    }
}

/// A number of up to `count` bits, of each length alike.
pub fn size(random: &Random, count: u64) -> u64 {
    random.next() >> (64 - count) >> random.below(count)
}

/// Counts messages or calls.
#[derive(Default)]
pub struct Count(AtomicU64);

impl Count {
    /// The number of the next one, from 1.
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Relaxed) + 1
    }

    /// Counts one; whether it is the nth.
    pub fn is(&self, nth: u64) -> bool {
        self.next() == nth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    struct Length(u64);

    impl Change for Length {
        fn parse(name: &str, value: Option<u64>) -> Result<Self, String> {
            value.filter(|_| name == "length").map(Self).ok_or(name.to_string())
        }
        fn random(random: &Random) -> Self {
            Self(size(random, 32))
        }
    }

    fn parse(text: &str) -> Result<(u64, u64), String> {
        Forgery::<Length>::parse(text).map(|it| (it.nth, it.change.0))
    }

    #[test]
    fn words_are_forgeries() {
        assert_eq!(parse("length:3:100"), Ok((3, 100)));
        assert_eq!(parse("length:3:0xff"), Ok((3, 255)));
        for text in [
            "length",
            "length:x:1",
            "length:1",
            "length:1:1:1",
            "width:1:1",
            "length:1:0y",
            "seed",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_seed_decides() {
        let all: Vec<_> = (0..50).map(|seed| parse(&format!("seed:{seed}")).unwrap()).collect();
        assert_eq!(parse("seed:7"), Ok(all[7]));
        assert!(all
            .iter()
            .all(|(nth, length)| (1..=FIRST).contains(nth) && *length < 1 << 32));
    }

    #[test]
    fn some_bit_is_flipped() {
        let random = Random::new(1, 0);
        assert!((0..1000).all(|_| (1..1 << 10).contains(&bits(&random, 10))));
    }
}
