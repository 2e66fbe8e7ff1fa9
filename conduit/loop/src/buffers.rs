//! Send buffers: few, so that they run out; and overwritten once they are free, so that a client
//! that still writes or a NIC that still reads one shows.

use crate::memory::Memory;
use crate::MAX_PACKET_BYTES;
use gasnet_conduit::{Busy, Class, JobRank};

/// Bytes of a buffer: more than a packet, for puts with notification.
pub const BYTES: usize = MAX_PACKET_BYTES + (4 << 10);
/// Buffers of a process.
const COUNT: usize = 4;
/// Contents of a free buffer.
const FREE: u8 = 0xf3;

/// A buffer, from the client's Prepare to the NIC's last read.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Free,
    Reserved(JobRank, Class),
    Sending,
}

/// The buffers of a process.
#[derive(Debug)]
pub struct Buffers {
    /// Accessed by addresses only, because clients write it at any time.
    memory: Vec<u128>,
    states: [State; COUNT],
}

impl Buffers {
    /// All free.
    pub fn new() -> Self {
        Self {
            memory: vec![u128::from_ne_bytes([FREE; 16]); COUNT * BYTES / size_of::<u128>()],
            states: [State::Free; COUNT],
        }
    }

    /// Reserves one for a message.
    pub fn reserve(&mut self, peer: JobRank, class: Class, bytes: usize) -> Result<usize, Busy> {
        assert!(bytes <= BYTES, "defect: a send buffer of {bytes} bytes");
        let index = self.states.iter().position(|state| *state == State::Free).ok_or(Busy)?;
        self.states[index] = State::Reserved(peer, class);
        Ok(self.memory.as_mut_ptr() as usize + index * BYTES)
    }

    /// The buffer that begins at this address.
    fn state(&mut self, address: usize) -> &mut State {
        let offset = address.wrapping_sub(self.memory.as_ptr() as usize);
        let state = (offset % BYTES == 0)
            .then(|| self.states.get_mut(offset / BYTES))
            .flatten();
        state.unwrap_or_else(|| panic!("defect: {address:#x} is no send buffer"))
    }

    /// Hands a buffer that is reserved for this to the NIC.
    pub fn send(&mut self, address: usize, peer: JobRank, class: Class) {
        let state = self.state(address);
        assert!(
            *state == State::Reserved(peer, class),
            "defect: a {class:?} to {peer} in a send buffer that is {state:?}"
        );
        *state = State::Sending;
    }

    /// Reverts `send`: the queue was full.
    pub fn keep(&mut self, address: usize, peer: JobRank, class: Class) {
        *self.state(address) = State::Reserved(peer, class);
    }

    /// The client gives it back.
    pub fn release(&mut self, address: usize) {
        let state = *self.state(address);
        assert!(
            matches!(state, State::Reserved(..)),
            "defect: release of a send buffer that is {state:?}"
        );
        self.free(address);
    }

    /// NIC: it has read everything.
    pub fn free(&mut self, address: usize) {
        *self.state(address) = State::Free;
        // SAFETY: the whole of a buffer, which nobody may access now.
        unsafe { Memory::new(address, BYTES) }.write(&[FREE; BYTES]);
    }
}
