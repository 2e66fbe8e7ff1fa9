//! The parser of messages in the queues, for a fuzzer ([`gasnet_conduit::conformance::fuzz`]).

use crate::wire::{Slot, HEAD, MOST_SLOT};
use gasnet_conduit::conformance::fuzz::{number, Target};

/// All of them.
pub const TARGETS: &[Target] = &[("elan-slot", slot)];

/// A slot of a queue.
fn slot(mut bytes: &[u8]) {
    let room = HEAD + number(&mut bytes, 2) as usize % (MOST_SLOT - HEAD + 1);
    let mut slot = Slot::new();
    let mut memory = [0; MOST_SLOT];
    let length = bytes.len().min(MOST_SLOT);
    memory[..length].copy_from_slice(&bytes[..length]);
    slot.0.write(memory);
    // SAFETY: written above.
    if let (_, Some(message)) = unsafe { slot.message(room) } {
        assert!(HEAD + message.len() <= room);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn parsers_take_any_bytes() {
        gasnet_conduit::conformance::fuzz::replay(super::TARGETS);
    }
}
