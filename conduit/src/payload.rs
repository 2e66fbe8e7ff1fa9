//! Packets whose payload is not copied, as [`crate::Network::send`] does: payloads that the client
//! writes into a buffer of the conduit's, and large ones that the network reads from the client's
//! memory.

use crate::{Busy, Class, Cookie, JobRank, LocalCompletion, LocalMemory, SourceUse};

/// A send buffer of the conduit's, aligned to [`crate::PACKET_ALIGN`]: the address of its first
/// byte. From `reserve` until it is sent or released, one thread at a time writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct SendBuffer(pub *mut u8);

/// Send buffers, where negotiated payloads lie from `gex_AM_Prepare*` to their transmission.
pub trait SendBuffers: Sync {
    /// Bytes of the largest buffer: at least [`crate::Limits::max_packet_bytes`].
    fn max_bytes(&self) -> usize;

    /// Reserves a buffer of at least `bytes` bytes for a message to `peer`. Clients may keep it for
    /// any time, so nothing waits for reserved buffers: `send` finds others, and a conduit that has
    /// none left to reserve is [`Busy`], for which the runtime does not wait either.
    fn reserve(&self, peer: JobRank, class: Class, bytes: usize) -> Result<SendBuffer, Busy>;

    /// Sends the first `bytes` bytes of a reserved buffer as [`crate::Network::send`] does, for the
    /// peer and class that it was reserved for. Then the buffer is the conduit's again; if busy, it
    /// stays reserved.
    fn send_reserved(&self, peer: JobRank, class: Class, buffer: SendBuffer, bytes: usize) -> Result<(), Busy>;

    /// Takes back a reserved buffer that is not sent. Also after `stop`.
    fn release(&self, buffer: SendBuffer);
}

/// A packet whose payload is read from the client's memory.
#[derive(Clone, Copy, Debug)]
pub struct GatheredPacket<'a> {
    /// The receiver.
    pub peer: JobRank,
    /// Its channel.
    pub class: Class,
    /// The front of the packet: a multiple of [`crate::PACKET_ALIGN`] bytes, copied before return.
    pub front: &'a [u8],
    /// The payload, unchanged until local completion.
    pub payload: LocalMemory,
    /// Its length. Together with the front at most [`crate::Limits::max_packet_bytes`].
    pub bytes: usize,
    /// The waiter for the payload.
    pub source: SourceUse,
    /// Names it.
    pub cookie: Cookie,
}

/// Sends packets from two places ("gather").
pub trait Gather: Sync {
    /// The least payload for which that is worth it. Smaller ones are sent by
    /// [`crate::Network::send`], which copies. A conduit that knows better for one packet, say
    /// because its payload is in no segment, copies and returns [`LocalCompletion::AtReturn`].
    fn gather_limit(&self) -> usize;

    /// Sends a packet as [`crate::Network::send`] does. Only local completion is reported: by the
    /// result, or as [`crate::Completion::Source`].
    fn send_gathered(&self, packet: &GatheredPacket<'_>) -> Result<LocalCompletion, Busy>;
}
