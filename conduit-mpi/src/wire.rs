//! The header of every message.
#![forbid(unsafe_code)]

use gasnet_conduit::PACKET_ALIGN;
use gasnet_conduit_util::record::Record;

/// Bytes of a header: the packet behind it is aligned.
pub const HEADER: usize = Header::BYTES;
const _: () = assert!(HEADER == PACKET_ALIGN);

/// Kinds of messages.
pub mod kind {
    use gasnet_conduit::Class;

    /// A message without a packet, which only returns credits.
    pub const CREDITS: u16 = 2;

    /// Those with a packet.
    #[inline]
    pub fn of(class: Class) -> u16 {
        u16::from(class == Class::Reply)
    }

    /// The class of one with a packet.
    #[inline]
    pub fn class(kind: u16) -> Option<Class> {
        [Class::Request, Class::Reply].get(usize::from(kind)).copied()
    }
}

/// Most credits that a message returns.
pub const MOST_CREDITS: u32 = u16::MAX as u32;

gasnet_conduit_util::record! {
    /// A header.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Header {
        /// The sender.
        pub source: u32,
        /// Bytes of the packet.
        pub bytes: u32,
        /// Credits that are returned to the receiver of this message.
        pub credits: u16,
        /// Kind of the message.
        pub kind: u16,
        /// Identifies the job, for a sender of another one.
        pub token: u32,
    }
}
