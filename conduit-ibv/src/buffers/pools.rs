//! The pools of buffers of a process.

use crate::buffers::{Buffer, Buffers};
use crate::ffi::{Access, Domain};
use crate::memory::advice::advised;
use crate::settings::Settings;
use gasnet_sys::maybe_locked::Sharing;

/// Bytes of a small buffer.
pub const SMALL: usize = 2 << 10;
/// Send buffers that clients may hold.
const RESERVED: usize = 256;
/// Packets of a class that are fetched at a time.
const FETCH_BUFFERS: usize = 64;

/// One for each use, so that none takes what another waits for.
pub struct Pools {
    /// Buffers for messages, by class: requests, replies.
    pub small: [Buffers; 2],
    pub large: [Buffers; 2],
    /// Buffers for copies of local memory.
    pub small_copies: Buffers,
    pub large_copies: Buffers,
    /// Buffers for negotiated payloads.
    pub reserved: Buffers,
    /// Buffers for packets that this process fetches, by class.
    pub fetch: [Buffers; 2],
    /// Destination of the reads of fences.
    pub scratch: Buffer,
}

impl Pools {
    /// Registered with these HCAs. Each pool has buffers from the start, so that an operation that
    /// finds none waits for one. `fetches`: large packets are fetched by their receivers. The error
    /// is a message without a full stop.
    pub fn new<'a, D: Iterator<Item = &'a Domain>>(
        settings: &Settings,
        processes: u32,
        fetches: bool,
        domains: impl Fn() -> D,
        sharing: Sharing,
    ) -> Result<Self, String> {
        let packets = if fetches { Access::READABLE } else { Access::LOCAL };
        let pool_for = |bytes: usize, most: usize, access: Access| {
            let pool = Buffers::new(bytes, most, access, sharing);
            let grown = pool.grow(domains());
            grown.map_err(|why| format!("send buffers cannot be registered: {}", advised(why)))?;
            Ok::<Buffers, String>(pool)
        };
        let pool = |bytes: usize, most: usize| pool_for(bytes, most, Access::LOCAL);
        let (most, largest) = (settings.send_buffers(processes as usize), settings.max_packet);
        let pair = |bytes: usize, most: usize, access| {
            Ok::<_, String>([pool_for(bytes, most, access)?, pool_for(bytes, most, access)?])
        };
        // One more, for what fences read.
        let small_copies = pool(SMALL, most + 1)?;
        let scratch = small_copies.take(domains()).ok_or("there is no buffer")?;
        Ok(Self {
            small: pair(SMALL, most, Access::LOCAL)?,
            large: pair(largest, most, packets)?,
            small_copies,
            large_copies: pool(settings.bounce.max(SMALL), most)?,
            reserved: pool_for(largest, RESERVED, packets)?,
            fetch: pair(largest, if fetches { FETCH_BUFFERS } else { 0 }, Access::LOCAL)?,
            scratch,
        })
    }

    /// Packets that a process can offer, to all peers together: it has a buffer for each, and all
    /// processes have equal pools.
    pub fn most_offers(&self) -> usize {
        let pools = self.large.iter().chain([&self.reserved]);
        pools.map(|buffers| buffers.pool.most()).sum()
    }

    /// Bytes of all buffers that there are, and that there may be.
    pub fn bytes(&self) -> (usize, usize) {
        let by_class = [&self.small, &self.large, &self.fetch].into_iter().flatten();
        let all = by_class.chain([&self.small_copies, &self.large_copies, &self.reserved]);
        all.map(|buffers| buffers.pool.all_bytes())
            .fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1))
    }
}
