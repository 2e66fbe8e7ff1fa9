//! Options of an emulator: words "name" or "name=value" between spaces, in an environment variable.
//! [`words!`](crate::words!) declares them, a row each: field, type, default, word, and parser.

use std::fmt::Display;
use std::str::FromStr;

/// Options that [`words!`](crate::words!) declares.
pub trait Words: Default {
    /// The environment variable.
    const VARIABLE: &'static str;

    /// Takes a word. None: there is no such word.
    fn set(&mut self, name: &str, value: &str) -> Option<Result<(), String>>;

    /// All words.
    fn names() -> Vec<&'static str>;

    /// Checks the options together.
    fn check(&self) -> Result<(), String>;

    /// Parses the value of the variable.
    fn parse(text: &str) -> Result<Self, String> {
        let mut words = Self::default();
        words.take(text)?;
        words.check()?;
        Ok(words)
    }

    /// Takes words between spaces.
    fn take(&mut self, text: &str) -> Result<(), String> {
        for word in text.split_whitespace() {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let unknown = || format!("no such option; known: {}", Self::names().join(" "));
            let result = self.set(name, value).unwrap_or_else(|| Err(unknown()));
            result.map_err(|why| format!("{word}: {why}"))?;
        }
        Ok(())
    }

    /// Reads the variable.
    fn of_environment() -> Result<Self, String> {
        let name = Self::VARIABLE;
        let text = std::env::var(name).map_err(|_| format!("{name} is not set; use scripts/with-emulator"))?;
        Self::parse(&text).map_err(|why| format!("{name}: {why}"))
    }
}

/// Declares a struct of options, with its defaults. A row is `field: type = default, "word" =>
/// parser;`. With `+=` each word adds to a list. `set_word` takes one of these words, `WORDS`.
#[macro_export]
macro_rules! words {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $(
        $(#[$doc:meta])* $part:vis $field:ident: $type:ty = $default:expr $(, $word:literal $does:tt $parser:expr)* ;
    )* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        #[allow(clippy::struct_excessive_bools, reason = "a word without a value is a flag")]
        $vis struct $name { $( $(#[$doc])* $part $field: $type, )* }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $field: $default, )* }
            }
        }

        impl $name {
            pub const WORDS: &[&str] = &[ $( $( $word, )* )* ];

            pub fn set_word(&mut self, name: &str, value: &str) -> Option<Result<(), String>> {
                Some(match name {
                    $( $( $word => $crate::words!(@take self.$field, $does, $parser, value), )* )*
                    _ => return None,
                })
            }
        }
    };
    (@take $place:expr, =>, $parser:expr, $value:expr) => { ($parser)($value).map(|it| $place = it) };
    (@take $place:expr, +=, $parser:expr, $value:expr) => { ($parser)($value).map(|it| $place.push(it)) };
}

/// Parser of a flag.
pub fn yes(_: &str) -> Result<bool, String> {
    Ok(true)
}

/// Parser of a word that clears a flag.
pub fn no(_: &str) -> Result<bool, String> {
    Ok(false)
}

pub fn text(text: &str) -> Result<String, String> {
    Ok(text.to_string())
}

pub fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "needs a number".to_string())
}

/// The number of an operation, from 1.
pub fn nth(text: &str) -> Result<u64, String> {
    let number = number(text).ok().filter(|&number| number > 0);
    number.ok_or_else(|| "needs a number from 1".to_string())
}

pub fn hexadecimal(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).map_err(|_| "needs a hexadecimal number".to_string())
}

pub fn percent(text: &str) -> Result<u32, String> {
    let number = number(text).ok().filter(|&percent| percent <= 100);
    number.ok_or_else(|| "needs a number up to 100".to_string())
}

/// Parser of a number in a range.
pub fn within<T: Copy + FromStr + PartialOrd + Display>(least: T, most: T) -> impl Fn(&str) -> Result<T, String> {
    move |text| {
        let number = number(text).ok().filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| format!("needs a number from {least} to {most}"))
    }
}

/// Parser of one of two names.
pub fn either<T: Copy>(one: (&str, T), other: (&str, T)) -> impl Fn(&str) -> Result<T, String> {
    let [one, other] = [one, other].map(|(name, value)| (name.to_string(), value));
    move |text| match text {
        text if text == one.0 => Ok(one.1),
        text if text == other.0 => Ok(other.1),
        _ => Err(format!("must be {} or {}", one.0, other.0)),
    }
}

/// Fields between colons.
pub fn fields<const N: usize>(text: &str) -> Result<[&str; N], String> {
    let fields: Vec<&str> = text.split(':').collect();
    fields
        .try_into()
        .map_err(|_| format!("needs {N} numbers between colons"))
}

/// The folder of the fabric must be named.
pub fn check_dir(dir: &str) -> Result<(), String> {
    if dir.is_empty() {
        return Err("dir=FOLDER is missing".to_string());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    words! {
        struct Options {
            seed: u64 = 1, "seed" => number;
            is_late: bool = false, "late" => yes, "early" => no;
            kinds: Vec<u32> = Vec::new(), "kind" += within(1, 3);
            size: u32 = 0, "size" => either(("small", 8), ("large", 64));
        }
    }
    impl Words for Options {
        const VARIABLE: &'static str = "EMU_NOTHING";
        fn set(&mut self, name: &str, value: &str) -> Option<Result<(), String>> {
            self.set_word(name, value)
        }
        fn names() -> Vec<&'static str> {
            Self::WORDS.to_vec()
        }
        fn check(&self) -> Result<(), String> {
            Ok(())
        }
    }

    #[test]
    fn words_set_fields() {
        let options = Options::parse(" kind=1 late seed=7 kind=3  size=large").unwrap();
        assert_eq!((options.seed, options.is_late, options.size), (7, true, 64));
        assert_eq!(options.kinds, [1, 3]);
        assert!(!Options::parse("late early").unwrap().is_late);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, why) in [
            ("nonsense", "nonsense: no such option; known: seed late early kind size"),
            ("seed=x", "seed=x: needs a number"),
            ("kind=4", "kind=4: needs a number from 1 to 3"),
            ("size=huge", "size=huge: must be small or large"),
        ] {
            assert_eq!(Options::parse(text).err().as_deref(), Some(why));
        }
        assert_eq!(fields::<2>("1:2"), Ok(["1", "2"]));
        assert!(fields::<2>("1").is_err() && percent("101").is_err());
    }
}
