//! Subnets of InfiniBand. Packets do not leave their subnet, so all processes of a job must use
//! ports in the same ones. The upper half of a port's GID is its subnet prefix. Subnets that were
//! given none have the same one, and look alike.
#![forbid(unsafe_code)]

use super::{mix, Choice, Hca, Port, Wanted};
use gasnet_conduit::{JobRank, StartInfo};
use gasnet_conduit_util::record::records;
use std::cmp::Reverse;
use std::net::Ipv6Addr;

/// The prefix of subnets that were given none.
pub const DEFAULT: u64 = 0xfe80 << 48;

/// Most subnets that a process offers.
const MOST: usize = 4;
/// Bytes of the name of an HCA.
const NAME: usize = 16;
/// Bytes of an offer.
const BYTES: usize = 16 + 8 * MOST + NAME;

/// Subnets of a process's ports, as the others learn them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// That of its first path; 0: on Ethernet, or it cannot start.
    first: u64,
    /// Equal in processes whose paths are in the same subnets, in the same order.
    paths: u64,
    /// Those in which it could use ports, the first ones of at most [`MOST`].
    candidates: Vec<u64>,
    /// The name of its first HCA.
    hca: String,
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
        candidates.truncate(MOST);
        Self {
            first: paths[0],
            paths: mix(paths.into_iter()),
            candidates,
            hca: hcas[choice.paths[0].0].name.clone(),
        }
    }

    /// Exchanges them, by rank.
    pub fn exchange(info: &StartInfo<'_>, own: &Self) -> Vec<Self> {
        let all = (info.exchange)(&own.encode());
        all.chunks_exact(BYTES).map(Self::decode).collect()
    }

    fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let words = [self.first, self.paths]
            .into_iter()
            .chain(self.candidates.iter().copied());
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        for (place, byte) in bytes[BYTES - NAME..].iter_mut().zip(self.hca.bytes()) {
            *place = byte;
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Self {
        let (words, name) = bytes.split_at(BYTES - NAME);
        let words: Vec<u64> = records(words).collect();
        let name: Vec<u8> = name.iter().copied().take_while(|byte| *byte != 0).collect();
        Self {
            first: words[0],
            paths: words[1],
            candidates: words[2..].iter().copied().take_while(|subnet| *subnet != 0).collect(),
            hca: String::from_utf8_lossy(&name).into_owned(),
        }
    }
}

/// The subnet that all processes must use. None: their choices are in the same subnets already. The
/// error is a message without a full stop: they have none in common.
pub fn agree(all: &[Offer], rank: JobRank) -> Result<Option<u64>, String> {
    let own = &all[rank.index()];
    let agrees = all.iter().all(|other| other.paths == own.paths);
    if agrees || all.iter().any(|offer| offer.first == 0) {
        return Ok(None);
    }
    let is_common = |subnet: &&u64| all.iter().all(|offer| offer.candidates.contains(subnet));
    let wishes = |subnet: u64| all.iter().filter(|offer| offer.first == subnet).count();
    // The same in all processes, whatever the order of their candidates.
    let best = all[0].candidates.iter().filter(is_common);
    let best = best.max_by_key(|subnet| (wishes(**subnet), Reverse(**subnet)));
    best.copied().map(Some).ok_or_else(|| disagreement(all, own))
}

fn disagreement(all: &[Offer], own: &Offer) -> String {
    const ADVICE: &str = "Name HCAs of one subnet with GASNET_IBV_PORTS";
    if let Some(rank) = all.iter().position(|other| other.first != own.first) {
        let other = &all[rank];
        return format!(
            "{} of this rank is in the InfiniBand subnet {}, but {} of rank {rank} in {}, and no subnet is common to \
             all ranks. {ADVICE}",
            own.hca,
            Prefix(own.first),
            other.hca,
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

    const A: u64 = DEFAULT;
    const B: u64 = 0xfec0 << 48 | 1;
    const C: u64 = 0xfec0 << 48 | 2;

    fn offer(paths: &[u64], candidates: &[u64]) -> Offer {
        Offer {
            first: paths[0],
            paths: mix(paths.iter().copied()),
            candidates: candidates.to_vec(),
            hca: "mlx5_0".to_owned(),
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
            assert_eq!(Offer::decode(&offer.encode()), offer);
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
