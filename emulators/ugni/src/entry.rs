//! Entries of completion queues. The layout is the emulator's own; programs use the accessors.
//!
//! | bits | content |
//! |---|---|
//! | 0-31 | instance id (source queues of Aries: 24 bits) |
//! | 0-47 | value of a CQ write |
//! | 32-47, 59-62 | index of the request, in source queues |
//! | 48-53 | status, as Aries counts |
//! | 54-55 | type (`GNI_CQ_EVENT_TYPE_*`) |
//! | 56-58 | source; 0: no entry |
//! | 63 | entries before this one were lost |

use gasnet_gni_abi as abi;

pub const SOURCE_BTE: u64 = 1;
pub const SOURCE_SSID: u64 = 2;
pub const SOURCE_RMT: u64 = 3;
pub const SOURCE_CE: u64 = 5;
pub const OVERRUN: u64 = 1 << 63;
const DATA: u64 = (1 << 48) - 1;

/// An event of a request: LOCAL of the BTE, GLOBAL of the SSID.
#[inline(always)]
pub fn source(from: u64, instance: u32, request: u32, status: u8) -> u64 {
    let request = u64::from(request);
    u64::from(instance) | (request & 0xffff) << 32 | (request >> 16) << 59 | u64::from(status) << 48 | from << 56
}

/// An event of a destination queue.
#[inline(always)]
pub fn remote(data: u64) -> u64 {
    data & DATA | SOURCE_RMT << 56
}

/// An event of a collective engine.
pub fn engine(id: u32, reduction: u64, status: u8) -> u64 {
    u64::from(id) | (reduction & 0xffff) << 32 | u64::from(status) << 48 | SOURCE_CE << 56
}

#[inline(always)]
pub fn request(entry: u64) -> u32 {
    (entry >> 32 & 0xffff | (entry >> 59 & 15) << 16) as u32
}

#[inline(always)]
pub fn status(entry: u64) -> u8 {
    (entry >> 48 & 63) as u8
}

#[inline(always)]
pub fn kind(entry: u64) -> u64 {
    entry >> 54 & 3
}

#[inline(always)]
pub fn from(entry: u64) -> u64 {
    entry >> 56 & 7
}

#[no_mangle]
extern "C" fn gni_cq_get_data(entry: u64) -> u64 {
    entry & DATA
}

#[no_mangle]
extern "C" fn gni_cq_get_source(entry: u64) -> u64 {
    from(entry)
}

#[no_mangle]
extern "C" fn gni_cq_get_status(entry: u64) -> u64 {
    u64::from(status(entry))
}

#[no_mangle]
extern "C" fn gni_cq_get_info(_entry: u64) -> u64 {
    0
}

#[no_mangle]
extern "C" fn gni_cq_overrun(entry: u64) -> u64 {
    entry >> 63
}

#[no_mangle]
extern "C" fn gni_cq_rem_overrun(entry: u64) -> u64 {
    entry >> 63
}

#[no_mangle]
extern "C" fn gni_cq_get_inst_id(entry: u64) -> u64 {
    entry & 0xffff_ffff
}

#[no_mangle]
extern "C" fn gni_cq_get_rem_inst_id(entry: u64) -> u64 {
    entry & 0xffff_ffff
}

#[no_mangle]
extern "C" fn gni_cq_get_tid(entry: u64) -> u64 {
    u64::from(request(entry))
}

#[no_mangle]
extern "C" fn gni_cq_get_msg_id(entry: u64) -> u64 {
    entry & 0xffff_ffff
}

#[no_mangle]
extern "C" fn gni_cq_get_type(entry: u64) -> u64 {
    kind(entry)
}

#[no_mangle]
extern "C" fn gni_cq_get_block_id(_entry: u64) -> u64 {
    0
}

#[no_mangle]
extern "C" fn gni_cq_get_unsuccessful_cnt(entry: u64) -> u64 {
    u64::from(status(entry) != 0)
}

#[no_mangle]
extern "C" fn gni_cq_get_marker_id(_entry: u64) -> u64 {
    0
}

#[no_mangle]
extern "C" fn gni_cq_get_failed_enqueue_cnt(_entry: u64) -> u64 {
    0
}

#[no_mangle]
extern "C" fn gni_cq_get_ce_id(entry: u64) -> u64 {
    entry & 0xffff_ffff
}

#[no_mangle]
extern "C" fn gni_cq_get_reductn_id(entry: u64) -> u64 {
    entry >> 32 & 0xffff
}

#[no_mangle]
extern "C" fn gni_cq_get_trans_type(entry: u64) -> u64 {
    from(entry)
}

/// Puts a value into bits of an entry.
fn set(entry: *mut abi::gni_cq_entry_t, mask: u64, value: u64) {
    if !entry.is_null() {
        // SAFETY: the caller passes a valid pointer or NULL.
        unsafe { *entry = *entry & !mask | value & mask };
    }
}

#[no_mangle]
extern "C" fn gni_cq_set_inst_id(entry: *mut abi::gni_cq_entry_t, value: u64) {
    set(entry, 0xffff_ffff, value);
}

#[no_mangle]
extern "C" fn gni_cq_set_rem_inst_id(entry: *mut abi::gni_cq_entry_t, value: u64) {
    set(entry, 0xffff_ffff, value);
}

#[no_mangle]
extern "C" fn gni_cq_set_tid(entry: *mut abi::gni_cq_entry_t, value: u64) {
    set(
        entry,
        0xffff << 32 | 15 << 59,
        value << 32 & 0xffff << 32 | (value >> 16) << 59,
    );
}

#[no_mangle]
extern "C" fn gni_cq_set_msg_id(entry: *mut abi::gni_cq_entry_t, value: u64) {
    set(entry, 0xffff_ffff, value);
}

#[no_mangle]
extern "C" fn gni_cq_set_type(entry: *mut abi::gni_cq_entry_t, value: u64) {
    set(entry, 3 << 54, value << 54);
}

#[no_mangle]
extern "C" fn gni_cq_clr_status(entry: *mut abi::gni_cq_entry_t) {
    set(entry, 63 << 48, 0);
}

#[no_mangle]
extern "C" fn gni_cq_status_dla_overflow(entry: u64) -> u32 {
    u32::from(status(entry) == 0x20)
}

#[no_mangle]
extern "C" fn gni_cq_bte_enq_status(_entry: u64) -> u32 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_overlap() {
        for index in [0, 1, 0xffff, 0x1_0000, 0xf_ffff] {
            let entry = source(SOURCE_BTE, 0xffff_ffff, index, 63) | 3 << 54 | OVERRUN;
            assert_eq!((request(entry), status(entry), kind(entry)), (index, 63, 3));
            assert_eq!((from(entry), gni_cq_get_inst_id(entry)), (SOURCE_BTE, 0xffff_ffff));
            let mut other = source(SOURCE_BTE, 7, 0, 0);
            gni_cq_set_tid(&mut other, u64::from(index));
            assert_eq!(other, source(SOURCE_BTE, 7, index, 0));
        }
        assert_eq!(gni_cq_get_data(remote(u64::MAX)), (1 << 48) - 1);
    }
}
