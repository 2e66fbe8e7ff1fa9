//! The record of each process that all exchange at start.
#![forbid(unsafe_code)]

use crate::peers::Address;
use crate::region::Layout;
use crate::settings::Settings;
use gasnet_conduit::{barrier, JobRank};
use gasnet_conduit_util::record;

record! {
    /// Record of a process.
    #[derive(Clone, Copy, Default)]
    pub struct BootRecord {
        pub address: Address,
        /// Layout of the region, which is the same in all processes.
        layout: Layout,
        flavour: u32,
        /// Choice of the barrier's algorithm, and the radix of the collective engine.
        barrier: u32,
        radix: usize,
        /// Whether the process wants to find out how much can be registered.
        pub probes: bool,
        /// Whether its threads may sleep until something arrives.
        pub sleeps: bool,
        /// Whether the process has failed.
        pub has_failed: bool,
    }
}

impl BootRecord {
    /// The record of a process that has failed.
    pub fn failed() -> Self {
        Self {
            has_failed: true,
            ..Self::default()
        }
    }

    /// The record of a process that has opened its region.
    pub fn new(address: Address, layout: Layout, settings: &Settings, sleeps: bool) -> Self {
        Self {
            address,
            layout,
            flavour: settings.flavour as u32,
            barrier: barrier::choice(&barrier::wanted()),
            radix: settings.engine_radix,
            probes: settings.probes,
            sleeps,
            has_failed: false,
        }
    }

    /// Checks that all processes have succeeded so far, with the same settings.
    pub fn agree(all: &[Self], rank: JobRank) -> Result<(), String> {
        let own = &all[rank.index()];
        if let Some(other) = all.iter().position(|other| !other.has_failed && !own.agrees(other)) {
            return Err(format!(
                "ranks {rank} and {other} have different networks or settings: GASNET_NETWORKDEPTH, \
                 GASNET_NETWORKDEPTH_TOTAL, GASNET_NETWORKDEPTH_SPACE, GASNET_GNI_MAX_MEDIUM, GASNET_GNI_CE_RADIX and \
                 GASNET_BARRIER must be the same in all processes"
            ));
        }
        match all.iter().position(|record| record.has_failed) {
            Some(rank) => Err(record::failed(rank)),
            None => Ok(()),
        }
    }

    /// Whether two processes have the same settings. Neighbourhoods may differ in size, and so in
    /// peers.
    fn agrees(&self, other: &Self) -> bool {
        let of = |record: &Self| {
            let layout = record.layout;
            let units = (layout.units, layout.unit_bytes, layout.slot_bytes, layout.slot_count);
            (units, record.flavour, record.barrier, record.radix)
        };
        of(self) == of(other)
    }
}
