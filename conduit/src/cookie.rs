//! How an operation under way is named, and which part of it completes.

/// Names a put, get or atomic between its start and its completion. The conduit keeps it and
/// returns it in [`crate::Upcalls::done`]; it never travels. Several operations may have the same
/// cookie. The runtime uses the low 48 bits; the rest is the conduit's ([`Cookie::with_tag`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Cookie(u64);

impl Cookie {
    const TAG_SHIFT: u32 = 48;

    /// A cookie of the runtime; `bits` fit in 48.
    #[inline]
    pub const fn new(bits: u64) -> Self {
        debug_assert!(bits >> Self::TAG_SHIFT == 0);
        Self(bits)
    }

    /// The runtime's bits, without the conduit's tag.
    #[inline]
    pub const fn bits(self) -> u64 {
        self.0 & ((1 << Self::TAG_SHIFT) - 1)
    }

    /// The same operation, with 16 bits of the conduit's in place of those there.
    #[inline]
    #[must_use]
    pub const fn with_tag(self, tag: u16) -> Self {
        Self(self.bits() | (tag as u64) << Self::TAG_SHIFT)
    }

    /// The conduit's 16 bits, initially zero.
    #[inline]
    pub const fn tag(self) -> u16 {
        (self.0 >> Self::TAG_SHIFT) as u16
    }
}

/// The part of an operation that is complete. As wide as a cookie, beside which conduits keep it:
/// a copy of both, just written, would wait for a narrow one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u64)]
pub enum Completion {
    /// The source of a put may be reused.
    Source,
    /// The bytes of a put are at their destination (see [`crate::Rma::put`]). Among the upcalls of
    /// one thread it follows `Source`, if that was not reported by [`LocalCompletion::AtReturn`].
    Remote,
    /// The whole: of a put whose source was still in use, or of a get or atomic.
    Both,
}

/// When the source of a put or a message may be reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalCompletion {
    /// At return. Only [`Completion::Remote`] follows.
    AtReturn,
    /// With [`Completion::Source`] or [`Completion::Both`].
    Later,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_and_bits_are_apart() {
        let cookie = Cookie::new(0x1234_5678_9abc);
        let tagged = cookie.with_tag(0xfedc);
        assert_eq!((tagged.tag(), tagged.bits()), (0xfedc, cookie.bits()));
        assert_eq!(tagged.with_tag(0), cookie);
    }
}
