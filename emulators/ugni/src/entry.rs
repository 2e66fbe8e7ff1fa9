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

/// The bits of an error.
pub fn error(status: u8) -> u64 {
    u64::from(status) << 48
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
extern "C" fn gni_cq_get_status(entry: u64) -> u64 {
    u64::from(status(entry))
}

#[no_mangle]
extern "C" fn gni_cq_overrun(entry: u64) -> u64 {
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
extern "C" fn gni_cq_get_msg_id(entry: u64) -> u64 {
    entry & 0xffff_ffff
}

#[no_mangle]
extern "C" fn gni_cq_get_type(entry: u64) -> u64 {
    kind(entry)
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
        }
        assert_eq!(gni_cq_get_data(remote(u64::MAX)), (1 << 48) - 1);
    }
}
