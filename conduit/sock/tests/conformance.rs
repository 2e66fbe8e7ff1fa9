//! The conformance suite on the sock conduit, with and without injected faults.

use gasnet_conduit::conformance::with_faults;
use gasnet_conduit::Conduit;
use gasnet_conduit_sock::Sock;

/// A sock conduit with the faults of a plan.
fn faulty(plan: &str) -> Box<dyn Conduit> {
    with_faults(Box::new(Sock), plan)
}

gasnet_conduit::conformance_tests! {
    sock: || Box::new(Sock);
    faulty_delay: || faulty("seed=1,delay=0.2,split=0.2");
    faulty_reorder: || faulty("seed=2,reorder=0.5,busy=0.1");
    faulty_busy: || faulty("seed=3,busy=0.5,delay=0.05,reorder=0.05,split=0.05");
}
