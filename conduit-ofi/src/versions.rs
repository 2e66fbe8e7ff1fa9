//! Properties of providers and of single versions that no attribute of theirs tells, from
//! libfabric's sources: known defects, how receive buffers for many messages end, how to set their
//! minimum, and how threads use them.

use crate::ffi::{Functions, Info, Threads};

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

/// Whether names of providers mean the same: a bare name is also that of a layer over any other.
pub fn is(name: &str, provider: &str) -> bool {
    provider == name || provider.rsplit(';').next() == Some(name)
}

/// A known defect of a provider.
#[derive(Debug, PartialEq, Eq)]
pub struct Defect {
    provider: &'static str,
    /// First version with it.
    from: Version,
    /// First version without it; [`NEVER`] if none is known.
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

/// Later than every version.
const NEVER: Version = (u32::MAX, 0, 0);

const DAMAGES: &str = "may lose or damage data";

/// Providers of these versions are not chosen, unless the user names them.
const DEFECTS: &[Defect] = &[
    // 1.16.0 damages data (libfabric's issue 8212), and 1.17 was seen to stop under two-way
    // traffic; no later version was seen to be right.
    defect("udp;ofi_rxd", (0, 0, 0), NEVER, "may lose or damage messages"),
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
    /// The versions without it, for messages.
    pub fn remedy(&self) -> String {
        match self.until {
            NEVER => "no version is known without this defect".into(),
            (major, minor, 0) => format!("libfabric {major}.{minor} has no such defect"),
            (major, minor, patch) => format!("libfabric {major}.{minor}.{patch} has no such defect"),
        }
    }
}

/// The defect of a provider of a version, if one is known.
pub fn known_defect(provider: &str, version: Version) -> Option<&'static Defect> {
    let mut of_provider = DEFECTS.iter().filter(|defect| defect.provider == provider);
    of_provider.find(|defect| (defect.from..defect.until).contains(&version))
}

/// The end of a receive buffer for many messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A completion with `FI_MULTI_RECV`, with or without a message, follows all messages.
    Reported,
    /// A completion with `FI_MULTI_RECV` and without a message follows all messages. The flag of a
    /// message is its sender's, who may be anybody.
    Apart,
    /// All messages have arrived when they have no gaps and leave less room than the minimum. The
    /// flag means nothing: the provider sets it when it gives the last message its place, and not
    /// at all after a message that was too long.
    Counted,
    /// Unknown: the flag is on the message that is last in the buffer, while earlier ones may still
    /// arrive, and a message that breaks off leaves a gap of unknown length.
    Unknown,
}

/// Sign of the end of a receive buffer of a provider.
pub fn end(provider: &str, version: Version) -> End {
    let among = |from: Version, until: Version| (from..until).contains(&version);
    match provider.rsplit(';').next().unwrap_or(provider) {
        "ofi_rxm" if version < (2, 0, 0) => End::Counted,
        // A completion has the flags of the message's header, too
        // (libfabric@v2.3.0:prov/rxm/src/rxm_cq.c).
        "ofi_rxm" => End::Apart,
        "tcp" if among((1, 18, 0), (1, 18, 3)) || among((1, 19, 0), (1, 19, 1)) => End::Unknown,
        "shm" if version < (1, 17, 0) => End::Unknown,
        "net" | "ofi_rxd" => End::Unknown,
        _ => End::Reported,
    }
}

/// Why the atomics of a provider of a version are not used, although it has some.
pub fn wrong_atomics(provider: &str, version: Version) -> Option<&'static str> {
    match provider.rsplit(';').next().unwrap_or(provider) {
        "ofi_rxd" => Some("those of the provider were seen not to complete"),
        // A read returns an array that was never written
        // (libfabric@v1.21.0:prov/shm/src/smr_progress.c); efa uses shm within a host.
        "shm" | "efa" if ((1, 20, 0)..(1, 21, 1)).contains(&version) => {
            Some("those of this version of the provider read garbage")
        }
        _ => None,
    }
}

/// Bytes that a message may take in a receive buffer beside its own: opx puts a header of up to 192
/// bytes in front of each, rounds up, and does not check that both fit.
pub fn overhead(provider: &str) -> usize {
    if is("opx", provider) {
        256
    } else {
        0
    }
}

/// Whether `FI_OPT_MIN_MULTI_RECV` is set after `fi_enable`, not before. The option belongs to a
/// receive context which these make only then: earlier they crash. Versions that copy it when they
/// make the context ignore it later.
pub fn sets_minimum_late(provider: &str, version: Version) -> bool {
    let among = |from: Version, until: Version| (from..until).contains(&version);
    match provider.rsplit(';').next().unwrap_or(provider) {
        "shm" => among((1, 17, 0), (2, 0, 0)),
        "efa" => among((1, 19, 0), (2, 0, 0)),
        "sm2" => true,
        _ => false,
    }
}

/// Whether only one thread at a time may call a provider, whatever its record has. That of ucx
/// repeats the hints, but its receives are in lists without a lock
/// (libfabric@v2.6.0:man/fi_ucx.7.md, prov/ucx/src/ucx_init.c, ucx_msg.c).
fn needs_turns(provider: &str) -> bool {
    is("ucx", provider)
}

/// Whether an arrival makes a descriptor of a provider readable. These signal theirs only while a
/// thread is inside a call (libfabric@v2.6.0:prov/psm3/src/psmx3_cq.c, prov/psm2/src/psmx2_wait.c,
/// prov/ucx/src/ucx_callbacks.c).
fn wakes(provider: &str) -> bool {
    !["psm2", "psm3", "ucx"].iter().any(|name| is(name, provider))
}

/// The use of a provider by threads of which several may call it, and which are to sleep.
pub fn threads(info: &Info, are_several: bool, sleep: bool) -> Threads {
    let provider = info.provider();
    Threads {
        take_turns: are_several && (needs_turns(&provider) || !info.is_thread_safe()),
        sleep: sleep && wakes(&provider),
    }
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
        assert!([(1, 15, 2), (1, 16, 1), (1, 17, 0), (2, 6, 0)]
            .iter()
            .all(|version| has("udp;ofi_rxd", *version)));
        assert!(has("tcp", (1, 18, 0)) && !has("tcp", (1, 18, 1)) && !has("tcp;ofi_rxm", (1, 18, 0)));
        assert!(!has("cxi", (1, 5, 0)));
        let remedy = |provider, version| known_defect(provider, version).unwrap().remedy();
        assert_eq!(remedy("tcp", (1, 18, 0)), "libfabric 1.18.1 has no such defect");
        assert_eq!(remedy("gni", (1, 9, 0)), "libfabric 1.14 has no such defect");
        assert_eq!(
            remedy("udp;ofi_rxd", (1, 17, 0)),
            "no version is known without this defect"
        );
    }

    #[test]
    fn ends_of_receive_buffers() {
        for version in [(1, 18, 0), (1, 18, 2), (1, 19, 0)] {
            assert_eq!(end("tcp", version), End::Unknown);
        }
        for version in [(1, 18, 3), (1, 19, 1), (1, 20, 0), (2, 6, 0)] {
            assert_eq!(end("tcp", version), End::Reported);
        }
        assert_eq!(end("verbs;ofi_rxm", (1, 22, 0)), End::Counted);
        assert_eq!(end("tcp;ofi_rxm", (2, 0, 0)), End::Apart);
        assert_eq!(end("net", (1, 17, 1)), End::Unknown);
        assert_eq!(end("udp;ofi_rxd", (2, 6, 0)), End::Unknown);
        assert_eq!(
            [end("shm", (1, 16, 1)), end("shm", (1, 17, 0))],
            [End::Unknown, End::Reported]
        );
        assert_eq!(
            [end("opx", (1, 17, 0)), end("cxi", (1, 15, 0))],
            [End::Reported, End::Reported]
        );
    }

    #[test]
    fn atomics_are_wrong_in_some_versions() {
        let are = |provider, version| wrong_atomics(provider, version).is_some();
        for provider in ["shm", "efa"] {
            assert!([(1, 20, 0), (1, 20, 1), (1, 21, 0)]
                .iter()
                .all(|version| are(provider, *version)));
            assert!([(1, 19, 1), (1, 21, 1), (2, 6, 0)]
                .iter()
                .all(|version| !are(provider, *version)));
        }
        assert!(are("udp;ofi_rxd", (2, 6, 0)) && !are("tcp;ofi_rxm", (1, 20, 1)));
    }

    #[test]
    fn the_minimum_is_set_before_or_after() {
        let late = |provider, versions: [Version; 4]| versions.map(|version| sets_minimum_late(provider, version));
        let versions = [(1, 16, 1), (1, 18, 0), (1, 22, 0), (2, 0, 0)];
        assert_eq!(late("shm", versions), [false, true, true, false]);
        assert_eq!(late("efa", versions), [false, false, true, false]);
        assert_eq!(late("sm2", versions), [true; 4]);
        assert_eq!(late("tcp;ofi_rxm", versions), [false; 4]);
        assert_eq!(late("psm3", versions), [false; 4]);
    }
}
