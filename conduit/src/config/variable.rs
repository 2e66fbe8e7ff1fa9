//! A row of the table, and the typed key with which the library reads its value.
#![forbid(unsafe_code)]

use super::{FaultPlan, RankSet, SegmentLimit, SignalSet, Value, ValueType};
use std::marker::PhantomData;
use std::path::PathBuf;

/// Declaration of one environment variable.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Name, as in `GASNET_FREEZE`.
    pub name: &'static str,
    /// Type and range.
    pub kind: ValueType,
    /// Default in the syntax of the environment; empty: no fixed default.
    pub default: &'static str,
    /// Description of the default, if it is not a fixed value.
    pub default_note: &'static str,
    /// Unit of a number ("seconds"), or empty.
    pub unit: &'static str,
    /// Which processes read it.
    pub scope: Scope,
    /// Whether it has an effect.
    pub status: Status,
    /// The implementation that introduced it.
    pub origin: Origin,
    /// First version of this library that accepts it.
    pub since: &'static str,
    /// Heading under which it is listed.
    pub section: &'static str,
    /// Description: one line that ends with a full stop.
    pub help: &'static str,
    /// Whether the value names a library, command, file or folder. A privileged process ignores
    /// it ([`super::privileged`]).
    pub names_file: bool,
}

/// The processes that read a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The launcher process, before the ranks exist.
    Launcher,
    /// Every rank; must have the same value everywhere.
    Job,
    /// Every rank, and ranks may differ.
    Rank,
    /// `gasnetrun`, not the library.
    Gasnetrun,
    /// The programs of the test-suites, not the library.
    Tests,
}

/// Whether a variable has an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Yes.
    InEffect,
    /// No. It is accepted, so that existing scripts work.
    NoEffect,
    /// Only in the debug flavour.
    DebugFlavour,
}

/// The implementation that introduced a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Documented for GASNet-EX.
    Gasnet,
    /// Specific to this implementation.
    Ours,
}

impl Scope {
    /// Whether no process reads it through the library.
    pub const fn is_of_others(self) -> bool {
        matches!(self, Self::Gasnetrun | Self::Tests)
    }

    /// One word, for tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Launcher => "launcher",
            Self::Job => "job",
            Self::Rank => "rank",
            Self::Gasnetrun => "gasnetrun",
            Self::Tests => "tests",
        }
    }
}

impl Status {
    /// A few words, for tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InEffect => "in effect",
            Self::NoEffect => "accepted, no effect yet",
            Self::DebugFlavour => "in effect in the debug flavour",
        }
    }

    /// Whether it changes anything in this flavour.
    pub const fn is_effective(self) -> bool {
        match self {
            Self::InEffect => true,
            Self::NoEffect => false,
            Self::DebugFlavour => cfg!(feature = "debug-checks"),
        }
    }
}

impl Variable {
    /// A variable read by the whole job, in effect, documented for GASNet-EX. The functions of
    /// [`Key`] change these.
    pub const fn new(name: &'static str, kind: ValueType, default: &'static str, help: &'static str) -> Self {
        Self {
            name,
            kind,
            default,
            default_note: "",
            unit: "",
            scope: Scope::Job,
            status: Status::InEffect,
            origin: Origin::Gasnet,
            since: "0.1.0",
            section: "",
            help,
            names_file: is_name_of_file(name) || matches!(kind, ValueType::Path),
        }
    }

    /// Sets the heading.
    #[must_use]
    pub const fn section(mut self, section: &'static str) -> Self {
        self.section = section;
        self
    }

    /// Whether the default is none, or one that the environment may set.
    pub fn has_valid_default(&self) -> bool {
        self.default.is_empty() || self.parse(self.default).is_ok()
    }

    /// The value if the environment does not set it. A test checks that every default is valid; an
    /// invalid one counts as not set.
    pub fn default_value(&self) -> Value {
        if self.default.is_empty() {
            return Value::Unset;
        }
        self.kind.parse(self.default).unwrap_or(Value::Unset)
    }

    /// Parses `text` from the environment; the error is a complete message.
    pub fn parse(&self, text: &str) -> Result<Value, String> {
        self.kind.parse(text).map_err(|_| self.complaint(text))
    }

    /// The message for an invalid value.
    pub fn complaint(&self, text: &str) -> String {
        let unit = if self.unit.is_empty() {
            String::new()
        } else {
            format!(" ({})", self.unit)
        };
        let or_unset = match (self.default, self.default_note) {
            ("", "") => "leave it unset for none".to_owned(),
            (default, "") => format!("leave it unset for the default, {default}"),
            (_, note) => format!("leave it unset for the default: {note}"),
        };
        format!(
            "{}={text}: {}{unit} is expected; {or_unset}",
            self.name,
            self.kind.accepts()
        )
    }
}

/// Ends of names that tell that the value names a file or a command.
const ENDS: [&str; 7] = ["_LIBRARY", "_CMD", "FILE", "FILE_IN", "FILE_OUT", "PATH", "DIR"];

/// Whether the name of a variable ends as those of files and commands do.
const fn is_name_of_file(name: &str) -> bool {
    let mut index = 0;
    while index < ENDS.len() {
        if ends_with(name.as_bytes(), ENDS[index].as_bytes()) {
            return true;
        }
        index += 1;
    }
    false
}

const fn ends_with(mut text: &[u8], mut end: &[u8]) -> bool {
    while let Some((last, front)) = end.split_last() {
        match text.split_last() {
            Some((own, rest)) if *own == *last => (text, end) = (rest, front),
            _ => return false,
        }
    }
    true
}

/// A variable with the Rust type of its value. Keys are constants of the table, so the compiler
/// finds misspelt names.
#[derive(Clone, Copy, Debug)]
pub struct Key<T> {
    /// The declaration.
    pub variable: Variable,
    value: PhantomData<fn() -> T>,
}

impl<T> Key<T> {
    const fn new(name: &'static str, kind: ValueType, default: &'static str, help: &'static str) -> Self {
        Self {
            variable: Variable::new(name, kind, default, help),
            value: PhantomData,
        }
    }

    /// Sets the processes that read it.
    #[must_use]
    pub const fn scope(mut self, scope: Scope) -> Self {
        self.variable.scope = scope;
        self
    }

    /// Sets the unit of a number.
    #[must_use]
    pub const fn unit(mut self, unit: &'static str) -> Self {
        self.variable.unit = unit;
        self
    }

    /// Sets the description of the default.
    #[must_use]
    pub const fn unset_means(mut self, note: &'static str) -> Self {
        self.variable.default_note = note;
        self
    }

    /// Marks it as accepted without effect.
    #[must_use]
    pub const fn no_effect(mut self) -> Self {
        self.variable.status = Status::NoEffect;
        self
    }

    /// Marks it as in effect in the debug flavour only.
    #[must_use]
    pub const fn debug_only(mut self) -> Self {
        self.variable.status = Status::DebugFlavour;
        self
    }

    /// Marks it as specific to this implementation.
    #[must_use]
    pub const fn ours(mut self) -> Self {
        self.variable.origin = Origin::Ours;
        self
    }

    /// Marks it as naming a file or command, where its name does not show that.
    #[must_use]
    pub const fn names_file(mut self) -> Self {
        self.variable.names_file = true;
        self
    }

    /// The same variable without a fixed default.
    #[must_use]
    pub const fn optional(self) -> Key<Option<T>> {
        let mut variable = self.variable;
        variable.default = "";
        Key {
            variable,
            value: PhantomData,
        }
    }
}

/// Declares a yes-or-no variable.
pub const fn flag(name: &'static str, default: bool, help: &'static str) -> Key<bool> {
    Key::new(name, ValueType::Bool, if default { "1" } else { "0" }, help)
}

/// Declares a count.
pub const fn count<T: Unsigned>(
    name: &'static str,
    default: &'static str,
    min: u32,
    max: u32,
    help: &'static str,
) -> Key<T> {
    assert!(max as u64 <= T::MOST, "the type holds less than the largest value");
    Key::new(
        name,
        ValueType::Int {
            min: min as i64,
            max: max as i64,
        },
        default,
        help,
    )
}

/// Declares a whole number with a sign.
pub const fn int(name: &'static str, default: &'static str, min: i64, max: i64, help: &'static str) -> Key<i64> {
    Key::new(name, ValueType::Int { min, max }, default, help)
}

/// Declares a memory size.
pub const fn size<T: Unsigned>(
    name: &'static str,
    default: &'static str,
    min: u64,
    max: u64,
    help: &'static str,
) -> Key<T> {
    assert!(max <= T::MOST, "the type holds less than the largest value");
    Key::new(name, ValueType::Size { min, max }, default, help)
}

/// Declares a number with a fraction.
pub const fn double(name: &'static str, default: &'static str, min: f64, max: f64, help: &'static str) -> Key<f64> {
    Key::new(name, ValueType::Double { min, max }, default, help)
}

/// Declares a text without default.
pub const fn text(name: &'static str, help: &'static str) -> Key<Option<String>> {
    Key::new(name, ValueType::Text, "", help)
}

/// Declares a file or directory name without default.
pub const fn path(name: &'static str, help: &'static str) -> Key<Option<PathBuf>> {
    Key::new(name, ValueType::Path, "", help)
}

/// Declares a text of a specific form, which `check` accepts.
pub const fn form(
    name: &'static str,
    default: &'static str,
    accepts: &'static str,
    check: fn(&str) -> bool,
    help: &'static str,
) -> Key<String> {
    Key::new(name, ValueType::Form { accepts, check }, default, help)
}

/// Declares a choice among fixed names.
pub const fn choice<T: Choice>(name: &'static str, default: &'static str, help: &'static str) -> Key<T> {
    Key::new(name, ValueType::Choice(T::WORDS), default, help)
}

/// Declares a list of ranks; all of them by default.
pub const fn ranks(name: &'static str, help: &'static str) -> Key<RankSet> {
    Key::new(name, ValueType::Ranks, "*", help)
}

/// Declares a signal without default.
pub const fn signal(name: &'static str, help: &'static str) -> Key<Option<i32>> {
    Key::new(name, ValueType::Signal, "", help)
}

/// Declares a list of signals without default.
pub const fn signals(name: &'static str, help: &'static str) -> Key<Option<SignalSet>> {
    Key::new(name, ValueType::Signals, "", help)
}

/// Declares an upper limit of segment memory.
pub const fn segment_limit(name: &'static str, default: &'static str, help: &'static str) -> Key<SegmentLimit> {
    Key::new(name, ValueType::SegmentLimit, default, help)
}

/// Declares a fault plan without default.
pub const fn faults(name: &'static str, help: &'static str) -> Key<Option<FaultPlan>> {
    Key::new(name, ValueType::Faults, "", help)
}

/// An enum whose variants are the words of a variable, in the same order.
pub trait Choice: Copy + 'static {
    /// The words.
    const WORDS: &'static [&'static str];
    /// The variants.
    const VARIANTS: &'static [Self];
}

/// A Rust type that a value converts to.
pub trait FromValue: Sized {
    /// The value; none if it is of another type, which the constructors above rule out.
    fn from_value(value: &Value) -> Option<Self>;
}

macro_rules! from_value {
    ($($type:ty: $variant:ident($v:ident) => $result:expr;)*) => {$(
        impl FromValue for $type {
            fn from_value(value: &Value) -> Option<Self> {
                let Value::$variant($v) = value else { return None };
                $result
            }
        }
    )*};
}

from_value! {
    bool: Bool(v) => Some(*v);
    i64: Int(v) => Some(*v);
    i32: Signal(v) => Some(*v);
    f64: Double(v) => Some(*v);
    String: Text(v) => Some(v.clone());
    PathBuf: Path(v) => Some(v.clone());
    RankSet: Ranks(v) => Some(v.clone());
    SignalSet: Signals(v) => Some(v.clone());
    SegmentLimit: SegmentLimit(v) => Some(*v);
    FaultPlan: Faults(v) => Some(v.clone());
}

/// A type of counts and sizes.
pub trait Unsigned: FromValue {
    /// Its largest value.
    const MOST: u64;
}

macro_rules! unsigned {
    ($($type:ident)*) => {$(
        impl Unsigned for $type {
            const MOST: u64 = $type::MAX as u64;
        }

        impl FromValue for $type {
            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    Value::Int(count) => Self::try_from(*count).ok(),
                    Value::Size(bytes) => Self::try_from(*bytes).ok(),
                    _ => None,
                }
            }
        }
    )*};
}

unsigned! { u8 u16 u32 u64 usize }

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: &Value) -> Option<Self> {
        if *value == Value::Unset {
            return Some(None);
        }
        T::from_value(value).map(Some)
    }
}

/// Defines an enum together with its words.
#[macro_export]
macro_rules! choice_enum {
    ($(#[$doc:meta])* pub enum $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $crate::config::Choice for $name {
            const WORDS: &'static [&'static str] = &[$($word),*];
            const VARIANTS: &'static [Self] = &[$(Self::$variant),*];
        }

        impl $crate::config::FromValue for $name {
            fn from_value(value: &$crate::config::Value) -> Option<Self> {
                let $crate::config::Value::Choice(index) = value else { return None };
                <Self as $crate::config::Choice>::VARIANTS.get(*index).copied()
            }
        }
    };
}
pub use choice_enum;
