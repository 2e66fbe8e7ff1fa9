//! Messages that wait in memory.

use crate::PACKET_ALIGN;

/// A copy of a message, aligned as messages are delivered.
#[derive(Debug)]
pub struct Copied {
    words: Vec<u128>,
    bytes: usize,
}

impl Copied {
    /// Copies a message.
    pub fn new(message: &[u8]) -> Self {
        let mut words = vec![0_u128; message.len().div_ceil(PACKET_ALIGN)];
        // SAFETY: as many bytes, and any bytes are valid.
        unsafe {
            words
                .as_mut_ptr()
                .cast::<u8>()
                .copy_from_nonoverlapping(message.as_ptr(), message.len());
        };
        Self {
            words,
            bytes: message.len(),
        }
    }

    /// The message.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: inside the words.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), self.bytes) }
    }
}
