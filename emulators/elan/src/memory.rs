//! Memory from the pools.

use std::ffi::c_void;

use gasnet_elan_abi as abi;

use crate::attachment::Attachment;
use crate::collective::Call;

pub extern "C" fn alloc(elan: *mut abi::gasnet_elan_t, align: usize, bytes: usize) -> *mut c_void {
    let (attachment, _inside) = Attachment::enter(elan, "alloc");
    check_align(attachment, "alloc", align);
    if attachment.counts.alloc.is(attachment.process.config.fail_alloc) {
        return std::ptr::null_mut();
    }
    let offset = attachment.pool.take(align, bytes);
    offset.map_or(std::ptr::null_mut(), |offset| {
        (attachment.pool.base + offset) as *mut c_void
    })
}

pub extern "C" fn free(elan: *mut abi::gasnet_elan_t, memory: *mut c_void) {
    let (attachment, _inside) = Attachment::enter(elan, "free");
    if !attachment.pool.give(memory as usize) {
        attachment.die("free", "the memory is not of `alloc`, or is free");
    }
}

pub extern "C" fn symmetric(
    elan: *mut abi::gasnet_elan_t,
    align: usize,
    bytes: usize,
    address: *mut u64,
) -> *mut c_void {
    let (attachment, _inside) = Attachment::enter(elan, "symmetric");
    check_align(attachment, "symmetric", align);
    let fails = attachment.counts.symmetric.is(attachment.process.config.fail_symmetric);
    // Equal calls in equal pools: the offset is the same everywhere.
    let offset = if fails {
        None
    } else {
        attachment.symmetric.take(align, bytes)
    };
    let argument = (bytes as u64) << 8 | u64::from(align.max(1).ilog2());
    let is_good = attachment.meet(Call::Symmetric, argument, offset.is_none());
    match offset {
        Some(offset) if is_good => {
            // SAFETY: the caller passes a place for the address.
            unsafe { address.write(attachment.symmetric_address(offset)) };
            (attachment.symmetric.base + offset) as *mut c_void
        }
        Some(offset) => {
            attachment.symmetric.give(attachment.symmetric.base + offset);
            std::ptr::null_mut()
        }
        None => std::ptr::null_mut(),
    }
}

pub extern "C" fn symmetric_free(elan: *mut abi::gasnet_elan_t, memory: *mut c_void) {
    let (attachment, _inside) = Attachment::enter(elan, "symmetric_free");
    let Some(offset) = attachment.symmetric.find(memory as usize, 1) else {
        attachment.die("symmetric_free", "the memory is not of `symmetric`, or is free");
    };
    attachment.meet(Call::SymmetricFree, offset as u64, false);
    if !attachment.symmetric.give(memory as usize) {
        attachment.die("symmetric_free", "the memory is not of `symmetric`, or is free");
    }
}

fn check_align(attachment: &Attachment, call: &str, align: usize) {
    if align != 0 && !align.is_power_of_two() {
        attachment.die(call, &format!("{align} is no power of two"));
    }
}
