//! Delivery of messages, from the buffers of posted receives.

use crate::ffi::Handle;
use crate::link::Link;
use crate::wire::{Header, HEADER, NO_PACKET};
use gasnet_conduit::{Class, JobRank, Upcalls};
use gasnet_conduit_util::record::Record;

impl<H: Handle> Link<H> {
    /// Delivers the message at an address. Returns the number of upcalls.
    pub fn deliver(&self, class: Class, address: usize, upcalls: &mut dyn Upcalls) -> usize {
        // SAFETY: the buffer of a receive that is complete, which is this thread's. What a message
        // has not written is zero or of an earlier one.
        let message = unsafe { std::slice::from_raw_parts_mut(address as *mut u8, HEADER + self.max_packet) };
        self.take(class, message, upcalls)
    }

    fn take(&self, class: Class, message: &mut [u8], upcalls: &mut dyn Upcalls) -> usize {
        let (header, packet) = message.split_at_mut(HEADER);
        let Header {
            source,
            bytes,
            credits,
            token,
        } = Header::decode(header);
        // A communicator is this job's, so anything else is corrupt memory.
        if token != self.token || source >= self.peers.count() {
            self.peers.states.fail("MPI has delivered a message that no rank sends");
            return 0;
        }
        let source = JobRank(source);
        if !self.peers.account(source).give_back(credits) || bytes == NO_PACKET {
            return 0;
        }
        let Some(packet) = packet.get_mut(..bytes as usize) else {
            let why = "it sent a packet that is longer than the limit: its memory is corrupt";
            self.peers.states.lose(source, why.into());
            return 0;
        };
        if class == Class::Reply {
            upcalls.packet(source, class, packet);
            return 1;
        }
        // Before the upcall: its reply returns the credit.
        let owed = self.peers.credits(source);
        owed.owe(1);
        upcalls.packet(source, class, packet);
        self.peers.limits.note_owed(source, owed);
        1
    }
}
