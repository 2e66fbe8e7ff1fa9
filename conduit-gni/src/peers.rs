//! The processes of the job: their addresses, regions and states.

use crate::ffi::Remote;
use crate::wire::{Event, Kind};
use gasnet_conduit::JobRank;
use gasnet_conduit_util::peer_states::PeerStates;
use gasnet_conduit_util::record;
use gasnet_gni_abi as abi;

record! {
    /// Address of a process in the network, and its region.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct Address {
        /// Address of its NIC, and instance of its first domain.
        pub nic: u32,
        pub instance: u32,
        /// First byte of its region, in its address space.
        pub base: usize,
        handle: [u64; 2],
    }
}

impl Address {
    /// The address of a process whose region, from `base` on, has this handle.
    pub fn new(nic: u32, instance: u32, base: usize, handle: abi::gni_mem_handle_t) -> Self {
        let handle = [handle.qword1, handle.qword2];
        Self {
            nic,
            instance,
            base,
            handle,
        }
    }

    /// The handle of its region.
    pub fn handle(&self) -> abi::gni_mem_handle_t {
        let [qword1, qword2] = self.handle;
        abi::gni_mem_handle_t { qword1, qword2 }
    }
}

/// All processes.
#[derive(Debug)]
pub struct Peers {
    /// This process.
    pub rank: JobRank,
    /// By rank.
    addresses: Box<[Address]>,
    pub states: PeerStates,
}

impl Peers {
    /// All are present.
    pub fn new(rank: JobRank, addresses: Box<[Address]>) -> Self {
        let states = PeerStates::new(addresses.len());
        Self {
            rank,
            addresses,
            states,
        }
    }

    /// Whether there is such a process.
    #[inline]
    pub fn contains(&self, rank: JobRank) -> bool {
        rank.index() < self.addresses.len()
    }

    /// Address of a process.
    #[inline]
    pub fn address(&self, peer: JobRank) -> &Address {
        &self.addresses[peer.index()]
    }

    /// Memory of a peer's region.
    #[inline]
    pub fn in_region(&self, peer: JobRank, offset: usize) -> Remote {
        let address = self.address(peer);
        Remote {
            address: address.base + offset,
            handle: address.handle(),
        }
    }

    /// An event at a peer.
    #[inline]
    pub fn event(&self, kind: Kind, index: usize) -> u32 {
        let source = self.rank;
        Event { kind, source, index }.encode()
    }
}
