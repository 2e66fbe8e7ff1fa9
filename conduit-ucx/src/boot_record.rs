//! The addresses of all processes, exchanged at the start.
#![forbid(unsafe_code)]

use gasnet_conduit::{JobRank, StartInfo};
use gasnet_conduit_util::record::{self, exchange};

gasnet_conduit_util::record! {
    /// The first record that processes exchange.
    #[derive(Clone, Copy, Debug)]
    pub struct BootRecord {
        /// Bytes of the address; 0: this process has no worker.
        pub address_bytes: u32,
        /// Version of UCX.
        pub major: u32,
        pub minor: u32,
        /// Whether the transports of this process report the failure of a peer.
        pub reports_errors: bool,
        /// Whether it has atomics.
        pub atomics: bool,
    }
}

/// The addresses of all processes, by rank, and what all agree on.
#[derive(Debug)]
pub struct Names {
    bytes: Vec<u8>,
    /// Bytes of each; shorter ones are padded.
    length: usize,
    /// Whether failures of peers are reported.
    pub reports_errors: bool,
    /// A rank with another version of UCX, and that.
    pub other_version: Option<(usize, (u32, u32))>,
}

impl Names {
    /// Exchanges addresses. Collective. An error if a process has none, or if not all have atomics
    /// or none has.
    pub fn exchange(info: &StartInfo<'_>, own: &BootRecord, address: &[u8]) -> Result<Self, String> {
        let all = exchange(info, own);
        let length = all
            .iter()
            .map(|record| record.address_bytes as usize)
            .max()
            .unwrap_or(0);
        let mut padded = address.to_vec();
        padded.resize(length, 0);
        let bytes = (info.exchange)(&padded);
        if let Some(rank) = all.iter().position(|record| record.address_bytes == 0) {
            return Err(record::failed(rank));
        }
        if let Some(rank) = all.iter().position(|record| record.atomics != own.atomics) {
            return Err(format!(
                "GASNET_UCX_ATOMICS differs between this rank and rank {rank}. Set it for all ranks"
            ));
        }
        let version = |record: &BootRecord| (record.major, record.minor);
        let other_version = all.iter().position(|record| version(record) != version(own));
        Ok(Self {
            bytes,
            length,
            reports_errors: all.iter().all(|record| record.reports_errors),
            other_version: other_version.map(|rank| (rank, version(&all[rank]))),
        })
    }

    /// The address of a process.
    pub fn address(&self, rank: JobRank) -> &[u8] {
        &self.bytes[rank.index() * self.length..][..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gasnet_conduit::conformance::start_info;
    use gasnet_conduit_util::record::Record;

    const OWN: BootRecord = BootRecord {
        address_bytes: 4,
        major: 1,
        minor: 13,
        reports_errors: true,
        atomics: false,
    };

    /// Result at rank 0 beside a rank 1 with this record and address.
    fn beside(other: &BootRecord, address: &[u8]) -> Result<Names, String> {
        let all = [JobRank(0), JobRank(1)];
        let exchange = |mine: &[u8]| {
            let mut theirs = vec![0; mine.len()];
            if mine.len() == BootRecord::BYTES {
                other.put(&mut theirs);
            } else {
                theirs[..address.len()].copy_from_slice(address);
            }
            [mine, &theirs].concat()
        };
        Names::exchange(&start_info(JobRank(0), &all, &exchange), &OWN, b"name")
    }

    #[test]
    fn addresses_of_any_length_are_exchanged() {
        let other = BootRecord {
            address_bytes: 6,
            reports_errors: false,
            minor: 14,
            ..OWN
        };
        let names = beside(&other, b"longer").unwrap();
        assert_eq!(names.address(JobRank(0)), b"name\0\0");
        assert_eq!(names.address(JobRank(1)), b"longer");
        assert_eq!((names.reports_errors, names.other_version), (false, Some((1, (1, 14)))));
        let names = beside(&OWN, b"alas").unwrap();
        assert_eq!((names.reports_errors, names.other_version), (true, None));
    }

    #[test]
    fn ranks_that_do_not_fit_together_are_an_error() {
        let why = beside(
            &BootRecord {
                address_bytes: 0,
                ..OWN
            },
            b"",
        )
        .unwrap_err();
        assert!(why.contains("rank 1 failed to start"), "{why}");
        let why = beside(&BootRecord { atomics: true, ..OWN }, b"alas").unwrap_err();
        assert!(why.contains("GASNET_UCX_ATOMICS"), "{why}");
    }
}
