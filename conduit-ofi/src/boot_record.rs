//! The addresses of all processes: exchanged at the start, verified, and inserted at once.
//!
//! All are inserted before any operation. efa up to 2.6 crashes, or sends to another peer, if that
//! happens beside calls of other threads, and a lock around every call would cost more. One call
//! for all ranks is the case that providers are made for, at any scale: MPI libraries make it.

use crate::ffi::{mr_mode, Endpoint, Info};
use gasnet_conduit::StartInfo;

/// Bytes of the provider's name that are compared and shown.
const PROVIDER: usize = 62;
/// Bits of the registration mode that decide what a peer's addresses and keys mean.
const NAMING: u32 = mr_mode::VIRT_ADDR | mr_mode::RAW;
/// Bytes of an [`Entry`].
const ENTRY: usize = PROVIDER + 2 + 4 + 8;

/// The first record that processes exchange.
#[derive(Clone, Copy)]
struct Entry<'a>(&'a [u8]);

impl Entry<'_> {
    fn encode(own: Option<(&Info, u64)>, name: usize) -> [u8; ENTRY] {
        let mut entry = [0; ENTRY];
        let provider = own.map_or(String::new(), |(info, _)| info.provider());
        let shown = provider.len().min(PROVIDER);
        entry[..shown].copy_from_slice(&provider.as_bytes()[..shown]);
        let naming = own.map_or(0, |(info, _)| info.mr_mode() & NAMING);
        entry[PROVIDER..PROVIDER + 2].copy_from_slice(&(name as u16).to_ne_bytes());
        entry[PROVIDER + 2..PROVIDER + 6].copy_from_slice(&naming.to_ne_bytes());
        entry[PROVIDER + 6..].copy_from_slice(&own.map_or(0, |(_, atomics)| atomics).to_ne_bytes());
        entry
    }

    fn provider(&self) -> String {
        let text = String::from_utf8_lossy(&self.0[..PROVIDER]);
        text.trim_end_matches('\0').to_owned()
    }

    /// Bytes of the address.
    fn length(&self) -> usize {
        usize::from(u16::from_ne_bytes([self.0[PROVIDER], self.0[PROVIDER + 1]]))
    }

    fn naming(&self) -> &[u8] {
        &self.0[PROVIDER + 2..PROVIDER + 6]
    }

    fn atomics(&self) -> u64 {
        self.0.last_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes))
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
        let first = Entry::encode(own, name.map_or(0, <[u8]>::len));
        let all = (info.exchange)(&first);
        let entries = || all.chunks_exact(ENTRY).map(Entry);
        let length = entries().map(|entry| entry.length()).max().unwrap_or(0);
        let mut padded = name.unwrap_or_default().to_vec();
        padded.resize(length, 0);
        let bytes = (info.exchange)(&padded);
        if let Some(rank) = entries().position(|entry| entry.length() == 0) {
            return Err(format!("rank {rank} has no endpoint"));
        }
        let (first, other) = (Entry(&first), |differs: &dyn Fn(Entry<'_>) -> bool| {
            entries().enumerate().find(|(_, entry)| differs(*entry))
        });
        let provider = first.provider();
        if let Some((rank, entry)) = other(&|entry| entry.provider() != provider) {
            return Err(format!(
                "this rank uses the provider {provider}, but rank {rank} uses {}. Set GASNET_OFI_PROVIDER to one that \
                 all hosts have",
                entry.provider()
            ));
        }
        match other(&|entry| entry.naming() != first.naming()) {
            Some((rank, _)) => Err(format!(
                "{provider} addresses memory of this rank in another way than that of rank {rank}. Use one version of \
                 libfabric on all hosts, or set GASNET_OFI_HMEM=0"
            )),
            None => Ok(Self {
                bytes,
                length,
                alike: entries().all(|entry| entry.length() == length),
                atomics: entries().fold(u64::MAX, |all, entry| all & entry.atomics()),
            }),
        }
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
    use gasnet_conduit::JobRank;

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
                if let Some(place) = ranks[rank].get_mut(ENTRY - 8..) {
                    place.copy_from_slice(&atomics.to_ne_bytes());
                }
            }
            ranks.concat()
        };
        let names = Names::exchange(&start_info(JobRank(0), &all, &exchange), None, Some(b"name")).unwrap();
        assert_eq!(names.atomics, 0b010);
    }
}
