//! Subnets of InfiniBand. Packets do not leave their subnet, so all processes of a job must use
//! ports in the same ones. The upper half of a port's GID is its subnet prefix. Subnets that were
//! given none have the same one, and look alike.
#![forbid(unsafe_code)]

use super::{mix, Choice, Hca, Port, Wanted};
use gasnet_conduit::JobRank;
use gasnet_conduit_util::record;
use std::cmp::Reverse;
use std::net::Ipv6Addr;

/// The prefix of subnets that were given none.
pub const DEFAULT: u64 = 0xfe80 << 48;

/// Most subnets that a process offers.
const MOST: usize = 4;
record! {
    /// Subnets of a process's ports, as the others learn them.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Offer {
        /// That of its first path; 0: on Ethernet, or it cannot start.
        first: u64,
        /// Equal in processes whose paths are in the same subnets, in the same order.
        paths: u64,
        /// Those in which it could use ports, the first ones of at most [`MOST`]; then 0.
        candidates: [u64; MOST],
        /// The name of its first HCA; then 0.
        hca: [u8; 16],
    }
}

impl Offer {
    /// That of a process with a choice.
    pub fn new(hcas: &[Hca], wanted: &Wanted, choice: &Choice) -> Self {
        let of = |(hca, number): &(usize, u8)| hcas[*hca].subnet(*number).unwrap_or(0);
        let paths: Vec<u64> = choice.paths.iter().map(of).collect();
        let mut candidates = vec![paths[0]];
        if wanted.is_fixed() {
            candidates.retain(|subnet| paths.iter().all(|path| path == subnet));
        } else {
            let all = wanted.ports_of(hcas).into_iter().flatten();
            candidates.extend(all.filter_map(Port::subnet));
        }
        let mut seen = Vec::new();
        candidates.retain(|subnet| {
            let is_new = !seen.contains(subnet);
            seen.push(*subnet);
            is_new
        });
        let own = &hcas[choice.paths[0].0].name;
        Self {
            first: paths[0],
            paths: mix(paths.into_iter()),
            candidates: padded(candidates),
            hca: padded(own.bytes()),
        }
    }
}

/// The first of these values, and zeros.
fn padded<T: Copy + Default, const N: usize>(values: impl IntoIterator<Item = T>) -> [T; N] {
    let mut all = [T::default(); N];
    all.iter_mut().zip(values).for_each(|(place, value)| *place = value);
    all
}

/// The subnet that all processes must use. None: their choices are in the same subnets already. The
/// error is a message without a full stop: they have none in common.
pub fn agree(all: &[Offer], rank: JobRank) -> Result<Option<u64>, String> {
    let own = &all[rank.index()];
    let agrees = all.iter().all(|other| other.paths == own.paths);
    if agrees || all.iter().any(|offer| offer.first == 0) {
        return Ok(None);
    }
    let is_common = |subnet: &&u64| **subnet != 0 && all.iter().all(|offer| offer.candidates.contains(subnet));
    let wishes = |subnet: u64| all.iter().filter(|offer| offer.first == subnet).count();
    // The same in all processes, whatever the order of their candidates.
    let best = all[0].candidates.iter().filter(is_common);
    let best = best.max_by_key(|subnet| (wishes(**subnet), Reverse(**subnet)));
    best.copied().map(Some).ok_or_else(|| disagreement(all, own))
}

fn disagreement(all: &[Offer], own: &Offer) -> String {
    const ADVICE: &str = "Name HCAs of one subnet with GASNET_IBV_PORTS";
    let hca = |offer: &Offer| String::from_utf8_lossy(&offer.hca).trim_end_matches('\0').to_owned();
    if let Some(rank) = all.iter().position(|other| other.first != own.first) {
        let other = &all[rank];
        return format!(
            "{} of this rank is in the InfiniBand subnet {}, but {} of rank {rank} in {}, and no subnet is common to \
             all ranks. {ADVICE}",
            hca(own),
            Prefix(own.first),
            hca(other),
            Prefix(other.first)
        );
    }
    let rank = all.iter().position(|other| other.paths != own.paths).unwrap_or(0);
    format!("the ports of this rank and those of rank {rank} are not in the same InfiniBand subnets. {ADVICE}")
}

/// A subnet prefix in reports.
pub struct Prefix(pub u64);

impl std::fmt::Display for Prefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/64", Ipv6Addr::from(u128::from(self.0) << 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gasnet_conduit_util::record::Record;

    const A: u64 = DEFAULT;
    const B: u64 = 0xfec0 << 48 | 1;
    const C: u64 = 0xfec0 << 48 | 2;

    fn offer(paths: &[u64], candidates: &[u64]) -> Offer {
        Offer {
            first: paths[0],
            paths: mix(paths.iter().copied()),
            candidates: padded(candidates.iter().copied()),
            hca: padded("mlx5_0".bytes()),
        }
    }

    fn agreed(all: &[Offer]) -> Result<Option<u64>, String> {
        let results = (0..all.len() as u32).map(|rank| agree(all, JobRank(rank)));
        let results: Vec<_> = results.collect();
        assert!(results.iter().all(|result| result.is_ok() == results[0].is_ok()));
        results[0].clone()
    }

    #[test]
    fn an_offer_comes_back() {
        for offer in [offer(&[A], &[A, B, C]), Offer::default()] {
            let bytes: [u8; Offer::BYTES] = offer.encode();
            assert_eq!(Offer::decode(&bytes), offer);
        }
    }

    #[test]
    fn processes_agree() {
        assert_eq!(agreed(&[offer(&[A], &[A, B]), offer(&[A], &[A])]), Ok(None));
        assert_eq!(agreed(&[offer(&[B], &[B, A]), offer(&[A], &[A, C])]), Ok(Some(A)));
        // The one that most processes want; of several the smallest.
        let all = [offer(&[A], &[A, B]), offer(&[B], &[B, A]), offer(&[B], &[A, B])];
        assert_eq!(agreed(&all), Ok(Some(B)));
        assert_eq!(agreed(&all[..2]), Ok(Some(A)));
        // Several paths, in the same subnets, or not.
        assert_eq!(agreed(&[offer(&[A, B], &[]), offer(&[A, B], &[])]), Ok(None));
        let why = agreed(&[offer(&[A, B], &[]), offer(&[A, C], &[])]).unwrap_err();
        assert!(why.contains("rank 1 are not in the same"), "{why}");
        // One on Ethernet, or that cannot start, fails for another reason.
        assert_eq!(agreed(&[Offer::default(), offer(&[A], &[A])]), Ok(None));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let why = agree(&[offer(&[A], &[A]), offer(&[B], &[B, C])], JobRank(0)).unwrap_err();
        assert_eq!(
            why,
            "mlx5_0 of this rank is in the InfiniBand subnet fe80::/64, but mlx5_0 of rank 1 in fec0:0:0:1::/64, and \
             no subnet is common to all ranks. Name HCAs of one subnet with GASNET_IBV_PORTS"
        );
    }
}
