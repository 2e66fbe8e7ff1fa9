//! The header of every message.
#![forbid(unsafe_code)]

use gasnet_conduit::PACKET_ALIGN;
use gasnet_conduit_util::record::Record;

/// Bytes of a header: the packet behind it is aligned.
pub const HEADER: usize = Header::BYTES;
const _: () = assert!(HEADER == PACKET_ALIGN);

/// A message without a packet, which only returns credits.
pub const NO_PACKET: u32 = u32::MAX;

gasnet_conduit_util::record! {
    /// A header. The class of a packet is that of its communicator.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Header {
        /// The sender.
        pub source: u32,
        /// Bytes of the packet, or [`NO_PACKET`].
        pub bytes: u32,
        /// Credits that are returned to the receiver of this message.
        pub credits: u32,
        /// Identifies the job, for a sender of another one.
        pub token: u32,
    }
}
