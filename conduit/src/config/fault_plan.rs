//! The grammar of `GASNET_FAULTS`: the faults that the decorators inject, and how often.
#![forbid(unsafe_code)]

use crate::JobRank;
use gasnet_tools::parse::{self, ParseError};
use std::fmt;
use std::str::FromStr;

/// Faults to inject. Probabilities are from 0 to 1, per packet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultPlan {
    /// Seed of the random sequence; each rank combines it with its rank number.
    pub seed: u64,
    /// Probability that a packet is delivered late.
    pub delay: f64,
    /// Probability that later packets overtake a packet.
    pub reorder: f64,
    /// Probability that an injection is refused.
    pub busy: f64,
    /// Probability that a poll delivers only a part of the packets that have arrived.
    pub split: f64,
    /// The rank that is killed, and after how many packets sent.
    pub kill: Option<(JobRank, u64)>,
    /// The rank whose network fails, and after how many packets sent.
    pub network: Option<(JobRank, u64)>,
    /// The rank whose first registration of memory fails.
    pub register: Option<JobRank>,
    /// Whether the conduit performs atomics (`soft_atomics`).
    pub atomics: bool,
}

impl FromStr for FaultPlan {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut plan = Self::default();
        if text.trim().is_empty() {
            return Ok(plan);
        }
        for item in text.split(',') {
            let (key, value) = item.split_once('=').ok_or(ParseError::Malformed)?;
            match key.trim().to_ascii_lowercase().as_str() {
                "seed" => plan.seed = parse::integer(value)? as u64,
                "delay" => plan.delay = probability(value)?,
                "reorder" => plan.reorder = probability(value)?,
                "busy" => plan.busy = probability(value)?,
                "split" => plan.split = probability(value)?,
                "kill" => plan.kill = Some(victim(value)?),
                "network" => plan.network = Some(victim(value)?),
                "register" => plan.register = Some(rank(value)?),
                "atomics" => plan.atomics = parse::integer(value)? != 0,
                _ => return Err(ParseError::Malformed),
            }
        }
        Ok(plan)
    }
}

fn probability(text: &str) -> Result<f64, ParseError> {
    match parse::double(text)? {
        p if (0.0..=1.0).contains(&p) => Ok(p),
        _ => Err(ParseError::OutOfRange),
    }
}

/// `rank:packets`.
fn victim(text: &str) -> Result<(JobRank, u64), ParseError> {
    let (rank, packets) = text.split_once(':').ok_or(ParseError::Malformed)?;
    let packets = u64::try_from(parse::integer(packets)?).map_err(|_| ParseError::OutOfRange)?;
    Ok((self::rank(rank)?, packets))
}

fn rank(text: &str) -> Result<JobRank, ParseError> {
    let rank = u32::try_from(parse::integer(text)?).map_err(|_| ParseError::OutOfRange)?;
    Ok(JobRank(rank))
}

impl fmt::Display for FaultPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "seed={},delay={},reorder={},busy={},split={}",
            self.seed, self.delay, self.reorder, self.busy, self.split
        )?;
        if let Some((rank, packets)) = self.kill {
            write!(f, ",kill={rank}:{packets}")?;
        }
        if let Some((rank, packets)) = self.network {
            write!(f, ",network={rank}:{packets}")?;
        }
        if let Some(rank) = self.register {
            write!(f, ",register={rank}")?;
        }
        if self.atomics {
            write!(f, ",atomics=1")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grammar() {
        let plan: FaultPlan = "seed=7, delay=0.1,busy=1/4,kill=2:1000,network=1:5,register=3,atomics=1"
            .parse()
            .unwrap();
        assert_eq!(
            plan,
            FaultPlan {
                seed: 7,
                delay: 0.1,
                busy: 0.25,
                kill: Some((JobRank(2), 1000)),
                network: Some((JobRank(1), 5)),
                register: Some(JobRank(3)),
                atomics: true,
                ..FaultPlan::default()
            }
        );
        assert_eq!(plan.to_string().parse::<FaultPlan>().unwrap(), plan);
        for bad in [
            "seed",
            "delay=2",
            "busy=-0.1",
            "drop=0.1",
            "seed=1,",
            "kill=1",
            "kill=-1:2",
            "register=-1",
        ] {
            assert!(bad.parse::<FaultPlan>().is_err(), "{bad}");
        }
    }
}
