//! State of a thread between Prepare and Commit of a negotiated-payload message (`npam`).

use std::cell::{Cell, RefCell};
use std::ptr;

use super::token::Token;
use crate::event::Event;
use crate::types::{AmCategory, EpIndex, Location, MAX_ARGS};
use gasnet_conduit::{Class, JobRank};

/// The decisions of Prepare. `gex_AM_SrcDesc_t` is its address.
///
/// Commit loads what Prepare stored a moment ago. A load that is wider than the store waits until
/// the store has left the store buffer, after all stores to the ring's cache lines. So the narrow
/// fields of [`Prepared`] are packed into words.
#[derive(Debug)]
pub struct SrcDesc {
    location: Cell<u64>,
    /// 0 if nothing is prepared.
    kind: Cell<u64>,
    wide: Cell<Wide>,
    /// Library buffer where neither a block nor a send buffer is to be had; kept for the next
    /// use. Words keep it aligned.
    pub(super) buffer: RefCell<Vec<u128>>,
}

/// The fields of [`Prepared`] that are words.
#[derive(Clone, Copy, Debug)]
struct Wide {
    token: *const Token,
    address: *mut u8,
    bytes: usize,
    lc_opt: *mut Event,
    destination: *mut u8,
    destination_base: usize,
}

/// Bits of the word `kind`: the number of arguments in the low byte, flags, and two 16-bit numbers.
mod bits {
    pub const IS_LONG: u64 = 1 << 8;
    pub const IS_REPLY: u64 = 1 << 9;
    pub const LIBRARY_BUFFER: u64 = 1 << 10;
    pub const HAS_BLOCK: u64 = 1 << 11;
    pub const HAS_DEVICE: u64 = 1 << 12;
    pub const PREPARED: u64 = 1 << 13;
    pub const SEND_BUFFER: u64 = 1 << 14;
    pub const BLOCK: u32 = 32;
    pub const DEVICE: u32 = 48;
}

/// A message between Prepare and Commit.
#[derive(Clone, Copy, Debug)]
pub struct Prepared {
    /// Target endpoint.
    pub target: Location,
    /// Local endpoint.
    pub source_ep: u16,
    /// Request or reply.
    pub class: Class,
    /// Medium or Long.
    pub category: AmCategory,
    /// Arguments that Commit must bring.
    pub nargs: usize,
    /// The request that a reply answers, or null.
    pub token: *const Token,
    /// The payload buffer.
    pub address: *mut u8,
    /// Its size.
    pub bytes: usize,
    /// The client's place for local completion, if the buffer is the client's.
    pub lc_opt: *mut Event,
    /// Whether the buffer is the library's.
    pub library_buffer: bool,
    /// The block that `address` lies in.
    pub(super) block: Option<u16>,
    /// Whether `address` lies in a send buffer of the conduit ([`super::reserved`]).
    pub(super) in_send_buffer: bool,
    /// Endpoint whose segment holds `address`, if that may be device memory.
    pub(super) device_ep: Option<EpIndex>,
    /// The destination named at Prepare, if any.
    pub destination: *mut u8,
    /// Base of destinations.
    pub destination_base: usize,
}

impl SrcDesc {
    /// Unused.
    pub const fn new() -> Self {
        Self {
            location: Cell::new(0),
            kind: Cell::new(0),
            wide: Cell::new(Wide {
                token: ptr::null(),
                address: ptr::null_mut(),
                bytes: 0,
                lc_opt: ptr::null_mut(),
                destination: ptr::null_mut(),
                destination_base: 0,
            }),
            buffer: RefCell::new(Vec::new()),
        }
    }

    /// The prepared message, if any. Inlined, so that a caller reads what it uses and copies
    /// nothing.
    #[inline(always)]
    pub fn prepared(&self) -> Option<Prepared> {
        let (location, kind) = (self.location.get(), self.kind.get());
        if kind == 0 {
            return None;
        }
        let (has, wide) = (|bit| kind & bit != 0, self.wide.get());
        Some(Prepared {
            target: Location {
                rank: JobRank(location as u32),
                ep: (location >> 32) as EpIndex,
            },
            source_ep: (location >> 48) as EpIndex,
            class: if has(bits::IS_REPLY) {
                Class::Reply
            } else {
                Class::Request
            },
            category: if has(bits::IS_LONG) {
                AmCategory::Long
            } else {
                AmCategory::Medium
            },
            nargs: usize::from(kind as u8),
            token: wide.token,
            address: wide.address,
            bytes: wide.bytes,
            lc_opt: wide.lc_opt,
            library_buffer: has(bits::LIBRARY_BUFFER),
            in_send_buffer: has(bits::SEND_BUFFER),
            block: has(bits::HAS_BLOCK).then_some((kind >> bits::BLOCK) as u16),
            device_ep: has(bits::HAS_DEVICE).then_some((kind >> bits::DEVICE) as EpIndex),
            destination: wide.destination,
            destination_base: wide.destination_base,
        })
    }

    /// `p` is prepared: a Medium or a Long.
    #[inline(always)]
    pub(super) fn set(&self, p: &Prepared) {
        debug_assert!(p.category != AmCategory::Short && p.nargs <= MAX_ARGS);
        let location = u64::from(p.target.rank.0) | u64::from(p.target.ep) << 32 | u64::from(p.source_ep) << 48;
        let flag = |holds: bool, bit: u64| if holds { bit } else { 0 };
        let kind = bits::PREPARED
            | p.nargs as u64
            | flag(p.category == AmCategory::Long, bits::IS_LONG)
            | flag(p.class == Class::Reply, bits::IS_REPLY)
            | flag(p.library_buffer, bits::LIBRARY_BUFFER)
            | flag(p.in_send_buffer, bits::SEND_BUFFER)
            | p.block
                .map_or(0, |block| bits::HAS_BLOCK | u64::from(block) << bits::BLOCK)
            | p.device_ep
                .map_or(0, |ep| bits::HAS_DEVICE | u64::from(ep) << bits::DEVICE);
        self.location.set(location);
        self.kind.set(kind);
        self.wide.set(Wide {
            token: p.token,
            address: p.address,
            bytes: p.bytes,
            lc_opt: p.lc_opt,
            destination: p.destination,
            destination_base: p.destination_base,
        });
    }

    /// Nothing is prepared.
    #[inline(always)]
    pub(super) fn clear(&self) {
        self.kind.set(0);
    }
}

impl Default for SrcDesc {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_comes_back() {
        let desc = SrcDesc::new();
        assert!(desc.prepared().is_none());
        for (n, (block, device_ep)) in [
            (None, None),
            (Some(0), None),
            (None, Some(0)),
            (Some(0xfffe), Some(0xffff)),
        ]
        .into_iter()
        .enumerate()
        {
            let prepared = Prepared {
                target: Location {
                    rank: JobRank(u32::MAX - n as u32),
                    ep: 0x8001,
                },
                source_ep: 0xffff - n as u16,
                class: [Class::Request, Class::Reply][n % 2],
                category: [AmCategory::Medium, AmCategory::Long][n / 2],
                nargs: [0, 1, 15, MAX_ARGS][n],
                token: (8 * n) as *const Token,
                address: (16 * n) as *mut u8,
                bytes: usize::MAX - n,
                lc_opt: (32 * n) as *mut Event,
                library_buffer: n % 2 == 0,
                in_send_buffer: n == 2,
                block,
                device_ep,
                destination: (64 * n) as *mut u8,
                destination_base: n,
            };
            desc.set(&prepared);
            assert_eq!(format!("{:?}", desc.prepared().unwrap()), format!("{prepared:?}"));
            desc.clear();
            assert!(desc.prepared().is_none());
        }
    }
}
