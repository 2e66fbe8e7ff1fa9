//! Which provider and domain a process uses.
//!
//! libfabric lists what the machine has, the fastest first. The user's choice, then the excluded
//! providers, then the address of the host narrow the list; its first record is used. Every
//! process decides by itself, and the start verifies that all have decided alike.

use crate::fabric::{bits, Functions, Info, Infos, Wanted};
use crate::variables::Choice;
use crate::versions::{self, Defect, Version};
use gasnet_conduit::locality::{self, Device, Ranks, Topology};
use gasnet_sys::env;
use std::net::IpAddr;

/// What the job needs from the provider.
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

/// A provider, and what the conduit uses of it.
#[derive(Debug)]
pub struct Selected {
    /// The provider and its domain.
    pub info: Info,
    /// Puts and gets, which complete when the bytes are at the target.
    pub rma: bool,
    /// Atomics of some kind.
    pub atomics: bool,
    /// Receive buffers for many messages.
    pub multi_receive: bool,
    /// The version of libfabric that the provider is of.
    pub version: Version,
}

impl Selected {
    /// Whether a put can announce itself at its target, with the source and a number.
    pub fn announces(&self) -> bool {
        self.rma
            && self.info.cq_data_bytes() >= size_of::<u64>()
            && !WITHOUT_DATA.contains(&first_word(&self.info.provider()))
    }
}

/// Providers that move data by the sockets of the kernel, as the udp conduit does with less work.
const OVER_SOCKETS: &[&str] = &["tcp", "udp", "sockets", "net"];

/// Providers whose puts carry no data, whatever `cq_data_size` says: cxi refuses the flag, and the
/// puts of sockets were seen not to complete.
const WITHOUT_DATA: &[&str] = &["cxi", "sockets"];

/// Whether a provider is faster than UDP sockets.
pub fn is_fast(provider: &str) -> bool {
    !OVER_SOCKETS.contains(&first_word(provider))
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

/// The same of accelerators: NVIDIA's, AMD's, and those with a driver of the kernel.
const ACCELERATORS: &[(&str, &str)] = &[("/dev", "nvidiactl"), ("/dev", "kfd"), ("/dev/dri", "renderD")];

/// Whether this host has a device that a fast provider could use.
pub fn has_device() -> bool {
    DEVICES.iter().any(has_file)
}

/// Whether this host has a Slingshot adapter.
pub fn has_cxi() -> bool {
    has_file(&("/dev", "cxi"))
}

/// Whether a folder has a file whose name begins so.
fn has_file((folder, start): &(&str, &str)) -> bool {
    let mut entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.any(|entry| entry.file_name().as_encoded_bytes().starts_with(start.as_bytes()))
}

/// Whether a provider keeps jobs of a host apart by a number of the job.
fn keeps_jobs_apart(provider: &str) -> bool {
    ["psm2", "psm3"].contains(&provider)
}

/// The core provider: "tcp" of "tcp;ofi_rxm".
pub fn first_word(provider: &str) -> &str {
    provider.split(';').next().unwrap_or(provider)
}

/// Whether a name of the user's means this provider.
fn means(name: &str, provider: &str) -> bool {
    provider.eq_ignore_ascii_case(name) || !name.contains(';') && first_word(provider).eq_ignore_ascii_case(name)
}

/// What to ask for, the best first: capabilities, and delivery of puts.
const LEVELS: &[(u64, bool)] = &[
    (bits::MSG | bits::RMA | bits::ATOMIC | bits::MULTI_RECV, true),
    (bits::MSG | bits::RMA | bits::MULTI_RECV, true),
    (bits::MSG | bits::RMA | bits::ATOMIC, true),
    (bits::MSG | bits::RMA, true),
    (bits::MSG | bits::MULTI_RECV, false),
    (bits::MSG, false),
];

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
    needs: Needs,
}

impl Offer {
    /// Asks libfabric.
    pub fn query(library: &'static Functions, choice: &Choice, needs: Needs) -> Result<Self, String> {
        let wanted = Wanted {
            provider: choice.provider.as_deref(),
            interface: library.interfaces(false).pop().unwrap_or_default(),
            ..needs.wanted(bits::MSG, false)
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
            Some(format!("{} demands {demands}", info.provider()))
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
        infos.retain(|info| judged(info).is_allowed());
        Ok(Self {
            infos,
            seen,
            demanding,
            defective,
            needs,
        })
    }

    /// The record of the domain that a process uses.
    fn choose(&self, choice: &Choice) -> Result<&Info, String> {
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
            return format!("the conduit does not know what the provider {demands}");
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
    /// What to ask libfabric for.
    fn wanted(&self, caps: u64, delivery_complete: bool) -> Wanted<'static> {
        Wanted {
            // Ranks of a host may be no neighbours. Asked for one of both only, opx lacks the other.
            caps: caps
                | if self.several_hosts {
                    bits::LOCAL_COMM | bits::REMOTE_COMM
                } else {
                    0
                },
            provider: None,
            domain: None,
            one_thread: self.one_thread,
            delivery_complete,
            device_memory: false,
            interface: 0,
            job: None,
        }
    }
}

/// Selects the provider. The error is a message.
pub fn select(library: &'static Functions, choice: &Choice, needs: Needs) -> Result<Selected, String> {
    let offer = Offer::query(library, choice, needs)?;
    let domain = offer.choose(choice)?;
    let (provider, name, ip) = (domain.provider(), domain.domain(), domain.ip());
    let asks = asks_for_device_memory(choice, library.version, &provider);
    let job = needs.job.as_ref().filter(|_| keeps_jobs_apart(&provider));
    let base = Wanted {
        provider: Some(&provider),
        domain: Some(&name),
        job,
        ..offer.needs.wanted(bits::MSG, false)
    };
    // A provider may be older than the library, and then lacks newer interfaces.
    let interface = |device_memory| {
        let mut all = library.interfaces(device_memory).into_iter();
        all.find(|interface| {
            let wanted = Wanted {
                interface: *interface,
                ..base.clone()
            };
            Infos::query(library, &wanted).is_ok_and(|infos| infos.iter().next().is_some())
        })
        .unwrap_or_default()
    };
    let interfaces = [interface(false), if asks { interface(true) } else { 0 }];
    let with_devices = LEVELS.iter().filter(|(caps, _)| asks && caps & bits::RMA != 0);
    let levels = with_devices
        .map(|level| (level, true))
        .chain(LEVELS.iter().map(|level| (level, false)));
    for ((caps, delivery_complete), device_memory) in levels {
        let exact = Wanted {
            caps: base.caps | caps,
            delivery_complete: *delivery_complete,
            device_memory,
            interface: interfaces[usize::from(device_memory)],
            ..base.clone()
        };
        let is_chosen =
            |info: &Info| info.ip() == ip && info.provider() == provider && info.unknown_demands().is_none();
        let info = Infos::query(library, &exact)?.iter().find(is_chosen);
        if let Some(mut info) = info {
            info.report_delivery_on_request();
            return Ok(Selected {
                version: versions::of(&info, library),
                info,
                rma: caps & bits::RMA != 0,
                atomics: caps & bits::ATOMIC != 0,
                multi_receive: caps & bits::MULTI_RECV != 0,
            });
        }
    }
    Err(format!(
        "libfabric lists {provider} on {name}, but opens no endpoint of it"
    ))
}

/// What the user should know about the choice of a provider of this version, without a full stop.
/// `fabric`: the host has a device that a fast provider could use.
pub fn warnings(choice: &Choice, provider: &str, version: Version, fabric: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(defect) = versions::known_defect(provider, version) {
        let (major, minor, patch) = version;
        warnings.push(format!(
            "the provider {provider} of libfabric {major}.{minor}.{patch} {}; {} has no such defect",
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

/// Whether to ask for device memory, which may slow down small messages of a provider. Over sockets
/// all data passes through host memory anyhow. libfabric before 1.17 may take memory for the host's
/// that is of a device which it was not built for.
fn asks_for_device_memory(choice: &Choice, version: (u32, u32), provider: &str) -> bool {
    choice
        .device_memory
        .unwrap_or_else(|| is_fast(provider) && version >= (1, 17) && ACCELERATORS.iter().any(has_file))
}

/// The provider that a process would use.
pub fn probe(choice: &Choice) -> Result<String, String> {
    let selected = select(Functions::get()?, choice, Needs::default())?;
    Ok(selected.info.provider())
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

impl Verdict {
    /// Whether it may be used.
    pub fn is_allowed(self) -> bool {
        self == Self::Allowed
    }
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
    use crate::variables::{DEVICES, TABLE};
    use gasnet_conduit::config::Config;
    use gasnet_conduit::locality::Wishes;

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
            ("udp;ofi_rxd", (1, 16, 1)),
        ] {
            let defect = versions::known_defect(provider, version).unwrap();
            assert_eq!(verdict(&any, provider, version), Verdict::Defective(defect));
            // The user's choice stands.
            let named = choice(Some(first_word(provider)), &[], &[]);
            assert_eq!(verdict(&named, provider, version), Verdict::Allowed);
        }
        assert_eq!(verdict(&any, "tcp", (1, 18, 1)), Verdict::Allowed);
    }

    /// What would be selected on this machine: provider, domain.
    fn selected(choice: &Choice) -> Result<(String, String), String> {
        let selected = select(Functions::get()?, choice, Needs::default())?;
        Ok((selected.info.provider(), selected.info.domain()))
    }

    fn on(device: &str) -> Choice {
        let mut choice = choice(None, &["tcp", "net"], &[]);
        let variable = ("GASNET_OFI_DEVICE".into(), device.into());
        let config = Config::from_env(&[TABLE], std::iter::once(variable)).unwrap();
        choice.device = Wishes::read(&config, &DEVICES);
        choice
    }

    #[test]
    fn the_user_selects_provider_and_device() {
        let (_, device) = selected(&choice(None, &["net", "tcp"], &[])).unwrap();
        assert_eq!(selected(&choice(None, &["net"], &[])).unwrap().0, "net");
        assert_eq!(selected(&choice(Some("TCP"), &[], &["tcp"])).unwrap().0, "tcp;ofi_rxm");
        for device in ["lo", &device] {
            assert_eq!(selected(&on(device)).unwrap().1, device);
        }
    }

    #[test]
    fn an_unknown_device_lists_the_known_ones() {
        let why = selected(&on("nic9")).unwrap_err();
        assert!(
            why.starts_with("GASNET_OFI_DEVICE=nic9: no such device. libfabric has "),
            "{why}"
        );
        assert!(
            why.contains("lo (tcp;ofi_rxm)") && why.contains("lo (net)") && !why.contains("shm"),
            "{why}"
        );
    }

    #[test]
    fn devices_are_listed_with_distances() {
        let choice = choice(None, &["tcp"], &[]);
        let lines = Offer::query(Functions::get().unwrap(), &choice, Needs::default())
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
            ["the provider tcp;ofi_rxm of libfabric 1.14.1 may lose or damage data; 1.15 has no such defect"]
        );
    }
}
