//! The record that each process sends to all others at the start.
#![forbid(unsafe_code)]

use crate::ffi::{Handle, Place};
use crate::settings::Settings;
use gasnet_conduit::StartInfo;
use gasnet_conduit_util::record;

gasnet_conduit_util::record! {
    /// A record.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct BootRecord {
        /// Whether the process has an MPI, and the communicator.
        pub can: bool,
        /// Rank in the communicator.
        pub rank: u32,
        /// The communicator, for processes that are threads of this one.
        pub comm: u64,
        /// Settings on which both sides of a message agree.
        pub max_packet: u32,
        pub credits: u32,
        pub one_sided: u32,
    }
}

impl BootRecord {
    /// The record of this process, which has a communicator and a rank in it, or has failed.
    pub fn new<H: Handle>(own: Option<&Place<H>>, settings: &Settings) -> Self {
        Self {
            can: own.is_some(),
            rank: own.map_or(0, |place| place.rank as u32),
            comm: own.map_or(0, |place| place.comm.number()),
            max_packet: settings.max_packet as u32,
            credits: settings.credits,
            one_sided: settings.one_sided as u32,
        }
    }

    /// The records of all processes. The error is a message without a full stop. Collective.
    pub fn exchange(self, info: &StartInfo<'_>) -> Result<Vec<Self>, String> {
        let all: Vec<Self> = record::exchange(info, &self);
        if let Some(rank) = all.iter().position(|record| !record.can) {
            return Err(record::failed(rank));
        }
        let settings = |record: &Self| (record.max_packet, record.credits, record.one_sided);
        match all.iter().position(|record| settings(record) != settings(&self)) {
            None => Ok(all),
            Some(rank) => Err(format!(
                "GASNET_MPI_MAX_MEDIUM, GASNET_MPI_RMA, GASNET_NETWORKDEPTH or AMMPI_CREDITS_PP differ between this \
                 rank and rank {rank}. Set them for all ranks"
            )),
        }
    }
}
