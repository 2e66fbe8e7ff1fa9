//! The types of variables: the text that each accepts, and its value. Pure functions;
//! `gasnet_tools::parse` has the parsers that the tools library needs, too.
#![forbid(unsafe_code)]

use super::{FaultPlan, RankSet, SegmentLimit, SignalSet};
use gasnet_sys::signal;
use gasnet_tools::parse::{self, ParseError};
use std::path::PathBuf;

/// The type of a variable.
#[derive(Clone, Copy, Debug)]
pub enum ValueType {
    /// Yes or no.
    Bool,
    /// A whole number from `min` to `max`, inclusive.
    Int {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// A memory size in bytes from `min` to `max`, inclusive.
    Size {
        /// Smallest value in bytes.
        min: u64,
        /// Largest value in bytes.
        max: u64,
    },
    /// A finite number from `min` to `max`, inclusive.
    Double {
        /// Smallest value.
        min: f64,
        /// Largest value.
        max: f64,
    },
    /// Any text.
    Text,
    /// A file or directory name; need not be UTF-8.
    Path,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A list of ranks.
    Ranks,
    /// One signal.
    Signal,
    /// A list of signals.
    Signals,
    /// The grammar of `GASNET_MAX_SEGSIZE`.
    SegmentLimit,
    /// The grammar of `GASNET_FAULTS`.
    Faults,
    /// Text of a specific form.
    Form {
        /// The accepted form, as the subject of "… is expected".
        accepts: &'static str,
        /// Whether a text has that form.
        check: fn(&str) -> bool,
    },
}

/// A value of a variable.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Not set, and without a fixed default.
    Unset,
    /// Of [`ValueType::Bool`].
    Bool(bool),
    /// Of [`ValueType::Int`].
    Int(i64),
    /// Of [`ValueType::Size`], in bytes.
    Size(u64),
    /// Of [`ValueType::Double`].
    Double(f64),
    /// Of [`ValueType::Text`] and [`ValueType::Form`].
    Text(String),
    /// Of [`ValueType::Path`].
    Path(PathBuf),
    /// Of [`ValueType::Choice`]: index of the word.
    Choice(usize),
    /// Of [`ValueType::Ranks`].
    Ranks(RankSet),
    /// Of [`ValueType::Signal`].
    Signal(i32),
    /// Of [`ValueType::Signals`].
    Signals(SignalSet),
    /// Of [`ValueType::SegmentLimit`].
    SegmentLimit(SegmentLimit),
    /// Of [`ValueType::Faults`].
    Faults(FaultPlan),
}

impl ValueType {
    /// Reads `text`. The range is part of the type.
    pub fn parse(&self, text: &str) -> Result<Value, ParseError> {
        let within = |ok: bool, value: Value| if ok { Ok(value) } else { Err(ParseError::OutOfRange) };
        match *self {
            Self::Bool => parse::boolean(text).map(Value::Bool),
            Self::Int { min, max } => {
                parse::integer(text).and_then(|v| within((min..=max).contains(&v), Value::Int(v)))
            }
            Self::Size { min, max } => {
                parse::size(text, 1).and_then(|v| within((min..=max).contains(&v), Value::Size(v)))
            }
            Self::Double { min, max } => {
                parse::double(text).and_then(|v| within((min..=max).contains(&v), Value::Double(v)))
            }
            Self::Text => Ok(Value::Text(text.to_owned())),
            Self::Path => Ok(Value::Path(text.into())),
            Self::Choice(words) => word(words, text).map(Value::Choice),
            Self::Ranks => text.parse().map(Value::Ranks),
            Self::Signal => parse::signal(text).map(Value::Signal),
            Self::Signals => text.parse().map(Value::Signals),
            Self::SegmentLimit => text.parse().map(Value::SegmentLimit),
            Self::Faults => text.parse().map(Value::Faults),
            Self::Form { check, .. } if check(text) => Ok(Value::Text(text.to_owned())),
            Self::Form { .. } => Err(ParseError::Malformed),
        }
    }

    /// The accepted values as a noun phrase: "a whole number from 1 to 64".
    pub fn accepts(&self) -> String {
        match *self {
            Self::Bool => "a boolean (1, y, yes, 0, n, no)".into(),
            Self::Int { min, max } => format!("a whole number {}", range(min, max, i64::MIN, i64::MAX)),
            Self::Size { min, max } => format!("a memory size such as 64KB or 1.5GB {}", size_range(min, max)),
            Self::Double { min, max } => format!("a number such as 1.5 or 3/8 {}", range(min, max, f64::MIN, f64::MAX)),
            Self::Text => "text".into(),
            Self::Path => "a file or directory name".into(),
            Self::Choice(words) => format!("one of {}", words.join(", ")),
            Self::Ranks => "* or a list of ranks such as 0,2-4,6".into(),
            Self::Signal => "a signal such as SIGUSR1, usr1 or 10".into(),
            Self::Signals => "* or a list of signals such as SIGSEGV,usr1,11".into(),
            Self::SegmentLimit => {
                "a size such as 4GB, or a fraction of the memory such as 0.85, optionally with /P (per process) or /H \
                (per host),"
                    .into()
            }
            Self::Faults => "a list such as seed=1,delay=0.1,reorder=0.1,busy=0.2,split=0.1,kill=2:1000,network=1:500,\
                 register=1,atomics=1"
                .into(),
            Self::Form { accepts, .. } => accepts.into(),
        }
        .trim_end()
        .to_owned()
    }

    /// Short name of the type, for tables.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Bool => "boolean",
            Self::Int { .. } => "integer",
            Self::Size { .. } => "size",
            Self::Double { .. } => "number",
            Self::Text | Self::Form { .. } => "text",
            Self::Path => "path",
            Self::Choice(_) => "choice",
            Self::Ranks => "ranks",
            Self::Signal => "signal",
            Self::Signals => "signals",
            Self::SegmentLimit => "segment limit",
            Self::Faults => "faults",
        }
    }

    /// A value as `GASNET_VERBOSEENV` shows it.
    pub fn show(&self, value: &Value) -> String {
        let words = if let Self::Choice(words) = *self { words } else { &[] };
        match value {
            Value::Unset => "*not set*".into(),
            Value::Bool(v) => if *v { "YES" } else { "NO" }.into(),
            Value::Int(v) => v.to_string(),
            Value::Size(v) => parse::display_size(*v),
            Value::Double(v) => v.to_string(),
            Value::Text(v) => v.clone(),
            Value::Path(v) => v.display().to_string(),
            Value::Choice(i) => words[*i].into(),
            Value::Ranks(v) => v.to_string(),
            Value::Signal(v) => signal::name(*v).map_or_else(|| v.to_string(), str::to_owned),
            Value::Signals(v) => v.to_string(),
            Value::SegmentLimit(v) => v.to_string(),
            Value::Faults(v) => v.to_string(),
        }
    }
}

fn word(words: &[&str], text: &str) -> Result<usize, ParseError> {
    let text = text.trim();
    words
        .iter()
        .position(|w| text.eq_ignore_ascii_case(w))
        .ok_or(ParseError::Malformed)
}

fn range<T: PartialEq + std::fmt::Display + Copy>(min: T, max: T, lowest: T, highest: T) -> String {
    match (min == lowest, max == highest) {
        (true, true) => String::new(),
        (true, false) => format!("of at most {max}"),
        (false, true) => format!("of at least {min}"),
        (false, false) => format!("from {min} to {max}"),
    }
}

fn size_range(min: u64, max: u64) -> String {
    let least = parse::display_size(min);
    match (min, max) {
        (0, u64::MAX) => String::new(),
        (_, u64::MAX) => format!("of at least {least}"),
        (_, _) => format!("from {least} to {}", parse::display_size(max)),
    }
}
