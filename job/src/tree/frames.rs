//! Frames with MACs, in a stream. The length of a frame has a MAC of its own: a length that was
//! changed on its way is noticed at once, not after as many bytes as it announces.
#![forbid(unsafe_code)]

use super::message::{frame_length, LENGTH_BYTES};
use super::secret::{Seal, MAC_BYTES};

/// Bytes of a length and its MAC.
const FRONT: usize = LENGTH_BYTES + MAC_BYTES;

/// `frame`, sealed: its length, the MAC of that, the rest, and the MAC of the whole.
pub fn seal(seal: &mut Seal, frame: &[u8]) -> Vec<u8> {
    let (length, rest) = frame.split_at(LENGTH_BYTES);
    let front = seal.mac(length);
    [length, &front, rest, &seal.mac(frame)].concat()
}

#[derive(Debug)]
pub struct Frames {
    seal: Seal,
    input: Vec<u8>,
    /// Length of the frame at the beginning of `input`. Known once its MAC was right, which is
    /// gone then.
    length: Option<usize>,
}

impl Frames {
    pub const fn new(seal: Seal) -> Self {
        Self {
            seal,
            input: Vec::new(),
            length: None,
        }
    }

    pub fn extend(&mut self, bytes: &[u8]) {
        self.input.extend(bytes);
    }

    pub fn clear(&mut self) {
        self.input.clear();
    }

    /// The next frame, once it is there with its MAC.
    pub fn next(&mut self) -> Result<Option<Vec<u8>>, &'static str> {
        let length = match self.length {
            Some(length) => length,
            None if self.input.len() < FRONT => return Ok(None),
            None => {
                let expected = self.seal.mac(&self.input[..LENGTH_BYTES]);
                Self::check(self.input.drain(LENGTH_BYTES..FRONT).eq(expected))?;
                let length = frame_length(&self.input)?.unwrap_or_default();
                *self.length.insert(length)
            }
        };
        if self.input.len() < length + MAC_BYTES {
            return Ok(None);
        }
        self.length = None;
        let rest = self.input.split_off(length + MAC_BYTES);
        let mac = self.input.split_off(length);
        let frame = std::mem::replace(&mut self.input, rest);
        Self::check(mac == self.seal.mac(&frame))?;
        Ok(Some(frame))
    }

    fn check(is_right: bool) -> Result<(), &'static str> {
        is_right
            .then_some(())
            .ok_or("a message has a wrong MAC: it was changed on its way, or another process sent it")
    }
}
