//! The conformance suite on the gni conduit, over the emulator of uGNI; and parts of it over
//! emulators that punish, and with other settings ([`plans`]).

mod emulated;

use gasnet_conduit::faulty::Faulty;
use gasnet_conduit::Conduit;
use gasnet_conduit_gni::Gni;
use std::sync::Once;

fn plain() -> Box<dyn Conduit> {
    static EMULATOR: Once = Once::new();
    EMULATOR.call_once(emulated::emulate);
    Box::new(Gni::new())
}

fn faulty() -> Box<dyn Conduit> {
    let plan = "seed=5,busy=0.2,delay=0.1,reorder=0.1,split=0.1".parse().unwrap();
    Box::new(Faulty::new(plain(), &plan, Box::new(|| {})))
}

mod packets {
    use super::{faulty, plain};
    gasnet_conduit::lossless_conformance_tests! {
        over_ugni: plain;
        over_faulty_ugni: faulty;
    }
}

mod operations {
    use super::{faulty, plain};
    gasnet_conduit::rma_conformance_tests! {
        over_ugni: plain;
        over_faulty_ugni: faulty;
    }
}

mod notification {
    use super::plain;
    gasnet_conduit::notify_conformance_tests! { over_ugni: plain; }
}

mod atomics {
    use super::plain;
    gasnet_conduit::atomics_conformance_tests! { over_ugni: plain; }
}

mod send_buffers {
    use super::plain;
    gasnet_conduit::send_buffers_conformance_tests! { over_ugni: plain; }
}

mod barriers {
    use super::plain;
    gasnet_conduit::barrier_conformance_tests! { over_ugni: plain; }
}
