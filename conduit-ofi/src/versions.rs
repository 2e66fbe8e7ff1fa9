//! Properties of single versions of providers that no attribute of theirs tells, from libfabric's
//! sources: known defects.

use crate::fabric::{Functions, Info};

/// Major and minor version and patch level.
pub type Version = (u32, u32, u32);

/// The version of libfabric that a provider is of.
pub fn of(info: &Info, library: &Functions) -> Version {
    decode(info.provider_version(), library.version)
}

/// Most providers count as their version a hundred times libfabric's major version plus the minor
/// one, and ten times the patch level, which `fi_version` lacks. The others (cxi, psm3) count on
/// their own; they have the library's version.
fn decode((major, minor): (u32, u32), library: (u32, u32)) -> Version {
    if (100..300).contains(&major) {
        (major / 100, major % 100, minor / 10)
    } else {
        (library.0, library.1, 0)
    }
}

/// A known defect of a provider.
#[derive(Debug, PartialEq, Eq)]
pub struct Defect {
    provider: &'static str,
    /// First version with it.
    from: Version,
    /// First version without it.
    until: Version,
    /// Its consequence.
    pub what: &'static str,
}

const fn defect(provider: &'static str, from: Version, until: Version, what: &'static str) -> Defect {
    Defect {
        provider,
        from,
        until,
        what,
    }
}

const DAMAGES: &str = "may lose or damage data";

/// Providers of these versions are not chosen, unless the user names them.
const DEFECTS: &[Defect] = &[
    defect("udp;ofi_rxd", (0, 0, 0), (1, 7, 0), DAMAGES),
    defect("udp;ofi_rxd", (1, 16, 0), (1, 16, 2), DAMAGES),
    defect("verbs;ofi_rxm", (0, 0, 0), (1, 12, 0), DAMAGES),
    defect("gni", (0, 0, 0), (1, 14, 0), DAMAGES),
    defect("tcp;ofi_rxm", (0, 0, 0), (1, 15, 0), DAMAGES),
    defect(
        "tcp",
        (1, 18, 0),
        (1, 18, 1),
        "may hang when two ranks connect to each other at once",
    ),
];

impl Defect {
    /// The first version without it, as people write it.
    pub fn remedy(&self) -> String {
        let (major, minor, patch) = self.until;
        match patch {
            0 => format!("{major}.{minor}"),
            _ => format!("{major}.{minor}.{patch}"),
        }
    }
}

/// The defect of a provider of a version, if one is known.
pub fn known_defect(provider: &str, version: Version) -> Option<&'static Defect> {
    let mut of_provider = DEFECTS.iter().filter(|defect| defect.provider == provider);
    of_provider.find(|defect| (defect.from..defect.until).contains(&version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_a_provider() {
        assert_eq!(decode((118, 20), (1, 18)), (1, 18, 2));
        assert_eq!(decode((206, 0), (2, 6)), (2, 6, 0));
        // cxi and psm3.
        assert_eq!(decode((0, 1), (2, 2)), (2, 2, 0));
        assert_eq!(decode((1103, 0), (1, 17)), (1, 17, 0));
    }

    #[test]
    fn defects_have_ranges() {
        let has = |provider, version| known_defect(provider, version).is_some();
        assert!(has("verbs;ofi_rxm", (1, 11, 2)) && !has("verbs;ofi_rxm", (1, 12, 0)));
        assert!(has("udp;ofi_rxd", (1, 16, 1)) && !has("udp;ofi_rxd", (1, 16, 2)) && !has("udp;ofi_rxd", (1, 15, 2)));
        assert!(has("tcp", (1, 18, 0)) && !has("tcp", (1, 18, 1)) && !has("tcp;ofi_rxm", (1, 18, 0)));
        assert!(!has("cxi", (1, 5, 0)));
        let remedy = |provider, version| known_defect(provider, version).unwrap().remedy();
        assert_eq!(remedy("tcp", (1, 18, 0)), "1.18.1");
        assert_eq!(remedy("gni", (1, 9, 0)), "1.14");
    }
}
