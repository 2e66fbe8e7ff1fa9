//! The tables of GIDs and P_Keys of ports, as C calls.

use std::ffi::c_int;

use gasnet_ibv_abi as abi;

use crate::address;
use crate::config::Config;
use crate::device::{find_port, store_prefix};
use crate::handle::{null, store, Context, Object};
use crate::ports::Entry;
use crate::shm::Port;

fn gid_of(raw: [u8; 16]) -> abi::ibv_gid {
    abi::ibv_gid { raw }
}

/// Entries that are not used are zero. Those of other namespaces can be read, too.
#[no_mangle]
extern "C" fn ibv_query_gid(
    context: *mut abi::ibv_context,
    port_num: u8,
    index: c_int,
    place: *mut abi::ibv_gid,
) -> c_int {
    let object = Context::of(context);
    let config = &object.process.config;
    if let Err(errno) = object.process.check(object.device) {
        null::<u8>(errno);
        return -1;
    }
    let Some(port) = find_port(object, u32::from(port_num)) else {
        return -1;
    };
    if index < 0 || index as u32 >= address::gid_table_len(config, object.device) {
        return -1;
    }
    let index = index as u32;
    let found = match config.of_ports.gid(port, index) {
        Some(Entry::Foreign) => address::usual_gid(config, port, index),
        _ => address::gid(config, port, index),
    };
    store(place, gid_of(found.map_or([0; 16], |(gid, _)| gid)));
    0
}

fn entry(config: &Config, port: Port, index: u32) -> Option<abi::ibv_gid_entry> {
    let (gid, gid_type) = address::gid(config, port, index)?;
    let port_num = port.port + 1;
    Some(abi::ibv_gid_entry {
        gid: gid_of(gid),
        gid_index: index,
        port_num,
        gid_type,
        ndev_ifindex: 0,
    })
}

#[no_mangle]
extern "C" fn _ibv_query_gid_ex(
    context: *mut abi::ibv_context,
    port_num: u32,
    index: u32,
    place: *mut abi::ibv_gid_entry,
    flags: u32,
    bytes: usize,
) -> c_int {
    let object = Context::of(context);
    let config = &object.process.config;
    let found = find_port(object, port_num)
        .filter(|port| config.of_ports.gid(*port, index) != Some(Entry::Foreign))
        .map(|port| entry(config, port, index));
    if let Err(errno) = object.process.check(object.device) {
        return errno;
    }
    match found {
        _ if flags != 0 => libc::EOPNOTSUPP,
        None => libc::EINVAL,
        Some(None) => libc::ENODATA,
        Some(Some(entry)) => {
            store_prefix(place, &entry, bytes);
            0
        }
    }
}

#[no_mangle]
extern "C" fn ibv_query_gid_type(context: *mut abi::ibv_context, port_num: u8, index: u32, place: *mut c_int) -> c_int {
    let object = Context::of(context);
    let config = &object.process.config;
    let port = find_port(object, u32::from(port_num));
    if port.is_none_or(|port| config.of_ports.gid(port, index) == Some(Entry::Foreign)) {
        null::<u8>(libc::EINVAL);
        return -1;
    }
    let found = port.and_then(|port| address::gid(config, port, index));
    // This older interface does not tell InfiniBand from RoCE v1.
    store(
        place,
        c_int::from(found.is_some_and(|(_, kind)| kind == address::TYPE_ROCE_V2)),
    );
    0
}

/// The table of P_Keys of a port: by default the default one only.
fn partitions(context: &Context, port_num: u8) -> &[u16] {
    let port = find_port(context, u32::from(port_num));
    port.map_or(&[], |port| context.process.config.of_ports.partitions(port))
}

#[no_mangle]
extern "C" fn ibv_query_pkey(context: *mut abi::ibv_context, port_num: u8, index: c_int, place: *mut u16) -> c_int {
    let object = Context::of(context);
    if let Err(errno) = object.process.check(object.device) {
        null::<u8>(errno);
        return -1;
    }
    let Some(key) = partitions(object, port_num).get(index as usize) else {
        return -1;
    };
    store(place, key.to_be());
    0
}
