//! The exchange at the start.
#![forbid(unsafe_code)]

use gasnet_conduit::JobRank;
use gasnet_conduit_util::record;

record! {
    /// Record of a process in the exchange at the start.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct BootRecord {
        pub vp: u32,
        /// The same in all processes.
        pub credits: u32,
        pub putget: bool,
        /// Whether it cannot start.
        pub has_failed: bool,
        pub has_barrier: bool,
        /// The name of the barrier, hashed. The same in all processes.
        pub barrier: u32,
    }
}

impl BootRecord {
    /// Checks that all processes have succeeded so far, with the same settings.
    pub fn agree(all: &[Self], rank: JobRank) -> Result<(), String> {
        if let Some(rank) = all.iter().position(|record| record.has_failed) {
            return Err(record::failed(rank));
        }
        let settings = |record: &Self| (record.credits, record.putget, record.barrier);
        let own = settings(&all[rank.index()]);
        match all.iter().position(|record| settings(record) != own) {
            Some(other) => Err(format!(
                "ranks {rank} and {other} have different settings: GASNET_ELAN_AM_CREDITS, GASNET_ELAN_PUTGET and \
                 GASNET_BARRIER must be the same in all processes"
            )),
            None => Ok(()),
        }
    }
}
