//! conduit-smp of libgasnet: shared memory only, without a network.
//!
//! A job over smp is one neighbourhood, and neighbours communicate without a conduit. So the
//! conduit opens nothing and receives nothing, and a packet from the runtime is a defect of the
//! runtime.

use gasnet_conduit::{
    Busy, Class, Conduit, ConduitError, Identity, JobRank, Limits, PollScope, StartInfo, Stop, Upcalls,
};

/// The conduit. It has no state.
#[derive(Clone, Copy, Debug, Default)]
pub struct Smp;

impl Conduit for Smp {
    fn identity(&self) -> Identity {
        Identity {
            name: "smp",
            version: env!("CARGO_PKG_VERSION"),
        }
    }

    fn limits(&self) -> Limits {
        Limits {
            max_packet_bytes: 68 << 10,
            max_ranks: 4096,
            requests_per_poll: 1,
        }
    }

    fn start(&self, info: &StartInfo<'_>) -> Result<(), ConduitError> {
        if info.leaders.len() == 1 {
            return Ok(());
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

    fn needs_single_neighbourhood(&self) -> bool {
        true
    }

    fn send(&self, peer: JobRank, class: Class, _parts: &[&[u8]]) -> Result<(), Busy> {
        panic!("defect: the smp conduit, which has no network, got a {class:?} packet for process {peer}");
    }

    fn poll(&self, _scope: PollScope, _upcalls: &mut dyn Upcalls) -> usize {
        0
    }

    fn stop(&self, _: Stop) {}
}

/// The conduit of a library.
pub static CONDUIT: Smp = Smp;

#[cfg(test)]
mod tests {
    use super::*;

    fn start(leaders: &[JobRank]) -> Result<(), ConduitError> {
        let (all, exchange) = ([0, 1, 2, 3].map(JobRank), <[u8]>::to_vec);
        let info = StartInfo {
            leaders,
            ..gasnet_conduit::conformance::start_info(JobRank(0), &all, &exchange)
        };
        CONDUIT.start(&info)
    }

    #[test]
    fn one_neighbourhood_only() {
        assert!(start(&[JobRank(0)]).is_ok());
        let error = start(&[JobRank(0), JobRank(2)]).unwrap_err().to_string();
        assert!(error.contains("GASNET_SUPERNODE_MAXSIZE"), "{error}");
        assert!(CONDUIT.needs_single_neighbourhood());
    }
}
