//! The conformance suite on the ofi conduit, over each provider that this machine has.

use gasnet_conduit::Conduit;
use gasnet_conduit_ofi::Ofi;

fn tcp() -> Box<dyn Conduit> {
    Box::new(Ofi::with_provider("tcp;ofi_rxm"))
}

mod packets {
    use super::tcp;
    gasnet_conduit::lossless_conformance_tests! {
        tcp: tcp;
    }
}

mod send_buffers {
    use super::tcp;
    gasnet_conduit::send_buffers_conformance_tests! {
        tcp: tcp;
    }
}

mod operations {
    use super::tcp;
    gasnet_conduit::rma_conformance_tests! {
        tcp: tcp;
    }
}

mod notification {
    use super::tcp;
    gasnet_conduit::notify_conformance_tests! {
        tcp: tcp;
    }
}

mod atomics {
    use super::tcp;
    gasnet_conduit::atomics_conformance_tests! {
        tcp: tcp;
    }
}
