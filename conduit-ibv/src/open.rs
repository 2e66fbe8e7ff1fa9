//! Opening the HCAs and ports of this process.

use crate::hello::Link;
use crate::net::{Opened, Path};
use crate::rail::Rail;
use crate::variables::Settings;
use crate::verbs::{Address, Channel, Context, Datagrams, Devices, Functions, LocalPort};
use gasnet_conduit::StartInfo;
use gasnet_ibv_abi as ffi;

/// The key of datagrams' queue pairs. It authenticates nobody.
const DATAGRAM_KEY: u32 = 0x0067_6578;

/// Opens what this process uses. `has_thread`: a thread waits for datagrams. The error is a message without a full stop.
pub fn open(info: &StartInfo<'_>, settings: &Settings, has_thread: bool) -> Result<Opened, String> {
    let library = Functions::get()?;
    library.prepare_fork();
    let devices = Devices::list()?;
    if devices.count() == 0 {
        return Err("there is no HCA (ibv_get_device_list lists none)".to_owned());
    }
    let context = devices.open(info.host_index() % devices.count())?;
    let peers = info.size as usize;
    let mut rails = Vec::new();
    let mut paths = Vec::new();
    let mut link = Link::InfiniBand;
    for number in 1..=context.attributes.phys_port_cnt {
        let port = context.port(number).map_err(|why| why.to_string())?;
        if port.state != ffi::IBV_PORT_ACTIVE {
            continue;
        }
        let is_ethernet = u32::from(port.link_layer) == ffi::IBV_LINK_LAYER_ETHERNET;
        let gids = context.gids(number, port.gid_tbl_len as usize);
        let gid = gids
            .iter()
            .rfind(|gid| !is_ethernet || gid.kind == Some(ffi::IBV_GID_TYPE_ROCE_V2));
        if is_ethernet {
            link = Link::Roce(2);
        }
        let gid = gid.ok_or("no GID")?;
        paths.push(path(&context, number, &port, (gid.index, gid.gid), is_ethernet));
        break;
    }
    let rail = Rail::new(context, settings, peers, info.threads_sleep)?;
    rails.push(rail);
    let receives = settings
        .datagram_receives
        .unwrap_or_else(|| 6.max(4 + 2 * (info.size.max(2) - 1).ilog2() as usize));
    let first: &Path = &paths[0];
    let rail: &Rail = &rails[first.rail];
    let channel = has_thread.then(|| Channel::new(&rail.context)).transpose();
    let channel = channel.map_err(|why| format!("ibv_create_comp_channel failed: {why}"))?;
    let datagrams = Datagrams::new(
        &rail.context,
        &rail.domain,
        first.port,
        (settings.datagram_sends, receives),
        DATAGRAM_KEY,
        channel.as_ref().or(rail.channel.as_ref()),
    )
    .map_err(|why| format!("a queue pair for datagrams failed: {why}"))?;
    Ok(Opened {
        has_atomics: rails
            .iter()
            .all(|rail| rail.context.attributes.atomic_cap != ffi::IBV_ATOMIC_NONE),
        rails: rails.into(),
        paths: paths.into(),
        datagrams,
        channel,
        link,
    })
}

fn path(
    context: &Context,
    number: u8,
    port: &ffi::ibv_port_attr,
    (gid_index, gid): (u32, [u8; 16]),
    is_global: bool,
) -> Path {
    let device = &context.attributes;
    Path {
        rail: 0,
        port: LocalPort {
            number,
            address: Address { lid: port.lid, gid },
            gid_index: gid_index as u8,
            is_global,
            pkey_index: 0,
            service_level: 0,
            traffic_class: 0,
        },
        mtu: port.active_mtu as u8,
        reads: device.max_qp_rd_atom.clamp(1, 255) as u8,
        initiated: device.max_qp_init_rd_atom.clamp(1, 255) as u8,
        max_message: port.max_msg_sz as usize,
    }
}
