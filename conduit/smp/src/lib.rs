//! conduit-smp of libgasnet: shared memory only, without a network.
//!
//! A job over smp is one neighbourhood, and neighbours communicate without a network. So the
//! conduit opens nothing and receives nothing.

use gasnet_conduit::{Conduit, ConduitError, Identity, Limits, Network, NoNetwork, Reach, StartInfo};

/// The conduit. It has no state.
#[derive(Clone, Copy, Debug, Default)]
pub struct Smp;

impl Conduit for Smp {
    fn identity(&self) -> Identity {
        Identity {
            name: "smp",
            version: env!("CARGO_PKG_VERSION"),
            reach: Reach::Neighbourhood,
            takes_count: false,
        }
    }

    fn limits(&self) -> Limits {
        Limits {
            max_packet_bytes: 68 << 10,
            max_ranks: 4096,
            requests_per_poll: 1,
        }
    }

    fn start(&self, info: &StartInfo<'_>) -> Result<Box<dyn Network>, ConduitError> {
        if info.leaders.len() == 1 {
            return Ok(Box::new(NoNetwork));
        }
        Err(ConduitError {
            message: format!(
                "The smp conduit has no network, but the {} processes of this job form {} neighbourhoods instead of \
                 one. Unset GASNET_SUPERNODE_MAXSIZE, or use a conduit with a network.",
                info.size,
                info.leaders.len()
            ),
        })
    }
}

/// The conduit of a library.
pub static CONDUIT: Smp = Smp;

#[cfg(test)]
mod tests {
    use super::*;
    use gasnet_conduit::JobRank;

    fn start(leaders: &[JobRank]) -> Result<(), ConduitError> {
        let (all, exchange) = ([0, 1, 2, 3].map(JobRank), <[u8]>::to_vec);
        let info = StartInfo {
            leaders,
            ..gasnet_conduit::conformance::start_info(JobRank(0), &all, &exchange)
        };
        CONDUIT.start(&info).map(|_| ())
    }

    #[test]
    fn one_neighbourhood_only() {
        assert!(start(&[JobRank(0)]).is_ok());
        let error = start(&[JobRank(0), JobRank(2)]).unwrap_err().to_string();
        assert!(error.contains("GASNET_SUPERNODE_MAXSIZE"), "{error}");
    }
}
