//! Which provider and domain a process uses.
//!
//! libfabric lists what the machine has, the fastest first. The user's choice, then the excluded
//! providers, then the address of the host narrow the list; its first record is used. Every
//! process decides by itself, and the start verifies that all have decided alike.

use crate::fabric::{bits, Functions, Info, Infos, Wanted};
use crate::variables::Choice;
use std::net::IpAddr;

/// What the job needs from the provider.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// It reaches other hosts.
    pub several_hosts: bool,
    /// The address at which other hosts reach this one.
    pub address: Option<IpAddr>,
    /// One thread at a time calls it.
    pub one_thread: bool,
}

/// A provider, and what the conduit uses of it.
#[derive(Debug)]
pub struct Selected {
    /// The provider and its domain.
    pub info: Info,
    /// Puts and gets, which complete when the bytes are at the target.
    pub rma: bool,
    /// Atomics.
    pub atomics: bool,
    /// Receive buffers for many messages.
    pub multi_receive: bool,
}

impl Selected {
    /// Whether a put can announce itself at its target, with the source and a number. The puts of
    /// sockets with data were seen not to complete.
    pub fn announces(&self) -> bool {
        self.rma && self.info.cq_data_bytes() >= size_of::<u64>() && self.info.provider() != "sockets"
    }
}

/// Providers that move data by the sockets of the kernel, as the udp conduit does with less work.
const OVER_SOCKETS: &[&str] = &["tcp", "udp", "sockets", "net"];

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

/// Whether this host has a device that a fast provider could use.
pub fn has_device() -> bool {
    DEVICES.iter().any(|(folder, start)| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries
            .into_iter()
            .any(|entry| entry.file_name().as_encoded_bytes().starts_with(start.as_bytes()))
    })
}

/// The core provider: "tcp" of "tcp;ofi_rxm".
fn first_word(provider: &str) -> &str {
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

/// Selects the provider. The error is a message.
pub fn select(library: &'static Functions, choice: &Choice, needs: Needs) -> Result<Selected, String> {
    let remote = if needs.several_hosts { bits::REMOTE_COMM } else { 0 };
    let wanted = |caps, delivery_complete| Wanted {
        caps: caps | remote,
        provider: choice.provider.as_deref(),
        domain: choice.device.as_deref(),
        one_thread: needs.one_thread,
        delivery_complete,
    };
    let mut found = Infos::query(library, &wanted(bits::MSG, false))?
        .iter()
        .collect::<Vec<_>>();
    if found.is_empty() && !needs.one_thread {
        // A lock serves for those that are not thread-safe.
        let needs = Needs {
            one_thread: true,
            ..needs
        };
        return select(library, choice, needs);
    }
    let seen = names(&found);
    found.retain(|info| allows(choice, &info.provider()));
    let Some(first) = found.first() else {
        return Err(nothing(choice, &seen, needs));
    };
    let provider = first.provider();
    let same = |info: &&Info| info.provider() == provider;
    let with_address = found
        .iter()
        .filter(same)
        .find(|info| needs.address.is_some() && info.ip() == needs.address);
    let domain = with_address.unwrap_or(first);
    let (name, ip) = (domain.domain(), domain.ip());
    for (caps, delivery_complete) in LEVELS {
        let exact = Wanted {
            provider: Some(&provider),
            domain: Some(&name),
            ..wanted(*caps, *delivery_complete)
        };
        let info = Infos::query(library, &exact)?
            .iter()
            .find(|info| info.ip() == ip && info.provider() == provider);
        if let Some(info) = info {
            return Ok(Selected {
                info,
                rma: caps & bits::RMA != 0,
                // Those of ofi_rxd were seen not to complete.
                atomics: caps & bits::ATOMIC != 0 && !provider.ends_with("ofi_rxd"),
                multi_receive: caps & bits::MULTI_RECV != 0,
            });
        }
    }
    Err(format!(
        "libfabric lists {provider} on {name}, but opens no endpoint of it"
    ))
}

/// The provider that a process would use.
pub fn probe(choice: &Choice) -> Result<String, String> {
    let needs = Needs {
        several_hosts: false,
        address: None,
        one_thread: false,
    };
    let selected = select(Functions::get()?, choice, needs)?;
    Ok(selected.info.provider())
}

fn allows(choice: &Choice, provider: &str) -> bool {
    let listed = |list: &[String]| list.iter().any(|name| means(name, provider));
    if choice.provider.is_some() {
        return true;
    }
    if !choice.include.is_empty() {
        return listed(&choice.include);
    }
    !listed(&choice.exclude)
}

/// The providers of these records, each once.
fn names(infos: &[Info]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in infos.iter().map(Info::provider) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Why no provider is left.
fn nothing(choice: &Choice, seen: &[String], needs: Needs) -> String {
    let device = choice
        .device
        .as_ref()
        .map_or(String::new(), |name| format!(" on GASNET_OFI_DEVICE={name}"));
    let reach = if needs.several_hosts {
        " and reaches other hosts"
    } else {
        ""
    };
    match &choice.provider {
        Some(name) => format!(
            "libfabric has no provider GASNET_OFI_PROVIDER={name}{device} with reliable messages (FI_EP_RDM){reach}. \
             fi_info -t FI_EP_RDM lists what this host has"
        ),
        None if seen.is_empty() => format!(
            "libfabric has no provider{device} with reliable messages (FI_EP_RDM){reach}. fi_info lists what this host \
             has"
        ),
        None => format!(
            "libfabric offers {} only{device}, which GASNET_OFI_PROVIDER_INCLUDE or _EXCLUDE rule out. \
             GASNET_OFI_PROVIDER selects one",
            seen.join(", ")
        ),
    }
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

    #[test]
    fn lists_rule_out() {
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_string()).collect::<Vec<_>>();
        let choice = |provider: Option<&str>, include: &[&str], exclude: &[&str]| Choice {
            provider: provider.map(str::to_string),
            include: words(include),
            exclude: words(exclude),
            device: None,
            atomics: None,
        };
        assert!(!allows(&choice(None, &[], &["udp"]), "udp;ofi_rxd"));
        assert!(allows(&choice(None, &[], &["udp"]), "tcp;ofi_rxm"));
        assert!(allows(&choice(None, &["udp"], &["udp"]), "udp;ofi_rxd"));
        assert!(!allows(&choice(None, &["udp"], &[]), "tcp;ofi_rxm"));
        assert!(allows(&choice(Some("udp"), &["tcp"], &["udp"]), "udp;ofi_rxd"));
    }
}
