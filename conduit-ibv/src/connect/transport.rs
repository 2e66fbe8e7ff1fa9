//! Parameters of the transport of a queue pair.
#![forbid(unsafe_code)]

use crate::connect::handshake::Endpoint;
use crate::ffi::Transport;
use crate::ports::Path;

/// Parameters of all queue pairs of this process.
pub struct Transports {
    /// Exponent of the timeout.
    pub timeout: u8,
    pub retries: u8,
    /// That of the job.
    pub token: u64,
}

impl Transports {
    /// Of a queue pair of a path to a peer's. `ends` are the same numbers at both ends, and others
    /// for each two pairs of a path.
    pub fn of(&self, path: usize, own: &Path, theirs: &Endpoint, ends: [u32; 2]) -> Transport {
        Transport {
            mtu: u32::from(own.mtu.min(theirs.mtu)),
            timeout: self.timeout,
            retries: self.retries,
            reads: own.initiated.min(theirs.reads),
            peer_reads: own.reads,
            first_packet: self.first_packet(path, ends),
        }
    }

    /// The number of the first packet of a queue pair: the same at both ends, another in each job.
    fn first_packet(&self, path: usize, [low, high]: [u32; 2]) -> u32 {
        let pair = u64::from(low) << 32 | u64::from(high);
        let mixed = (self.token ^ pair ^ (path as u64) << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 40) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn first_packets_differ_by_job_path_and_pair() {
        let of = |token, path, ends| {
            let transports = Transports {
                timeout: 18,
                retries: 7,
                token,
            };
            transports.first_packet(path, ends)
        };
        let usual = of(0x1234_5678_9abc_def0, 0, [0, 1]);
        assert_eq!(of(0x1234_5678_9abc_def0, 0, [0, 1]), usual);
        let pairs = (0..10).flat_map(|low| (low..100).map(move |high| [low, high]));
        let pairs: Vec<_> = pairs.flat_map(|ends| (0..4).map(move |path| (path, ends))).collect();
        let numbers =
            |token: u64| -> HashSet<u32> { pairs.iter().map(|(path, ends)| of(token, *path, *ends)).collect() };
        let (job, other) = (numbers(0x1234_5678_9abc_def0), numbers(0x0fed_cba9_8765_4321));
        // Of 24 bits: a few may be equal by chance.
        assert!(job.iter().all(|number| number >> 24 == 0));
        assert!(job.len() + 10 > pairs.len(), "{} of {}", job.len(), pairs.len());
        assert!(job.intersection(&other).count() < 10);
    }
}
