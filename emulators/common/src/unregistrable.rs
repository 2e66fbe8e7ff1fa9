//! Option `reg-invalid`: memory that cannot be registered.

/// Memory that cannot be registered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unregistrable {
    /// The nth registration of a process.
    Nth(u64),
    /// Addresses, the last excluded.
    Range(u64, u64),
    /// Mappings whose name contains this.
    Named(String),
}

impl Unregistrable {
    /// Parses N, 0xFROM-0xTO, or part of a name.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Ok(nth) = text.parse() {
            return Ok(Unregistrable::Nth(nth));
        }
        let hex = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
        match text.split_once('-') {
            Some((from, to)) if from.starts_with("0x") => Ok(Unregistrable::Range(
                hex(from).ok_or("needs hexadecimal addresses")?,
                hex(to).ok_or("needs hexadecimal addresses")?,
            )),
            _ if text.is_empty() => Err("needs N, 0xFROM-0xTO, or part of the name of a mapping".to_string()),
            _ => Ok(Unregistrable::Named(text.to_string())),
        }
    }

    /// Whether this is the nth registration, or memory of these addresses.
    pub fn hits(&self, nth: u64, address: u64, length: u64) -> bool {
        match self {
            Unregistrable::Nth(n) => *n == nth,
            Unregistrable::Range(from, to) => address < *to && *from < address + length,
            Unregistrable::Named(_) => false,
        }
    }

    /// Whether this is a mapping of this name.
    pub fn is_named(&self, name: &str) -> bool {
        matches!(self, Unregistrable::Named(part) if name.contains(part.as_str()))
    }
}
