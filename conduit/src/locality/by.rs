//! The values of `NAME_TYPE`: the property by which processes choose devices.
#![forbid(unsafe_code)]

use super::topology::Object;
use std::str::FromStr;

/// Numbers of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbered {
    /// Its rank in the job.
    JobRank,
    /// Its index among the processes of its host.
    HostRank,
    /// Its index among the processes of its neighbourhood.
    NbrhdRank,
    /// The logical numbers of the objects that it is bound to.
    Object(Object),
}

/// Operation on a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Nothing.
    None,
    /// Divides it.
    Quotient(u32),
    /// Takes the remainder.
    Remainder(u32),
}

/// The value of the variable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// All have the same device.
    #[default]
    Nothing,
    /// Each has the nearest.
    Distance,
    /// By numbers.
    Number(Numbered, Operation),
}

/// Accepted values, as a noun phrase.
pub const ACCEPTS: &str = "Auto, None, or one of JRank, HRank, NRank, Machine, Package, Socket, Die, NUMANode, Node, \
                           L3Cache, L2Cache, L1Cache, Core and PU with or without \"/ N\" or \"% N\"";

const NAMES: &[(&str, Numbered)] = &[
    ("jrank", Numbered::JobRank),
    ("hrank", Numbered::HostRank),
    ("nrank", Numbered::NbrhdRank),
    ("machine", Numbered::Object(Object::Machine)),
    ("package", Numbered::Object(Object::Package)),
    ("socket", Numbered::Object(Object::Package)),
    ("die", Numbered::Object(Object::Die)),
    ("numanode", Numbered::Object(Object::Node)),
    ("node", Numbered::Object(Object::Node)),
    ("l3cache", Numbered::Object(Object::Cache(3))),
    ("l2cache", Numbered::Object(Object::Cache(2))),
    ("l1cache", Numbered::Object(Object::Cache(1))),
    ("core", Numbered::Object(Object::Core)),
    ("pu", Numbered::Object(Object::Processor)),
];

/// A positive constant as in C: decimal, octal after 0, hexadecimal after 0x.
fn constant(text: &str) -> Option<u32> {
    let text = text.trim().to_ascii_lowercase();
    let (digits, radix) = match (text.strip_prefix("0x"), text.strip_prefix('0')) {
        (Some(digits), _) => (digits, 16),
        (None, Some(digits)) => (digits, 8),
        (None, None) => (&*text, 10),
    };
    u32::from_str_radix(digits, radix).ok().filter(|number| *number > 0)
}

impl FromStr for By {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let text = text.trim().to_ascii_lowercase();
        if text.starts_with("auto") {
            return Ok(Self::Distance);
        }
        if text == "none" {
            return Ok(Self::Nothing);
        }
        let (name, operation) = if let Some((name, number)) = text.split_once('/') {
            (name, Operation::Quotient(constant(number).ok_or(())?))
        } else if let Some((name, number)) = text.split_once('%') {
            (name, Operation::Remainder(constant(number).ok_or(())?))
        } else {
            (&*text, Operation::None)
        };
        let (_, numbered) = NAMES.iter().find(|(known, _)| *known == name.trim()).ok_or(())?;
        Ok(Self::Number(*numbered, operation))
    }
}

impl Operation {
    /// The numbers of a process after this, ascending.
    pub fn apply(self, numbers: &[u32]) -> Vec<u32> {
        let each = |number: &u32| match self {
            Self::None => *number,
            Self::Quotient(by) => number / by,
            Self::Remainder(by) => number % by,
        };
        let numbers: std::collections::BTreeSet<u32> = numbers.iter().map(each).collect();
        numbers.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let node = Numbered::Object(Object::Node);
        assert_eq!("Node".parse(), Ok(By::Number(node, Operation::None)));
        assert_eq!(
            " numanode / 0x10".parse(),
            Ok(By::Number(node, Operation::Quotient(16)))
        );
        assert_eq!(
            "HRank%010".parse(),
            Ok(By::Number(Numbered::HostRank, Operation::Remainder(8)))
        );
        assert_eq!("Automatic".parse(), Ok(By::Distance));
        assert_eq!("NONE".parse(), Ok(By::Nothing));
        for wrong in ["", "Group", "Node/0", "Node/2/2", "Node%2/2", "Node/x", "Node 2"] {
            assert_eq!(wrong.parse::<By>(), Err(()), "{wrong}");
        }
    }

    #[test]
    fn operations() {
        assert_eq!(Operation::None.apply(&[0, 2]), [0, 2]);
        assert_eq!(Operation::Quotient(8).apply(&[3, 7, 8, 31]), [0, 1, 3]);
        assert_eq!(Operation::Remainder(4).apply(&[3, 7, 8]), [0, 3]);
    }
}
