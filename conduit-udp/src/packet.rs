//! A packet in aligned memory of its own.
#![forbid(unsafe_code)]

/// Alignment in bytes of packets that are delivered.
pub const ALIGN: usize = 64;

/// A buffer whose bytes never move: a moved vector keeps its allocation.
pub struct Packet {
    memory: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl Packet {
    /// A packet of zeros.
    pub fn new(bytes: usize) -> Self {
        let memory = vec![0; bytes + ALIGN];
        let start = memory.as_ptr().align_offset(ALIGN);
        Self { memory, start, bytes }
    }

    /// A copy of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        let mut packet = Self::new(bytes.len());
        packet.bytes_mut().copy_from_slice(bytes);
        packet
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.bytes]
    }

    /// Bytes of memory in use.
    pub fn footprint(&self) -> usize {
        size_of::<Self>() + self.memory.len()
    }

    /// The bytes, mutable.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.bytes]
    }
}

impl PartialEq for Packet {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl std::fmt::Debug for Packet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.bytes)
    }
}
