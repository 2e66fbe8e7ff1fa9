//! Addresses and classes in the packets of a chosen port.
#![forbid(unsafe_code)]

use super::gid::{self, Gid};
use super::{pkey, traffic_class, Link};
use crate::ffi::{Address, Context, GidEntry, LocalPort};
use crate::settings::PortSettings;
use gasnet_ibv_abi as abi;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;

/// `IBV_QPF_GRH_REQUIRED`: packets of a port need a global header, as those of virtual functions.
const GRH_REQUIRED: u8 = 1;

/// An active port of an opened HCA on a host with this address, and its link. The error is a
/// message without a full stop: why it could not connect.
pub fn local_port(
    context: &Context,
    number: u8,
    attributes: &abi::ibv_port_attr,
    settings: &PortSettings,
    host: IpAddr,
) -> Result<(LocalPort, Link), String> {
    let gids = context.gids(number, attributes.gid_tbl_len as usize);
    let version = |gid: &GidEntry| Gid::new(gid, Path::new("/"), &context.name, number);
    let gids: Vec<Gid> = gids.iter().map(version).collect();
    let is_ethernet = u32::from(attributes.link_layer) == abi::IBV_LINK_LAYER_ETHERNET;
    let requires_global = attributes.flags & GRH_REQUIRED != 0;
    let gid = match settings.gid_index {
        Some(index) => Some(named(&gids, index)?),
        None if is_ethernet => gid::choose(&gids, &gid::host(host)),
        // The first one names the port; others are for special purposes.
        None => gids.first(),
    };
    if gid.is_none() && is_ethernet {
        return Err("it has no GID. Bring up its network interface".to_owned());
    }
    if gid.is_none() && requires_global {
        return Err("its packets need a GID (IBV_QPF_GRH_REQUIRED), but it has none".to_owned());
    }
    let is_global = is_ethernet || requires_global || settings.gid_index.is_some();
    if !is_global && attributes.lid == 0 {
        return Err("it has no LID. Its subnet manager assigns one".to_owned());
    }
    let link = match gid {
        Some(gid) if is_ethernet => Link::Roce(gid.version.unwrap_or(2)),
        _ => Link::InfiniBand,
    };
    let default_class = || match link {
        Link::Roce(2) => traffic_class::of_port(Path::new("/"), &context.name, number),
        _ => 0,
    };
    let partition = pkey::choose(settings.pkey, &context.pkeys(number, attributes.pkey_tbl_len))?;
    let port = LocalPort {
        number,
        address: Address {
            lid: attributes.lid,
            gid: gid.map_or(Ipv6Addr::UNSPECIFIED, |gid| gid.address).octets(),
        },
        gid_index: gid.map_or(0, |gid| gid.index as u8),
        is_global,
        pkey_index: partition.index,
        pkey: partition.key,
        service_level: settings.service_level,
        traffic_class: settings.traffic_class.unwrap_or_else(default_class),
    };
    Ok((port, link))
}

/// The GID at the index that the user names.
fn named(gids: &[Gid], index: u8) -> Result<&Gid, String> {
    gids.iter().find(|gid| gid.index == u32::from(index)).ok_or_else(|| {
        let all: Vec<String> = gids
            .iter()
            .map(|gid| format!("{} ({})", gid.index, gid.address))
            .collect();
        format!(
            "it has no GID at the index GASNET_IBV_GID_INDEX={index}. Its GIDs are {}",
            all.join(", ")
        )
    })
}

/// The address of a port in reports.
pub fn address(port: &LocalPort) -> String {
    if port.is_global {
        format!("GID {} ({})", port.gid_index, Ipv6Addr::from(port.address.gid))
    } else {
        format!("LID {}", port.address.lid)
    }
}

/// A port in reports.
pub fn describe(port: &LocalPort, link: Link) -> String {
    format!(
        "{link}, {}, partition key {} ({:#06x}), service level {}, traffic class {}",
        address(port),
        port.pkey_index,
        port.pkey,
        port.service_level,
        port.traffic_class
    )
}
