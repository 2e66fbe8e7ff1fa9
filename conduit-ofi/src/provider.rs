//! The choice of a provider and a domain.
//!
//! libfabric lists what the machine has, the fastest first. The user's choice, then the excluded
//! providers, then the address of the host narrow the list; its first record is used. Every
//! process decides by itself, and the start verifies that all have decided alike.

use crate::ffi::{bits, Functions, Info, Infos, Wanted};
use crate::settings::Choice;
use crate::versions::{self, Defect, Version};
use gasnet_conduit::locality::{self, Device, Ranks, Topology};
use gasnet_sys::env;
use std::net::IpAddr;

/// Needs of the job from the provider.
#[derive(Clone, Copy, Debug, Default)]
pub struct Needs {
    /// It reaches other hosts.
    pub several_hosts: bool,
    /// The address at which other hosts reach this one.
    pub address: Option<IpAddr>,
    /// One thread at a time calls it.
    pub one_thread: bool,
    /// The job, for providers that keep jobs apart by a number.
    pub job: Option<[u8; 16]>,
    /// The process, whose device may differ from those of others.
    pub ranks: Ranks,
}

/// Providers that move data by the sockets of the kernel, as the udp conduit does with less work.
const OVER_SOCKETS: &[&str] = &["tcp", "udp", "sockets", "net"];

/// Whether a provider is faster than UDP sockets.
pub fn is_fast(provider: &str) -> bool {
    !provider.split(';').any(|word| OVER_SOCKETS.contains(&word))
}

/// Folders and beginnings of names of the devices that fast providers open: verbs, efa and psm3;
/// psm2 and opx; cxi; psm; gni.
const DEVICES: &[(&str, &str)] = &[
    ("/dev/infiniband", "uverbs"),
    ("/dev", "hfi1"),
    ("/dev", "cxi"),
    ("/dev", "ipath"),
    ("/dev", "kgni"),
];

/// Whether this host has a device that a fast provider could use.
pub fn has_device() -> bool {
    DEVICES.iter().any(has_file)
}

/// Whether this host has a Slingshot adapter.
pub fn has_cxi() -> bool {
    has_file(&("/dev", "cxi"))
}

/// Whether a folder has a file whose name begins so.
pub fn has_file((folder, start): &(&str, &str)) -> bool {
    let mut entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.any(|entry| entry.file_name().as_encoded_bytes().starts_with(start.as_bytes()))
}

/// The core provider: "tcp" of "tcp;ofi_rxm".
pub fn first_word(provider: &str) -> &str {
    provider.split(';').next().unwrap_or(provider)
}

/// Whether a name of the user's means this provider.
fn means(name: &str, provider: &str) -> bool {
    provider.eq_ignore_ascii_case(name) || !name.contains(';') && first_word(provider).eq_ignore_ascii_case(name)
}

/// The records of libfabric that the conduit can use, of all providers that the user allows.
pub struct Offer {
    /// In libfabric's order.
    pub infos: Vec<Info>,
    /// The providers before the user's lists rule some out, each once.
    seen: Vec<String>,
    /// Those that demand what the conduit does not know, and what.
    demanding: Vec<String>,
    /// Those among them that are ruled out for a defect, with it.
    defective: Vec<String>,
    /// The needs that they meet.
    pub needs: Needs,
}

impl Offer {
    /// Asks libfabric.
    pub fn query(library: &'static Functions, choice: &Choice, needs: Needs) -> Result<Self, String> {
        let wanted = Wanted {
            provider: choice.provider.as_deref(),
            interface: library.interfaces(false).pop().unwrap_or_default(),
            ..needs.wanted()
        };
        let mut infos: Vec<Info> = Infos::query(library, &wanted)?.iter().collect();
        if infos.is_empty() && !needs.one_thread {
            // A lock serves for those that are not thread-safe.
            let needs = Needs {
                one_thread: true,
                ..needs
            };
            return Self::query(library, choice, needs);
        }
        let demand = |info: &Info| {
            let demands = info.unknown_demands()?;
            Some(format!("{} ({demands})", info.provider()))
        };
        let demanding = different(infos.iter().filter_map(demand));
        infos.retain(|info| info.unknown_demands().is_none());
        let seen = different(infos.iter().map(Info::provider));
        let judged = |info: &Info| verdict(choice, &info.provider(), versions::of(info, library));
        let defects = infos.iter().filter_map(|info| match judged(info) {
            Verdict::Defective(defect) => Some(format!("{}, which {}", info.provider(), defect.what)),
            _ => None,
        });
        let defective = different(defects);
        infos.retain(|info| judged(info) == Verdict::Allowed);
        Ok(Self {
            infos,
            seen,
            demanding,
            defective,
            needs,
        })
    }

    /// The record of the domain that a process uses.
    pub fn choose(&self, choice: &Choice) -> Result<&Info, String> {
        let host = || Topology::new("/");
        let mut infos: Vec<&Info> = self.infos.iter().collect();
        if infos.is_empty() {
            return Err(self.nothing(choice));
        }
        let device = choice.device.of(self.needs.ranks, host);
        if let Device::Named { variable, name } = &device {
            infos.retain(|info| info.domain() == *name);
            if infos.is_empty() {
                return Err(format!("{variable}={name}: no such device. {}", self.devices()));
            }
        }
        let provider = infos[0].provider();
        infos.retain(|info| info.provider() == provider);
        if device == Device::Nearest {
            let (domains, ranks) = distances(&infos, choice);
            if let [index] = locality::nearest(&ranks, self.needs.ranks.host as usize, 1)[..] {
                infos.retain(|info| info.domain() == domains[index]);
            }
        }
        let has_address = |info: &&&Info| self.needs.address.is_some() && info.ip() == self.needs.address;
        Ok(infos.iter().find(has_address).unwrap_or(&infos[0]))
    }

    /// Why no provider is left.
    fn nothing(&self, choice: &Choice) -> String {
        if !self.demanding.is_empty() {
            let demands = self.demanding.join(", ");
            return format!("these providers require modes that the conduit does not support: {demands}");
        }
        let reach = if self.needs.several_hosts {
            " and reaches other hosts"
        } else {
            ""
        };
        let filter = env::get(c"FI_PROVIDER").map_or(String::new(), |filter| {
            format!(", FI_PROVIDER={} permitting", filter.to_string_lossy())
        });
        if let Some(name) = &choice.provider {
            return format!(
                "libfabric has no provider GASNET_OFI_PROVIDER={name} with reliable messages (FI_EP_RDM){reach}\
                 {filter}. gasnet_info -p lists what this host has"
            );
        }
        if self.seen.is_empty() {
            return format!(
                "libfabric has no provider with reliable messages (FI_EP_RDM){reach}{filter}. gasnet_info -p lists \
                 what this host has"
            );
        }
        let defects = match &self.defective[..] {
            [] => String::new(),
            defective => format!(": {}", defective.join(", and ")),
        };
        format!(
            "libfabric offers {} only, which GASNET_OFI_PROVIDER_INCLUDE or _EXCLUDE or the version rule out{defects}. \
             GASNET_OFI_PROVIDER selects one",
            self.seen.join(", ")
        )
    }

    /// The devices of each provider, for messages.
    fn devices(&self) -> String {
        let of = |provider: &String| {
            let infos = self.infos.iter().filter(|info| info.provider() == *provider);
            format!("{} ({provider})", different(infos.map(Info::domain)).join(", "))
        };
        let all: Vec<String> = different(self.infos.iter().map(Info::provider))
            .iter()
            .map(of)
            .collect();
        format!("libfabric has {}", all.join("; "))
    }

    /// A line for each provider and device, with the rank of its distance.
    pub fn lines(&self, choice: &Choice) -> Vec<String> {
        let infos: Vec<&Info> = self.infos.iter().collect();
        let (domains, ranks) = distances(&infos, choice);
        let line = |info: &Info| {
            let rank = domains
                .iter()
                .position(|domain| *domain == info.domain())
                .and_then(|index| ranks[index]);
            let distance = rank.map_or(String::new(), |rank| format!(", distance {rank}"));
            format!("{} on {}{distance}", info.provider(), info.domain())
        };
        different(self.infos.iter().map(line))
    }
}

/// The domains of these records, each once, and their ranks by distance from this process.
fn distances(infos: &[&Info], choice: &Choice) -> (Vec<String>, Vec<Option<usize>>) {
    let domains = different(infos.iter().map(|info| info.domain()));
    let pci = |domain: &str| infos.iter().find(|info| info.domain() == domain)?.pci();
    let devices: Vec<_> = domains.iter().map(|domain| (pci(domain), domain.clone())).collect();
    let ranks = locality::ranking(&Topology::new("/"), choice.device.whole_process, &devices);
    (domains, ranks)
}

impl Needs {
    /// Hints for libfabric.
    pub fn wanted(&self) -> Wanted<'static> {
        // Ranks of a host may be no neighbours. Asked for one of both only, opx lacks the other.
        let reach = if self.several_hosts {
            bits::LOCAL_COMM | bits::REMOTE_COMM
        } else {
            0
        };
        Wanted {
            caps: bits::MSG | reach,
            one_thread: self.one_thread,
            ..Wanted::default()
        }
    }
}

/// Warnings about the choice of a provider of this version, without a full stop.
/// `fabric`: the host has a device that a fast provider could use.
pub fn warnings(choice: &Choice, provider: &str, version: Version, fabric: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(defect) = versions::known_defect(provider, version) {
        let (major, minor, patch) = version;
        warnings.push(format!(
            "the provider {provider} of libfabric {major}.{minor}.{patch} {}; {}",
            defect.what,
            defect.remedy()
        ));
    }
    if choice.provider.is_none() && choice.include.is_empty() && fabric && !is_fast(provider) {
        warnings.push(format!(
            "this host has a device of a fabric, but libfabric has no provider for it that can be used, so {provider} \
             is used. gasnet_info -p lists the providers; GASNET_OFI_PROVIDER={provider} confirms this one"
        ));
    }
    warnings
}

/// Whether the user's lists admit a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Yes.
    Allowed,
    /// `GASNET_OFI_PROVIDER` names another.
    NotNamed,
    /// `GASNET_OFI_PROVIDER_INCLUDE` lacks it.
    NotIncluded,
    /// `GASNET_OFI_PROVIDER_EXCLUDE` has it.
    Excluded,
    /// Its version has this defect.
    Defective(&'static Defect),
}

/// The verdict about a provider of this version.
pub fn verdict(choice: &Choice, provider: &str, version: Version) -> Verdict {
    let listed = |list: &[String]| list.iter().any(|name| means(name, provider));
    if let Some(name) = &choice.provider {
        return if means(name, provider) {
            Verdict::Allowed
        } else {
            Verdict::NotNamed
        };
    }
    if !choice.include.is_empty() {
        return if listed(&choice.include) {
            Verdict::Allowed
        } else {
            Verdict::NotIncluded
        };
    }
    if listed(&choice.exclude) {
        return Verdict::Excluded;
    }
    versions::known_defect(provider, version).map_or(Verdict::Allowed, Verdict::Defective)
}

/// Each name once, in the order of their first occurrence.
pub fn different(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut once: Vec<String> = Vec::new();
    for name in names {
        if !once.contains(&name) {
            once.push(name);
        }
    }
    once
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_providers() {
        assert!(means("tcp", "tcp;ofi_rxm") && means("TCP;ofi_rxm", "tcp;ofi_rxm") && means("cxi", "cxi"));
        assert!(!means("tcp;ofi_rxd", "tcp;ofi_rxm") && !means("ofi_rxm", "tcp;ofi_rxm"));
        assert!(is_fast("verbs;ofi_rxm") && is_fast("cxi") && !is_fast("tcp;ofi_rxm") && !is_fast("udp;ofi_rxd"));
    }

    fn choice(provider: Option<&str>, include: &[&str], exclude: &[&str]) -> Choice {
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_string()).collect::<Vec<_>>();
        Choice {
            provider: provider.map(str::to_string),
            include: words(include),
            exclude: words(exclude),
            ..Choice::default()
        }
    }

    #[test]
    fn lists_rule_out() {
        let verdict = |choice: Choice, provider| verdict(&choice, provider, (1, 17, 0));
        assert_eq!(verdict(choice(None, &[], &["udp"]), "udp;ofi_rxd"), Verdict::Excluded);
        assert_eq!(verdict(choice(None, &[], &["udp"]), "tcp;ofi_rxm"), Verdict::Allowed);
        assert_eq!(
            verdict(choice(None, &["udp"], &["udp"]), "udp;ofi_rxd"),
            Verdict::Allowed
        );
        assert_eq!(
            verdict(choice(None, &["udp"], &[]), "tcp;ofi_rxm"),
            Verdict::NotIncluded
        );
        assert_eq!(
            verdict(choice(Some("udp"), &["tcp"], &["udp"]), "udp;ofi_rxd"),
            Verdict::Allowed
        );
        assert_eq!(
            verdict(choice(Some("udp"), &["tcp"], &[]), "tcp;ofi_rxm"),
            Verdict::NotNamed
        );
    }

    #[test]
    fn versions_with_defects_are_ruled_out() {
        let any = choice(None, &[], &[]);
        for (provider, version) in [
            ("verbs;ofi_rxm", (1, 11, 0)),
            ("tcp", (1, 18, 0)),
            ("udp;ofi_rxd", (1, 17, 0)),
        ] {
            let defect = versions::known_defect(provider, version).unwrap();
            assert_eq!(verdict(&any, provider, version), Verdict::Defective(defect));
            // The user's choice stands.
            let named = choice(Some(first_word(provider)), &[], &[]);
            assert_eq!(verdict(&named, provider, version), Verdict::Allowed);
        }
        assert_eq!(verdict(&any, "tcp", (1, 18, 1)), Verdict::Allowed);
    }

    #[test]
    fn devices_are_listed_with_distances() {
        let choice = choice(None, &["tcp"], &[]);
        let lines = Offer::query(crate::presets::library().unwrap(), &choice, Needs::default())
            .unwrap()
            .lines(&choice);
        assert!(lines.iter().any(|line| line == "tcp;ofi_rxm on lo"), "{lines:?}");
        assert!(
            lines.iter().all(|line| line.starts_with("tcp;ofi_rxm on ")),
            "{lines:?}"
        );
    }

    #[test]
    fn doubtful_choices_are_warned_about() {
        let (any, named) = (choice(None, &[], &[]), choice(Some("tcp"), &[], &[]));
        let count = |choice: &Choice, version, fabric| warnings(choice, "tcp;ofi_rxm", version, fabric).len();
        let (new, old) = ((1, 17, 0), (1, 14, 1));
        assert_eq!([count(&any, new, false), count(&named, new, true)], [0, 0]);
        assert_eq!([count(&any, new, true), count(&named, old, true)], [1, 1]);
        assert!(warnings(&any, "cxi", new, true).is_empty());
        assert_eq!(
            warnings(&named, "tcp;ofi_rxm", old, true),
            ["the provider tcp;ofi_rxm of libfabric 1.14.1 may lose or damage data; \
             libfabric 1.15 has no such defect"]
        );
    }
}
