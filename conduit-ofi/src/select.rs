//! The record of a provider that a process opens: the best one of its domain.

use crate::ffi::{bits, Functions, Info, Infos, Wanted};
use crate::presets;
use crate::provider::{has_file, is_fast, Needs, Offer};
use crate::settings::Choice;
use crate::versions::{self, Version};

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
        self.rma && self.info.cq_data_bytes() >= size_of::<u64>() && !is_one_of(&WITHOUT_DATA, &self.info.provider())
    }
}

/// Providers whose puts carry no data, whatever `cq_data_size` says: cxi refuses the flag, and the
/// puts of sockets were seen not to complete.
const WITHOUT_DATA: [&str; 2] = ["cxi", "sockets"];

/// Folders and beginnings of names of accelerators: NVIDIA's, AMD's, and those with a driver of the
/// kernel.
const ACCELERATORS: &[(&str, &str)] = &[("/dev", "nvidiactl"), ("/dev", "kfd"), ("/dev/dri", "renderD")];

/// Providers that keep jobs of a host apart by a number of the job.
const BY_JOB: [&str; 2] = ["psm2", "psm3"];

/// Hints, the best first: capabilities, and delivery of puts.
const LEVELS: &[(u64, bool)] = &[
    (bits::MSG | bits::RMA | bits::ATOMIC | bits::MULTI_RECV, true),
    (bits::MSG | bits::RMA | bits::MULTI_RECV, true),
    (bits::MSG | bits::RMA | bits::ATOMIC, true),
    (bits::MSG | bits::RMA, true),
    (bits::MSG | bits::MULTI_RECV, false),
    (bits::MSG, false),
];

/// Whether a provider is one of these.
fn is_one_of(names: &[&str], provider: &str) -> bool {
    names.iter().any(|name| versions::is(name, provider))
}

/// Selects the provider. The error is a message.
pub fn select(library: &'static Functions, choice: &Choice, needs: Needs) -> Result<Selected, String> {
    let offer = Offer::query(library, choice, needs)?;
    let domain = offer.choose(choice)?;
    let (provider, name, ip) = (domain.provider(), domain.domain(), domain.ip());
    let asks = asks_for_device_memory(choice, library.version, &provider);
    let job = needs.job.as_ref().filter(|_| is_one_of(&BY_JOB, &provider));
    let base = Wanted {
        provider: Some(&provider),
        domain: Some(&name),
        job,
        ..offer.needs.wanted()
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

/// Whether to ask for device memory, which may slow down small messages of a provider. Over sockets
/// all data passes through host memory anyhow. libfabric before 1.17 may take memory for the host's
/// that is of a device which it was not built for.
fn asks_for_device_memory(choice: &Choice, version: (u32, u32), provider: &str) -> bool {
    choice
        .device_memory
        .unwrap_or_else(|| is_fast(provider) && version >= (1, 17) && ACCELERATORS.iter().any(has_file))
}

/// The provider that a process of a job of `ranks` ranks would use.
pub fn probe(choice: &Choice, ranks: u32) -> Result<String, String> {
    let library = presets::library()?;
    presets::set_universe_size(ranks, library.version);
    let selected = select(library, choice, Needs::default())?;
    Ok(selected.info.provider())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{DEVICES, TABLE};
    use gasnet_conduit::config::Config;
    use gasnet_conduit::locality::Wishes;

    fn choice(provider: Option<&str>, include: &[&str], exclude: &[&str]) -> Choice {
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_string()).collect::<Vec<_>>();
        Choice {
            provider: provider.map(str::to_string),
            include: words(include),
            exclude: words(exclude),
            ..Choice::default()
        }
    }

    /// What would be selected on this machine: provider, domain.
    fn selected(choice: &Choice) -> Result<(String, String), String> {
        let selected = select(presets::library()?, choice, Needs::default())?;
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
}
