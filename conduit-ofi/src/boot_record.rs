//! The addresses of all processes: exchanged at the start, verified, and inserted at once.
//!
//! All are inserted before any operation. efa up to 2.6 crashes, or sends to another peer, if that
//! happens beside calls of other threads, and a lock around every call would cost more. One call
//! for all ranks is the case that providers are made for, at any scale: MPI libraries make it.

use crate::ffi::{mr_mode, Endpoint, Info};
use gasnet_conduit::{JobRank, StartInfo};
use gasnet_conduit_util::record;
use gasnet_conduit_util::record::exchange;

/// Bytes of the provider's name that are compared and shown.
const PROVIDER: usize = 62;
/// Bits of the registration mode that decide what a peer's addresses and keys mean.
const NAMING: u32 = mr_mode::VIRT_ADDR | mr_mode::RAW;

record! {
    /// The first record that processes exchange.
    #[derive(Clone, Copy)]
    pub struct BootRecord {
        provider: [u8; PROVIDER],
        /// Bytes of the address; 0: this process has no endpoint.
        address_bytes: u16,
        /// [`NAMING`] of the provider.
        naming: u32,
        /// The atomics that this process has.
        atomics: u64,
    }
}

impl BootRecord {
    fn new(own: Option<(&Info, u64)>, address: &[u8]) -> Self {
        let mut record = Self {
            provider: [0; PROVIDER],
            address_bytes: address.len() as u16,
            naming: 0,
            atomics: 0,
        };
        if let Some((info, atomics)) = own {
            let provider = info.provider();
            let shown = provider.len().min(PROVIDER);
            record.provider[..shown].copy_from_slice(&provider.as_bytes()[..shown]);
            (record.naming, record.atomics) = (info.mr_mode() & NAMING, atomics);
        }
        record
    }

    /// Checks that all processes have an endpoint, of the same provider, and name memory alike.
    fn agree(all: &[Self], rank: JobRank) -> Result<(), String> {
        if let Some(rank) = all.iter().position(|record| record.address_bytes == 0) {
            return Err(record::failed(rank));
        }
        let own = &all[rank.index()];
        let provider = own.provider();
        if let Some(rank) = all.iter().position(|record| record.provider() != provider) {
            return Err(format!(
                "this rank uses the provider {provider}, but rank {rank} uses {}. Set GASNET_OFI_PROVIDER to one that \
                 all hosts have",
                all[rank].provider()
            ));
        }
        match all.iter().position(|record| record.naming != own.naming) {
            Some(rank) => Err(format!(
                "{provider} addresses memory of this rank in another way than that of rank {rank}. Use one version of \
                 libfabric on all hosts, or set GASNET_OFI_HMEM=0"
            )),
            None => Ok(()),
        }
    }

    fn provider(&self) -> String {
        let text = String::from_utf8_lossy(&self.provider);
        text.trim_end_matches('\0').to_owned()
    }
}

/// The addresses of all processes, by rank.
#[derive(Debug, PartialEq, Eq)]
pub struct Names {
    bytes: Vec<u8>,
    /// Bytes of each; shorter ones are padded.
    length: usize,
    /// None is padded.
    alike: bool,
    /// The atomics that all processes have.
    pub atomics: u64,
}

impl Names {
    /// Exchanges addresses. `own`: the record of this process, and the atomics that it has. An
    /// error if not all use the same provider and name memory alike.
    pub fn exchange(info: &StartInfo<'_>, own: Option<(&Info, u64)>, name: Option<&[u8]>) -> Result<Self, String> {
        let address = name.unwrap_or_default();
        let first = BootRecord::new(own, address);
        let all = exchange(info, &first);
        let length = all.iter().map(|record| usize::from(record.address_bytes)).max();
        let length = length.unwrap_or(0);
        let mut padded = address.to_vec();
        padded.resize(length, 0);
        let bytes = (info.exchange)(&padded);
        BootRecord::agree(&all, info.rank)?;
        Ok(Self {
            bytes,
            length,
            alike: all.iter().all(|record| usize::from(record.address_bytes) == length),
            atomics: all.iter().fold(u64::MAX, |common, record| common & record.atomics),
        })
    }

    /// Inserts all into the address vector, and returns their numbers.
    pub fn insert(&self, endpoint: &Endpoint) -> Result<Vec<u64>, String> {
        let numbers = endpoint.insert_all(&self.bytes, self.length, self.alike);
        numbers.map_err(|(rank, why)| {
            let info = endpoint.info();
            format!("{info:?}: inserting the address of rank {rank} failed: {}", why.text())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gasnet_conduit::conformance::start_info;
    use gasnet_conduit_util::record::Record;

    #[test]
    fn ranks_that_do_not_fit_together_are_an_error() {
        let all = [JobRank(0), JobRank(1)];
        let with = |change: &dyn Fn(&mut [u8])| {
            let exchange = |mine: &[u8]| {
                let mut other = mine.to_vec();
                change(&mut other);
                [mine, &other].concat()
            };
            Names::exchange(&start_info(JobRank(0), &all, &exchange), None, Some(b"name"))
        };
        let names = with(&|_| ()).unwrap();
        assert_eq!(
            (&names.bytes[..], names.length, names.alike),
            (&b"namename"[..], 4, true)
        );
        let other_provider = with(&|entry| entry[..3].copy_from_slice(b"efa")).unwrap_err();
        assert!(other_provider.contains("rank 1 uses efa"), "{other_provider}");
        let other_naming = with(&|entry| {
            if let Some(naming) = entry.get_mut(64) {
                *naming ^= mr_mode::VIRT_ADDR as u8;
            }
        });
        assert!(other_naming.unwrap_err().contains("GASNET_OFI_HMEM=0"));
    }

    #[test]
    fn only_what_all_ranks_have_is_used() {
        let all = [JobRank(0), JobRank(1)];
        let exchange = |mine: &[u8]| {
            let mut ranks = [mine, mine].map(<[u8]>::to_vec);
            for (rank, atomics) in [0b011_u64, 0b110].into_iter().enumerate() {
                if let Some(place) = ranks[rank].get_mut(BootRecord::BYTES - 8..) {
                    place.copy_from_slice(&atomics.to_ne_bytes());
                }
            }
            ranks.concat()
        };
        let names = Names::exchange(&start_info(JobRank(0), &all, &exchange), None, Some(b"name")).unwrap();
        assert_eq!(names.atomics, 0b010);
    }
}
