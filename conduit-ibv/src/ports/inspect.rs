//! The report of `gasnet_info` on the HCAs of this host.
#![forbid(unsafe_code)]

use super::{local, Choice, Hca, Host, Link, Port};
use crate::ffi::Context;
use crate::settings::PortSettings;
use gasnet_conduit::locality::Ranks;
use gasnet_conduit::ProviderReport;
use gasnet_ibv_abi as abi;
use std::net::{IpAddr, Ipv4Addr};

/// The HCAs, as a process that is alone on its host would use them. The error is a message without
/// a full stop.
pub fn providers() -> Result<Vec<ProviderReport>, String> {
    /// The host's address is not known outside a job.
    const HOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let settings = PortSettings::read();
    let host = Host::open(&settings, HOST)?;
    let choice = settings.choose(&host.hcas, &settings.wanted(Ranks::default()));
    let report = |(index, hca): (usize, &Hca)| {
        let mut facts = vec![("use", verdict(hca, index, &choice))];
        if let Some(context) = &host.contexts[index] {
            facts.extend(details(context, hca));
        }
        ProviderReport {
            name: hca.name.clone(),
            facts,
        }
    };
    Ok(host.hcas.iter().enumerate().map(report).collect())
}

fn verdict(hca: &Hca, index: usize, choice: &Result<Choice, String>) -> String {
    let used = |choice: &Choice| choice.paths.iter().any(|(other, _)| *other == index);
    match (&hca.ports, choice) {
        (Err(why), _) => format!("impossible: {why}"),
        (Ok(_), _) if hca.usable().next().is_none() => "impossible: no port can connect".to_owned(),
        (Ok(_), Ok(choice)) if used(choice) => "chosen".to_owned(),
        (Ok(_), Ok(_)) => format!("possible: GASNET_IBV_PORTS={} selects it", hca.name),
        (Ok(_), Err(why)) => format!("excluded: {why}"),
    }
}

fn details(context: &Context, hca: &Hca) -> Vec<(&'static str, String)> {
    let device = &context.attributes;
    let firmware: Vec<u8> = device
        .fw_ver
        .iter()
        .map(|byte| *byte as u8)
        .take_while(|byte| *byte != 0)
        .collect();
    let ports = hca.ports.iter().flatten().map(|port: &Port| match &port.local {
        Ok((local, Link::InfiniBand)) => format!("{port}, {}", local::address(local)),
        Ok((local, link)) => format!("{port}, {link}, {}", local::address(local)),
        Err(_) => port.to_string(),
    });
    let atomics = match device.atomic_cap {
        abi::IBV_ATOMIC_NONE => "Active Messages (the HCA has none)",
        abi::IBV_ATOMIC_GLOB => "HCA, also with CPUs (IBV_ATOMIC_GLOB)",
        _ => "HCA (IBV_ATOMIC_HCA)",
    };
    let receives = if device.max_srq > 0 {
        "shared by all peers (SRQ)"
    } else {
        "of each connection (no SRQ)"
    };
    vec![
        ("firmware", String::from_utf8_lossy(&firmware).into_owned()),
        ("ports", ports.collect::<Vec<_>>().join("; ")),
        ("receive buffers", receives.to_owned()),
        ("atomics", atomics.to_owned()),
        ("gets of a peer", format!("{} at a time", device.max_qp_rd_atom)),
        ("largest region", format!("{} bytes", device.max_mr_size)),
    ]
}
