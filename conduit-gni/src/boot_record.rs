//! The record of each process that all exchange at start.

use crate::peers::Address;
use crate::region::Layout;
use crate::settings::Settings;
use gasnet_conduit::{barrier, JobRank, StartInfo};

/// Record of a process.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BootRecord {
    pub address: Address,
    /// Layout of the region, which is the same in all processes.
    layout: Layout,
    flavour: u64,
    /// Choice of the barrier's algorithm.
    barrier: u64,
    /// Whether the process wants to find out how much can be registered.
    probes: u64,
    /// Whether the process has failed.
    failed: u64,
}

impl BootRecord {
    const BYTES: usize = size_of::<Self>();

    /// The record of a process that has failed.
    pub const FAILED: Self = Self {
        failed: 1,
        // SAFETY: integers only.
        ..unsafe { std::mem::zeroed() }
    };

    /// The record of a process that has opened its region.
    pub fn new(address: Address, layout: Layout, settings: &Settings) -> Self {
        Self {
            address,
            layout,
            flavour: settings.flavour as u64,
            barrier: barrier_choice(settings),
            probes: settings.probes.into(),
            failed: 0,
        }
    }

    /// Whether the process wants to find out how much can be registered.
    pub fn probes(&self) -> bool {
        self.probes != 0
    }

    /// Exchanges the records of all processes.
    pub fn exchange(&self, info: &StartInfo<'_>) -> Vec<Self> {
        let all = (info.exchange)(self.bytes());
        all.chunks_exact(Self::BYTES).map(Self::from_bytes).collect()
    }

    /// Checks that all processes have succeeded so far, with the same settings.
    pub fn agree(&self, rank: JobRank, all: &[Self]) -> Result<(), String> {
        if let Some(other) = all.iter().position(|other| other.failed == 0 && !self.agrees(other)) {
            return Err(format!(
                "ranks {rank} and {other} have different networks or settings: GASNET_NETWORKDEPTH, \
                 GASNET_NETWORKDEPTH_TOTAL, GASNET_NETWORKDEPTH_SPACE, GASNET_GNI_MAX_MEDIUM, GASNET_GNI_CE_RADIX and \
                 GASNET_BARRIER must be the same in all processes"
            ));
        }
        match all.iter().position(|record| record.failed != 0) {
            Some(rank) => Err(format!("rank {rank} cannot")),
            None => Ok(()),
        }
    }

    /// Whether two processes have the same settings. Neighbourhoods may differ in size, and so in
    /// peers.
    fn agrees(&self, other: &Self) -> bool {
        let of = |record: &Self| {
            let layout = record.layout;
            let units = (layout.units, layout.unit_bytes, layout.slot_bytes, layout.slot_count);
            (units, record.flavour, record.barrier)
        };
        of(self) == of(other)
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: integers only, whose sizes leave no padding; the assertion below holds that.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), Self::BYTES) }
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        assert_eq!(bytes.len(), Self::BYTES, "defect: an exchange of other bytes");
        // SAFETY: integers only, of which any bytes are valid.
        unsafe { bytes.as_ptr().cast::<Self>().read_unaligned() }
    }
}

const _: () = assert!(BootRecord::BYTES == size_of::<Address>() + size_of::<Layout>() + 4 * size_of::<u64>());
const _: () = assert!(size_of::<Address>() == 4 * size_of::<u64>());

/// The settings of the barrier in a word: the algorithm, and the radix.
fn barrier_choice(settings: &Settings) -> u64 {
    u64::from(barrier::choice(&barrier::wanted())) << 32 | settings.engine_radix as u64
}
