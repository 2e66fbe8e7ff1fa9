//! SMSG: messages into mailboxes. A mailbox begins with a line in which the peer counts messages
//! that it has released; slots for `mbox_maxcredit` messages follow. A slot has a word with number
//! and tag of its message, one with the lengths of header and data, then both.
//! Proof: the tests of the gni provider of libfabric 1.18.2 (emulators/README.md) and messages.c.
#![allow(non_snake_case)]

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed};

use emulator_common::copy::{Data, Flag};
use gasnet_gni_abi as abi;

use crate::entry;
use crate::memory::check_local;
use crate::object::{Ep, Living, Mailbox, Side};
use crate::operation::put_flagged;
use crate::queue;
use crate::refuse::{call, code, invalid, load, quiet, refusal, store, Outcome};
use crate::region::grant;

const LINE: u64 = 64;
const SLOT_HEADER: u64 = 16;
const ANY_TAG: u8 = 0xff;

fn slot_bytes(longest: u32) -> u64 {
    (SLOT_HEADER + u64::from(longest)).next_multiple_of(LINE)
}

fn side(attr: &abi::gni_smsg_attr_t) -> Outcome<Side> {
    if attr.mbox_maxcredit == 0 || attr.msg_maxsize == 0 || attr.msg_maxsize > 65535 {
        return Err(invalid("a mailbox has credits, and messages of 1 to 65535 bytes"));
    }
    let base = attr.msg_buffer as u64 + u64::from(attr.mbox_offset);
    if base % 8 != 0 {
        return Err(refusal(
            abi::GNI_RC_ALIGNMENT_ERROR,
            "a mailbox needs an address that is a multiple of 8",
        ));
    }
    let slot = slot_bytes(attr.msg_maxsize);
    Ok(Side {
        base,
        handle: attr.mem_hndl,
        credits: u64::from(attr.mbox_maxcredit),
        slot,
        // Whole lines: programs for Cray send some bytes more than they asked for.
        longest: slot - SLOT_HEADER,
    })
}

#[no_mangle]
extern "C" fn GNI_SmsgBufferSizeNeeded(attr: *const abi::gni_smsg_attr_t, out: *mut u32) -> abi::gni_return_t {
    call("GNI_SmsgBufferSizeNeeded", || {
        let attr = load(attr, "no attributes")?;
        let side = side(&abi::gni_smsg_attr_t {
            msg_buffer: std::ptr::null_mut(),
            mbox_offset: 0,
            ..attr
        })?;
        store(
            out,
            (LINE + side.credits * side.slot) as u32,
            "the pointer for the size is null",
        )
    })
}

#[no_mangle]
extern "C" fn GNI_SmsgInit(
    ep: abi::gni_ep_handle_t,
    local: *const abi::gni_smsg_attr_t,
    remote: *const abi::gni_smsg_attr_t,
) -> abi::gni_return_t {
    call("GNI_SmsgInit", || {
        let (ep, _inside) = Ep::enter(ep)?;
        if !ep.bound.get() {
            return Err(invalid("the endpoint is not bound"));
        }
        let local = side(&load(local, "no attributes")?)?;
        let remote = side(&load(remote, "no attributes")?)?;
        let bytes = LINE + local.credits * local.slot;
        check_local(ep.nic, &local.handle, local.base, bytes, true)?;
        ep.mailbox.set(Some(Mailbox {
            local,
            remote,
            sent: 0,
            received: 0,
            released: 0,
        }));
        Ok(())
    })
}

/// Writes data and then a word into the peer's mailbox. Returns the key of its queue.
fn write(ep: &Ep, side: &Side, data: &Data, flag: &Flag) -> Result<u32, u8> {
    let granted = grant(ep.nic, &side.handle, ep.remote_address.get(), true)?;
    put_flagged(ep.nic.process, &granted, data, flag)?;
    Ok(granted.region.cq.load(Relaxed))
}

/// A word of this end's mailbox, which the peer may write.
fn word(at: u64) -> u64 {
    // SAFETY: GNI_SmsgInit has checked that the mailbox is registered and aligned.
    unsafe { AtomicU64::from_ptr(at as *mut u64) }.load(Acquire)
}

/// A message to send.
struct Message {
    header: (*const c_void, u32),
    data: (*const c_void, u32),
    id: u32,
    tag: u8,
}

fn send(ep: abi::gni_ep_handle_t, message: &Message) -> Outcome {
    let (ep, _inside) = Ep::enter(ep)?;
    let mut mailbox = ep.mailbox.get().ok_or(invalid("the endpoint has no mailbox"))?;
    let length = u64::from(message.header.1) + u64::from(message.data.1);
    if length > mailbox.remote.longest {
        return Err(refusal(
            abi::GNI_RC_ERROR_RESOURCE,
            "the message is longer than the mailbox allows",
        ));
    }
    if mailbox.sent - word(mailbox.local.base) >= mailbox.remote.credits {
        return Err(quiet(abi::GNI_RC_NOT_DONE));
    }
    let mut bytes = Vec::with_capacity(8 + length as usize);
    bytes.extend((u64::from(message.header.1) << 32 | u64::from(message.data.1)).to_ne_bytes());
    for (pointer, length) in [message.header, message.data] {
        if length != 0 {
            // SAFETY: the program passes `length` bytes.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(pointer.cast::<u8>(), length as usize) });
        }
    }
    let slot = mailbox.remote.base + LINE + mailbox.sent % mailbox.remote.credits * mailbox.remote.slot;
    mailbox.sent += 1;
    ep.mailbox.set(Some(mailbox));
    let flag = Flag {
        value: mailbox.sent << 8 | u64::from(message.tag),
        address: slot,
    };
    let data = Data {
        local: bytes.as_ptr() as u64,
        remote: slot + 8,
        bytes: bytes.len() as u64,
    };
    let status = match write(ep, &mailbox.remote, &data, &flag) {
        Ok(0) => 0,
        Ok(cq) => {
            let entry = entry::remote(u64::from(ep.remote_event.get())) | abi::GNI_CQ_EVENT_TYPE_SMSG << 54;
            queue::push(ep.nic.process, cq, entry);
            0
        }
        Err(status) => status,
    };
    if let Some(cq) = ep.cq {
        let entry = entry::source(entry::SOURCE_SSID, message.id, 0, status);
        queue::complete(cq, entry | abi::GNI_CQ_EVENT_TYPE_SMSG << 54);
    }
    Ok(())
}

#[no_mangle]
#[allow(clippy::too_many_arguments)]
extern "C" fn GNI_SmsgSendWTag(
    ep: abi::gni_ep_handle_t,
    header: *const c_void,
    header_length: u32,
    data: *const c_void,
    data_length: u32,
    id: u32,
    tag: u8,
) -> abi::gni_return_t {
    let message = Message {
        header: (header, header_length),
        data: (data, data_length),
        id,
        tag,
    };
    code("GNI_SmsgSendWTag", send(ep, &message))
}

/// The next message with a tag, or any.
#[no_mangle]
extern "C" fn GNI_SmsgGetNextWTag(ep: abi::gni_ep_handle_t, out: *mut *mut c_void, tag: *mut u8) -> abi::gni_return_t {
    call("GNI_SmsgGetNextWTag", || {
        let (ep, _inside) = Ep::enter(ep)?;
        let mut mailbox = ep.mailbox.get().ok_or(invalid("the endpoint has no mailbox"))?;
        let wanted = load(tag, "no tag")?;
        let slot = mailbox.local.base + LINE + mailbox.received % mailbox.local.credits * mailbox.local.slot;
        let flag = word(slot);
        if flag >> 8 != mailbox.received + 1 {
            return Err(quiet(abi::GNI_RC_NOT_DONE));
        }
        if wanted != ANY_TAG && wanted != flag as u8 {
            return Err(quiet(abi::GNI_RC_NO_MATCH));
        }
        if mailbox.received != mailbox.released {
            return Err(refusal(
                abi::GNI_RC_INVALID_STATE,
                "the message before was not released (GNI_SmsgRelease)",
            ));
        }
        mailbox.received += 1;
        ep.mailbox.set(Some(mailbox));
        store(tag, flag as u8, "")?;
        store(
            out,
            (slot + SLOT_HEADER) as *mut c_void,
            "the pointer for the message is null",
        )
    })
}

/// Gives the peer its credit back.
#[no_mangle]
extern "C" fn GNI_SmsgRelease(ep: abi::gni_ep_handle_t) -> abi::gni_return_t {
    call("GNI_SmsgRelease", || {
        let (ep, _inside) = Ep::enter(ep)?;
        let mut mailbox = ep.mailbox.get().ok_or(invalid("the endpoint has no mailbox"))?;
        if mailbox.received == mailbox.released {
            return Err(refusal(abi::GNI_RC_INVALID_STATE, "there is no message to release"));
        }
        mailbox.released += 1;
        ep.mailbox.set(Some(mailbox));
        let no_data = Data {
            local: 0,
            remote: 0,
            bytes: 0,
        };
        let flag = Flag {
            value: mailbox.released,
            address: mailbox.remote.base,
        };
        let written = write(ep, &mailbox.remote, &no_data, &flag);
        written.map(drop).map_err(|_| quiet(abi::GNI_RC_TRANSACTION_ERROR))
    })
}
