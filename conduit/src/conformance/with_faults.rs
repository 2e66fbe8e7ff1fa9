//! A conduit whose networks have injected faults.

use crate::config::FaultPlan;
use crate::faulty::Faulty;
use crate::{Conduit, ConduitError, Identity, Limits, Network, StartInfo};

/// The same conduit with the faults of a plan ([`crate::faulty`]), which kill no rank.
pub fn with_faults(conduit: Box<dyn Conduit>, plan: &str) -> Box<dyn Conduit> {
    /// Its networks are wrapped.
    struct WithFaults(Box<dyn Conduit>, FaultPlan);

    impl Conduit for WithFaults {
        fn identity(&self) -> Identity {
            self.0.identity()
        }
        fn limits(&self) -> Limits {
            self.0.limits()
        }
        fn start(&self, info: &StartInfo<'_>) -> Result<Box<dyn Network>, ConduitError> {
            let network = self.0.start(info)?;
            Ok(Box::new(Faulty::new(network, info.rank, &self.1, Box::new(|| {}))))
        }
    }
    Box::new(WithFaults(conduit, plan.parse().expect("a plan of faults")))
}
