//! Unreliable datagrams.

use std::sync::atomic::Ordering::Relaxed;

use gasnet_ibv_abi as abi;

use crate::address::{self, Address, Destination, Vector, TYPE_ROCE_V2, V4_PREFIX};
use crate::config::Link;
use crate::copy::{self, Pieces};
use crate::cq::{self, Cqe, From};
use crate::ports::is_one_partition;
use crate::process::{now_ns, Process};
use crate::qp::{fail, Qp};
use crate::receive;
use crate::shm::{Port, Qp as Shared};
use crate::srq;
use crate::wqe::{Outcome, Wqe};

/// Bytes in front of each received datagram.
pub const GRH_BYTES: usize = 40;
/// Largest datagram: the MTU of all ports.
pub const MAX_DATAGRAM: u64 = 4096;

/// Sends a datagram: what is wrong at the other end is not noticed here.
pub fn send(qp: &Qp, wqe: &Wqe) -> Outcome {
    let Some(destination) = wqe.ud else {
        return Outcome::Failed(abi::IBV_WC_LOC_QP_OP_ERR);
    };
    let words = &qp.process.config.of_ports;
    if wqe.length() > MAX_DATAGRAM.min(u64::from(words.mtu(qp.port()))) {
        return Outcome::Failed(abi::IBV_WC_LOC_LEN_ERR);
    }
    if destination.vector.port != qp.port() {
        return Outcome::Failed(abi::IBV_WC_LOC_QP_OP_ERR);
    }
    let payload = match &wqe.data {
        Some(data) => Some(data.clone()),
        None => qp.local(wqe, 0).and_then(|memory| copy::gather(&memory.pieces).ok()),
    };
    let Some(payload) = payload else {
        return Outcome::Failed(abi::IBV_WC_LOC_PROT_ERR);
    };
    let datagram = Datagram {
        from: qp.key,
        qkey: qp.shared.qkey.load(Relaxed),
        pkey: words.partition(qp.port(), qp.shared.path.pkey_index.load(Relaxed)),
        destination,
        imm: wqe.has_imm().then_some(wqe.imm),
        solicited: wqe.flags & abi::IBV_SEND_SOLICITED != 0,
        payload,
    };
    let (process, config, random) = (qp.process, &qp.process.config, &qp.process.random);
    if let Some((bytes, qkey)) = config.ud_outsider {
        let mut outsider = Datagram {
            payload: vec![0xa5; bytes as usize],
            ..datagram.clone()
        };
        outsider.destination.qkey = qkey.unwrap_or(destination.qkey);
        deliver(process, &outsider);
    }
    if random.hits(config.ud_loss) {
        return Outcome::Done;
    }
    if random.hits(config.ud_dup) {
        deliver(process, &datagram);
    }
    if random.hits(config.ud_reorder) {
        let delay = config.delay.as_nanos() as u64;
        process.later.at(now_ns() + delay, move || deliver(process, &datagram));
    } else {
        deliver(process, &datagram);
    }
    Outcome::Done
}

/// A datagram under way.
#[derive(Clone)]
struct Datagram {
    /// Key of the sending QP, its Q_Key and its P_Key.
    from: u32,
    qkey: u32,
    pkey: u16,
    destination: Destination,
    imm: Option<u32>,
    solicited: bool,
    payload: Vec<u8>,
}

/// Whether a datagram survives the routers on its way.
fn survives(process: &Process, vector: &Vector) -> bool {
    match (
        address::gid(&process.config, vector.port, vector.sgid_index),
        vector.dgid,
    ) {
        (Some((gid, TYPE_ROCE_V2)), Some(to)) => address::survives(vector.hop_limit, &gid, &to),
        _ => true,
    }
}

/// The QP that a datagram reaches.
fn find<'a>(process: &'a Process, datagram: &Datagram) -> Option<&'a Shared> {
    let destination = &datagram.destination;
    let peer = process.fabric.qps.find(destination.qpn)?;
    let (config, vector) = (&process.config, &destination.vector);
    let port = address::find(config, vector.port, vector.to)?;
    let is_taken = match vector.to {
        // A UD QP listens at the first LID of its port only.
        Address::Lid(lid) => lid == address::lid(config, port),
        Address::Gid(_) => true,
    };
    let words = &config.of_ports;
    let pkey = words.partition(port, peer.path.pkey_index.load(Relaxed));
    let arrives = is_taken
        && is_one_partition([datagram.pkey, pkey])
        && (!words.needs_global(port) || vector.dgid.is_some())
        && datagram.payload.len() as u64 <= u64::from(words.mtu(port))
        && survives(process, vector);
    // A Q_Key with the highest bit set stands for that of the sending QP.
    let qkey = if destination.qkey >> 31 == 0 {
        destination.qkey
    } else {
        datagram.qkey
    };
    let reached = arrives
        && peer.kind.load(Relaxed) == abi::IBV_QPT_UD
        && port
            == Port {
                device: peer.device.load(Relaxed),
                port: peer.path.port.load(Relaxed),
            }
        && peer.qkey.load(Relaxed) == qkey
        && process.port_is_up(destination.vector.port)
        && process.port_is_up(port);
    reached.then_some(peer)
}

/// Puts a datagram into a receive of its destination, if there is one.
fn deliver(process: &Process, datagram: &Datagram) {
    let destination = &datagram.destination;
    let Some(peer) = find(process, datagram) else { return };
    let _guard = peer.entry.lock.lock();
    if !matches!(
        peer.state.load(Relaxed),
        abi::IBV_QPS_RTR | abi::IBV_QPS_RTS | abi::IBV_QPS_SQD | abi::IBV_QPS_SQE
    ) {
        return;
    }
    let srq_key = peer.srq.load(Relaxed);
    let srq = srq::find(process, srq_key);
    let receives = srq.map_or(&peer.receives, |srq| &srq.receives);
    let Some(posted) = receive::take(process, receives) else {
        return;
    };
    let from = if srq.is_some() {
        From::Shared(srq_key)
    } else {
        From::Receive(destination.qpn)
    };
    let mut cqe = Cqe::new(
        posted.wr_id,
        abi::IBV_WC_SUCCESS,
        abi::IBV_WC_RECV,
        destination.qpn,
        from,
    );
    let pd = srq.map_or(&peer.pd, |srq| &srq.pd).load(Relaxed);
    let memory = receive::memory(
        process,
        posted.sges(),
        peer.device.load(Relaxed),
        pd,
        abi::IBV_ACCESS_LOCAL_WRITE,
    );
    let room: u64 = posted.sges().iter().map(|sge| u64::from(sge.length)).sum();
    let bytes = (GRH_BYTES + datagram.payload.len()) as u64;
    let header = header(process, destination, datagram.payload.len());
    cqe.status = match &memory {
        _ if bytes > room => abi::IBV_WC_LOC_LEN_ERR,
        None => abi::IBV_WC_LOC_PROT_ERR,
        Some(memory) => {
            let slot = peer.entry.owner.load(Relaxed).wrapping_sub(1);
            place(process.pid_of(slot), &memory.pieces, header.as_ref(), &datagram.payload)
        }
    };
    cqe.byte_len = bytes as u32;
    cqe.src_qp = datagram.from;
    cqe.slid = address::lid(&process.config, destination.vector.port);
    cqe.service_level = destination.vector.service_level;
    cqe.solicited = datagram.solicited;
    if header.is_some() {
        cqe.wc_flags |= abi::IBV_WC_GRH;
    }
    if let Some(imm) = datagram.imm {
        cqe.imm = imm;
        cqe.wc_flags |= abi::IBV_WC_WITH_IMM;
    }
    if cqe.status == abi::IBV_WC_LOC_LEN_ERR {
        process.overlong.fetch_add(1, Relaxed);
    }
    let kept = cq::push(process, peer.recv_cq.load(Relaxed), &cqe);
    if !kept || cqe.status != abi::IBV_WC_SUCCESS {
        fail(process, peer, destination.qpn);
    }
}

/// Writes header (if there is one) and payload; the status of the receive.
fn place(pid: i32, memory: &Pieces, header: Option<&[u8; GRH_BYTES]>, payload: &[u8]) -> u32 {
    let mut to = *memory;
    let mut from = Pieces::default();
    match header {
        Some(header) => from.push(header.as_ptr() as u64, GRH_BYTES as u64),
        None => to.skip(GRH_BYTES as u64),
    }
    from.push(payload.as_ptr() as u64, payload.len() as u64);
    match copy::write(pid, &from, &to) {
        Ok(()) => abi::IBV_WC_SUCCESS,
        Err(_) => abi::IBV_WC_LOC_PROT_ERR,
    }
}

/// The global route header that the receiver sees; None: without one.
fn header(process: &Process, destination: &Destination, bytes: usize) -> Option<[u8; GRH_BYTES]> {
    let vector = &destination.vector;
    let (sgid, kind) = address::gid(&process.config, vector.port, vector.sgid_index)?;
    let dgid = vector.dgid?;
    let mut header = [0; GRH_BYTES];
    if process.config.link(vector.port.device) == Link::Roce && kind == TYPE_ROCE_V2 && sgid[..12] == V4_PREFIX {
        let v4 = &mut header[20..];
        v4[0] = 0x45;
        v4[1] = vector.traffic_class;
        v4[2..4].copy_from_slice(&(bytes as u16 + 20).to_be_bytes());
        v4[8] = vector.hop_limit;
        v4[9] = 17;
        v4[12..16].copy_from_slice(&sgid[12..]);
        v4[16..20].copy_from_slice(&dgid[12..]);
        return Some(header);
    }
    header[0] = 0x60 | vector.traffic_class >> 4;
    header[1] = vector.traffic_class << 4;
    header[4..6].copy_from_slice(&(bytes as u16).to_be_bytes());
    header[6] = 0x1b;
    header[7] = vector.hop_limit;
    header[8..24].copy_from_slice(&sgid);
    header[24..].copy_from_slice(&dgid);
    Some(header)
}
