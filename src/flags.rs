//! The constants of the interface: flags, event constants, event categories, error codes. Their
//! values are part of the ABI; a test at the end compares each with the headers.

use std::ffi::c_int;
use std::fmt;
use std::ops::{BitAnd, BitOr};

/// `gex_Flags_t`. Each call has its own subset of flags. `gex_Client_Init`, `gex_EP_Create` and
/// `gex_EP_RegisterHandlers` reuse the low bits.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u32);

impl Flags {
    /// No flags.
    pub const NONE: Self = Self(0);

    /// The flags with these bits.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The bits.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether any of `flags` is set.
    #[inline]
    pub const fn has(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }

    /// Whether all of `flags` are set.
    #[inline]
    pub const fn has_all(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Whether no flag is set.
    #[inline]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// These and `flags`.
    #[must_use]
    #[inline]
    pub const fn with(self, flags: Self) -> Self {
        Self(self.0 | flags.0)
    }

    /// These except `flags`.
    #[must_use]
    #[inline]
    pub const fn without(self, flags: Self) -> Self {
        Self(self.0 & !flags.0)
    }

    /// Number of flags that are set.
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }
}

impl BitOr for Flags {
    type Output = Self;
    #[inline]
    fn bitor(self, other: Self) -> Self {
        self.with(other)
    }
}

impl BitAnd for Flags {
    type Output = Self;
    #[inline]
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl fmt::LowerHex for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}

/// Constants of [`Flags`], and a table of them for the test: each is `GEX_FLAG_` and its name.
macro_rules! flags {
    ($($name:ident = $value:literal;)*) => {
        impl Flags {
            $(
                #[doc = concat!("`GEX_FLAG_", stringify!($name), "`.")]
                pub const $name: Self = Self($value);
            )*
        }

        #[cfg(test)]
        const FLAGS: &[(&str, u64)] = &[$((concat!("GEX_FLAG_", stringify!($name)), $value)),*];
    };
}

/// Plain constants and a table of them for the test: each is the prefix and its name.
macro_rules! constants {
    ($($prefix:literal $name:ident: $type:ty = $value:literal;)*) => {
        $(
            #[doc = concat!("`", $prefix, stringify!($name), "`.")]
            pub const $name: $type = $value;
        )*

        #[cfg(test)]
        const CONSTANTS: &[(&str, u64)] = &[$((concat!($prefix, stringify!($name)), $value)),*];
    };
}

flags! {
    IMMEDIATE = 0x1;
    AD_REL = 0x2;
    AD_ACQ = 0x4;
    LC_COPY_YES = 0x8;
    LC_COPY_NO = 0x10;
    AD_MY_RANK = 0x20;
    AD_MY_NBRHD = 0x40;
    ENABLE_LEAF_LC = 0x80;
    PEER_NEVER_SELF = 0x100;
    PEER_NEVER_NBRHD = 0x200;
    AD_FAVOR_MY_RANK = 0x400;
    AM_PREPARE_LEAST_CLIENT = 0x800;
    AM_PREPARE_LEAST_ALLOC = 0x1000;
    RANK_IS_JOBRANK = 0x2000;
    SELF_SEG_UNKNOWN = 0x4000;
    SELF_SEG_SOME = 0x8000;
    SELF_SEG_BOUND = 0x1_0000;
    SELF_SEG_OFFSET = 0x2_0000;
    PEER_SEG_UNKNOWN = 0x4_0000;
    PEER_SEG_SOME = 0x8_0000;
    PEER_SEG_BOUND = 0x10_0000;
    PEER_SEG_OFFSET = 0x20_0000;
    SCRATCH_SEG_OFFSET = 0x40_0000;
    TM_GLOBAL_SCRATCH = 0x80_0000;
    TM_LOCAL_SCRATCH = 0x100_0000;
    TM_SYMMETRIC_SCRATCH = 0x200_0000;
    TM_NO_SCRATCH = 0x400_0000;
    GLOBALLY_QUIESCED = 0x800_0000;
    TM_SCRATCH_SIZE_MIN = 0x1000_0000;
    TM_SCRATCH_SIZE_RECOMMENDED = 0x2000_0000;
    AD_FAVOR_MY_NBRHD = 0x4000_0000;
    AD_FAVOR_REMOTE = 0x8000_0000;
    USES_GASNET1 = 0x1;
    DEFER_THREADS = 0x2;
    AM_SHORT = 0x1;
    AM_MEDIUM = 0x2;
    AM_LONG = 0x4;
    AM_MEDLONG = 0x6;
    AM_REQUEST = 0x8;
    AM_REPLY = 0x10;
    AM_REQREP = 0x18;
    HINT_ACCEL_AD = 0x1;
    HINT_ACCEL_COLL = 0x2;
    HINT_ACCEL_ALL = 0x3;
}

/// Sets of flags.
impl Flags {
    /// `GEX_FLAG_LC_COPY_*`, which exclude each other.
    pub const LC_COPY: Self = Self::LC_COPY_YES.with(Self::LC_COPY_NO);
    /// `GEX_FLAG_AM_PREPARE_LEAST_*`, which exclude each other.
    pub const AM_PREPARE_LEAST: Self = Self::AM_PREPARE_LEAST_CLIENT.with(Self::AM_PREPARE_LEAST_ALLOC);
    /// The local range may lie outside the segment of an endpoint on a device.
    pub const SELF_SEG_OUTSIDE: Self = Self::SELF_SEG_UNKNOWN.with(Self::SELF_SEG_SOME);
    /// The remote range may lie outside the peer's segment.
    pub const PEER_SEG_OUTSIDE: Self = Self::PEER_SEG_UNKNOWN.with(Self::PEER_SEG_SOME);
    /// `GEX_FLAG_SELF_SEG_*`, which exclude each other.
    pub const SELF_SEG: Self = Self::SELF_SEG_OUTSIDE
        .with(Self::SELF_SEG_BOUND)
        .with(Self::SELF_SEG_OFFSET);
    /// `GEX_FLAG_PEER_SEG_*`, which exclude each other.
    pub const PEER_SEG: Self = Self::PEER_SEG_OUTSIDE
        .with(Self::PEER_SEG_BOUND)
        .with(Self::PEER_SEG_OFFSET);
    /// The segment disposition of both sides.
    pub const SEG: Self = Self::SELF_SEG.with(Self::PEER_SEG);
    /// Addresses of either side are offsets.
    pub const SEG_OFFSET: Self = Self::SELF_SEG_OFFSET.with(Self::PEER_SEG_OFFSET);
    /// `GEX_FLAG_TM_SCRATCH_SIZE_*`: the call only returns a size.
    pub const TM_SCRATCH_SIZE: Self = Self::TM_SCRATCH_SIZE_MIN.with(Self::TM_SCRATCH_SIZE_RECOMMENDED);
    /// All categories and both directions of a handler.
    pub const AM_ANY: Self = Self::AM_SHORT.with(Self::AM_MEDLONG).with(Self::AM_REQREP);
    /// `GEX_FLAG_AD_FAVOR_*`, which exclude each other.
    pub const AD_FAVOR: Self = Self::AD_FAVOR_MY_RANK
        .with(Self::AD_FAVOR_MY_NBRHD)
        .with(Self::AD_FAVOR_REMOTE);
    /// `GEX_FLAG_AD_MY_*`, which exclude each other.
    pub const AD_MY: Self = Self::AD_MY_RANK.with(Self::AD_MY_NBRHD);
}

constants! {
    "GASNET_" OK: c_int = 0;
    "GASNET_" ERR_NOT_INIT: c_int = 10001;
    "GASNET_" ERR_RESOURCE: c_int = 10002;
    "GASNET_" ERR_BAD_ARG: c_int = 10003;
    "GASNET_" ERR_NOT_READY: c_int = 10004;
    "GASNET_" ERR_BARRIER_MISMATCH: c_int = 10005;
    "GASNET_" BARRIERFLAG_ANONYMOUS: c_int = 1;
    "GASNET_" BARRIERFLAG_MISMATCH: c_int = 2;
    "GASNET_" BARRIERFLAG_UNNAMED: c_int = 9;
    "GASNET_" COLL_IN_ALLSYNC: c_int = 0x4;
    "GASNET_" COLL_OUT_ALLSYNC: c_int = 0x20;
    "GASNET_" TEAM_ALL: usize = 1;
    "GEX_" EVENT_INVALID: usize = 0;
    "GEX_" EVENT_NO_OP: usize = 1;
    "GEX_" EVENT_NOW: usize = 1;
    "GEX_" EVENT_DEFER: usize = 2;
    "GEX_" EVENT_GROUP: usize = 3;
    "GEX_" EC_LC: u32 = 0x2;
    "GEX_" EC_AM: u32 = 0x2;
    "GEX_" EC_PUT: u32 = 0x3;
    "GEX_" EC_GET: u32 = 0x4;
    "GEX_" EC_RMW: u32 = 0x8;
    "GEX_" EC_ALL: u32 = 0xffff_ffff;
    "GEX_" TI_SRCRANK: u32 = 0x1;
    "GEX_" TI_EP: u32 = 0x2;
    "GEX_" TI_ENTRY: u32 = 0x4;
    "GEX_" TI_IS_REQ: u32 = 0x8;
    "GEX_" TI_IS_LONG: u32 = 0x10;
    "GEX_" TI_ALL: u32 = 0x1f;
    "GEX_" EP_CAPABILITY_ALL: u32 = 0x1f;
    "GEX_" RANK_INVALID: u32 = 0xffff_ffff;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `#define NAME VALUE` of the headers whose value ends in a number: literals and the constants
    /// of pointer type, which are casts of one.
    fn defined() -> Vec<(&'static str, u64)> {
        let headers = [
            include_str!("../include/gasnet_fwd.h"),
            include_str!("../include/gasnetex.h"),
            include_str!("../include/gasnetex_misc.h"),
            include_str!("../include/gasnet_compat.h"),
        ];
        let lines = headers.into_iter().flat_map(str::lines);
        lines
            .filter_map(|line| define(line.strip_prefix("#define ")?))
            .collect()
    }

    fn define(line: &'static str) -> Option<(&'static str, u64)> {
        let (name, value) = line.split("//").next()?.trim_end().split_once(' ')?;
        let digits = value.rsplit(')').find(|part| !part.is_empty())?.trim_end_matches('U');
        let value = match digits.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok()?,
            None => digits.parse().ok()?,
        };
        Some((name, value))
    }

    #[test]
    fn values_are_those_of_the_headers() {
        let headers = defined();
        for constant in FLAGS.iter().chain(CONSTANTS) {
            assert!(
                headers.contains(constant),
                "{} {:#x} is not in the headers",
                constant.0,
                constant.1
            );
        }
    }

    #[test]
    fn every_flag_of_the_headers_is_here() {
        for constant in defined().iter().filter(|(name, _)| name.starts_with("GEX_FLAG_")) {
            assert!(FLAGS.contains(constant), "{} {:#x} is missing", constant.0, constant.1);
        }
    }

    #[test]
    fn sets() {
        let flags = Flags::IMMEDIATE | Flags::PEER_SEG_OFFSET;
        assert!(flags.has(Flags::SEG) && !flags.has_all(Flags::SEG) && !flags.has(Flags::SELF_SEG));
        assert_eq!(flags.without(Flags::IMMEDIATE), Flags::PEER_SEG_OFFSET);
        assert_eq!((flags.count(), format!("{flags:#x}")), (2, "0x200001".into()));
        assert_eq!(Flags::SEG.bits(), 0x3f_c000);
    }
}
