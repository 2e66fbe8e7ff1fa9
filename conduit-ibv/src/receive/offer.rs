//! The offer of a packet that its receiver reads ([`crate::receive::fetch`]).
#![forbid(unsafe_code)]

use crate::buffers::Buffer;
use crate::ffi::Remote;
use gasnet_conduit::{Class, JobRank};
use gasnet_conduit_util::record;

record! {
    /// A packet that its sender offers.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Offer {
        pub memory: Remote,
        pub bytes: u32,
        /// Names it in the receiver's note.
        pub number: u32,
        pub class: Class,
        /// The path whose HCA has the memory.
        pub path: u8,
    }
}

/// A packet that is read, or was.
#[derive(Debug)]
pub struct Fetched {
    pub source: JobRank,
    pub offer: Offer,
    pub buffer: Buffer,
}

#[cfg(test)]
mod tests {
    use super::*;
    use gasnet_conduit_util::record::Record;

    #[test]
    fn offers_come_back() {
        for class in [Class::Request, Class::Reply] {
            let offer = Offer {
                memory: Remote {
                    address: 0x7f12_3456_789a_b000,
                    rkey: 0xdead_beef,
                },
                bytes: 65_664,
                number: 0x8000_0001,
                class,
                path: 7,
            };
            let bytes: [u8; Offer::BYTES] = offer.encode();
            assert_eq!(Offer::decode(&bytes), offer);
        }
    }
}
