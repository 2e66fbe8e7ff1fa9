//! Completion channels: descriptors that become readable when an armed queue gets an entry. Each is
//! a datagram socket in the fabric's folder; a doorbell holds the key of the queue.
#![allow(non_snake_case)]

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::Mutex;

use emulator_common::lock::locked;
use gasnet_gni_abi as abi;

use crate::object::{Channel, Cq, Living, Nic, Object};
use crate::process::{pause, Process};
use crate::refuse::{call, invalid, quiet, store, Outcome};
use crate::shm;

fn path(process: &Process, number: u32) -> String {
    format!("{}/channel{number}", process.dir)
}

/// Rings the doorbell of an armed queue's channel.
#[cold]
pub fn ring(process: &Process, cq: &shm::Cq) {
    if cq.armed.swap(0, SeqCst) == 0 {
        return;
    }
    let offset = cq.ring.offset();
    if let Ok(socket) = UnixDatagram::unbound() {
        let _ = socket.set_nonblocking(true);
        // The owner may be gone.
        let _ = socket.send_to(&offset.to_ne_bytes(), path(process, cq.channel.load(Relaxed)));
    }
}

#[no_mangle]
extern "C" fn GNI_CompChanCreate(
    nic: abi::gni_nic_handle_t,
    out: *mut abi::gni_comp_chan_handle_t,
) -> abi::gni_return_t {
    call("GNI_CompChanCreate", || {
        let (nic, _inside) = Nic::enter(nic)?;
        let number = nic.process.fabric.channels.fetch_add(1, SeqCst) + 1;
        let path = path(nic.process, number);
        let socket = UnixDatagram::bind(path).map_err(|_| quiet(abi::GNI_RC_ERROR_RESOURCE))?;
        let channel = Channel {
            kind: AtomicU32::new(0),
            nic,
            number,
            socket: socket.into(),
            cqs: Mutex::new(Vec::new()),
        };
        store(out, channel.publish().handle(), "the pointer for the handle is null")
    })
}

/// The descriptor stays open, since a stale handle must not name another file.
#[no_mangle]
extern "C" fn GNI_CompChanDestroy(channel: abi::gni_comp_chan_handle_t) -> abi::gni_return_t {
    call("GNI_CompChanDestroy", || {
        let (channel, _inside) = Channel::enter(channel)?;
        channel.retire();
        let _ = std::fs::remove_file(path(channel.nic.process, channel.number));
        Ok(())
    })
}

#[no_mangle]
extern "C" fn GNI_CompChanFd(channel: abi::gni_comp_chan_handle_t, out: *mut i32) -> abi::gni_return_t {
    call("GNI_CompChanFd", || {
        let channel = Channel::of(channel)?;
        let _inside = channel.nic.enter_if_strict();
        store(
            out,
            channel.socket.as_raw_fd(),
            "the pointer for the descriptor is null",
        )
    })
}

#[no_mangle]
extern "C" fn GNI_CqAttachCompChan(
    cq: abi::gni_cq_handle_t,
    channel: abi::gni_comp_chan_handle_t,
) -> abi::gni_return_t {
    call("GNI_CqAttachCompChan", || {
        let cq = Cq::of(cq)?;
        let channel = Channel::of(channel)?;
        let _inside = cq.nic.enter_domain();
        if cq.mode & abi::GNI_CQ_BLOCKING == 0 {
            return Err(invalid("the queue was not created for waiting (GNI_CQ_BLOCKING)"));
        }
        if cq.shared.channel.load(Relaxed) != 0 {
            return Err(invalid("the queue has a channel"));
        }
        cq.shared.channel.store(channel.number, SeqCst);
        locked(&channel.cqs).push(cq);
        Ok(())
    })
}

/// Entries that were there before do not ring.
#[no_mangle]
extern "C" fn GNI_CqArmCompChan(cqs: *const abi::gni_cq_handle_t, count: u32) -> abi::gni_return_t {
    call("GNI_CqArmCompChan", || {
        if cqs.is_null() || count == 0 {
            return Err(invalid("no completion queues"));
        }
        // SAFETY: the program passes `count` handles.
        for cq in unsafe { std::slice::from_raw_parts(cqs, count as usize) } {
            let cq = Cq::of(*cq)?;
            let _inside = cq.nic.enter_domain();
            if cq.shared.channel.load(Relaxed) == 0 {
                return Err(invalid("the queue has no channel"));
            }
            pause(cq.nic.process.config.slow_arm_us);
            cq.shared.armed.store(1, SeqCst);
        }
        Ok(())
    })
}

/// The queue of the next doorbell; NOT_DONE: there is none.
fn next(channel: &Channel) -> Outcome<abi::gni_cq_handle_t> {
    let mut bytes = [0_u8; 8];
    // SAFETY: the kernel writes at most as many bytes as there are.
    let got = unsafe {
        libc::recv(
            channel.socket.as_raw_fd(),
            bytes.as_mut_ptr().cast(),
            bytes.len(),
            libc::MSG_DONTWAIT,
        )
    };
    if got != 8 {
        return Err(quiet(abi::GNI_RC_NOT_DONE));
    }
    let offset = u64::from_ne_bytes(bytes);
    let cqs = locked(&channel.cqs);
    let found = cqs.iter().find(|cq| cq.shared.ring.offset() == offset);
    found.map(|cq| cq.handle()).ok_or(quiet(abi::GNI_RC_NOT_DONE))
}

#[no_mangle]
extern "C" fn GNI_CompChanGetEvent(
    channel: abi::gni_comp_chan_handle_t,
    out: *mut abi::gni_cq_handle_t,
) -> abi::gni_return_t {
    call("GNI_CompChanGetEvent", || {
        let channel = Channel::of(channel)?;
        let _inside = channel.nic.enter_if_strict();
        store(out, next(channel)?, "the pointer for the handle is null")
    })
}
