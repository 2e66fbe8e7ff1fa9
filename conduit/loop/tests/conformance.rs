//! The conformance suite on the loop conduit, all families, with and without injected faults.

use gasnet_conduit::conformance::with_faults;
use gasnet_conduit::Conduit;
use gasnet_conduit_loop::Loop;

fn plain() -> Box<dyn Conduit> {
    Box::new(Loop::new())
}

fn faulty() -> Box<dyn Conduit> {
    with_faults(plain(), "seed=3,busy=0.3,delay=0.1,reorder=0.1,split=0.1")
}

mod packets {
    use super::{faulty, plain};
    gasnet_conduit::conformance_tests! {
        with_nic: plain;
        with_faulty_nic: faulty;
    }
}

mod send_buffers {
    use super::{faulty, plain};
    gasnet_conduit::send_buffers_conformance_tests! {
        with_nic: plain;
        with_faulty_nic: faulty;
    }
}

mod gather {
    use super::{faulty, plain};
    gasnet_conduit::gather_conformance_tests! {
        with_nic: plain;
        with_faulty_nic: faulty;
    }
}

mod barrier {
    use super::{faulty, plain};
    gasnet_conduit::barrier_conformance_tests! {
        with_nic: plain;
        with_faulty_nic: faulty;
    }
}

mod words {
    use super::{faulty, plain};
    gasnet_conduit::words_conformance_tests! {
        with_nic: plain;
        with_faulty_nic: faulty;
    }
}

mod operations {
    use super::{faulty, plain};
    gasnet_conduit::rma_conformance_tests! {
        with_nic: plain;
        with_faulty_nic: faulty;
    }
}

mod notification {
    use super::{faulty, plain};
    gasnet_conduit::notify_conformance_tests! {
        with_nic: plain;
        with_faulty_nic: faulty;
    }
}

mod atomics {
    use super::{faulty, plain};
    gasnet_conduit::atomics_conformance_tests! {
        with_nic: plain;
        with_faulty_nic: faulty;
    }
}
