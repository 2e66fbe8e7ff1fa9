//! The conformance suite on the elan conduit, over the emulator of libelan; and parts of it over
//! emulators with faults, and with other settings ([`plans`]).

mod emulated;

use gasnet_conduit::conformance::{job_number, with_faults};
use gasnet_conduit::Conduit;
use gasnet_conduit_elan::Elan;
use std::sync::Once;

fn plain() -> Box<dyn Conduit> {
    static EMULATOR: Once = Once::new();
    EMULATOR.call_once(emulated::emulate);
    Box::new(Elan::of_job(job_number()))
}

fn faulty() -> Box<dyn Conduit> {
    with_faults(plain(), "seed=5,busy=0.2,delay=0.1,reorder=0.1,split=0.1")
}

mod packets {
    use super::{faulty, plain};
    gasnet_conduit::lossless_conformance_tests! {
        over_elan: plain;
        over_faulty_elan: faulty;
    }
}

mod operations {
    use super::{faulty, plain};
    gasnet_conduit::keyless_rma_conformance_tests! {
        over_elan: plain;
        over_faulty_elan: faulty;
    }
}

mod notification {
    use super::plain;
    gasnet_conduit::notify_conformance_tests! { over_elan: plain; }
}

mod send_buffers {
    use super::plain;
    gasnet_conduit::send_buffers_conformance_tests! { over_elan: plain; }
}

mod barriers {
    use super::plain;
    gasnet_conduit::barrier_conformance_tests! { over_elan: plain; }
}

/// Each runs some of the tests above in a process of its own, because a process reads the options
/// of the emulator once.
mod plans {
    macro_rules! plans {
        ($($name:ident: $options:literal, $variables:literal, $tests:literal;)*) => { $(
            #[test]
            fn $name() {
                super::emulated::EMULATOR.run_plan(stringify!($name), $options, $variables, $tests);
            }
        )* };
    }

    plans! {
        elan3: "flavour=elan3", "", "over_elan";
        elan3_faults: "flavour=elan3 reorder late delay=50", "", "over_elan";
        elan3_without_memory: "flavour=elan3 alloc=600000", "", "over_elan";
        reordered: "reorder delay=50", "", "over_elan";
        late: "late delay=50", "", "over_elan";
        messages_overtake_each_other: "reorder overtake delay=50", "",
            "packets notification send_buffers";
        reordered_by_milliseconds: "reorder late delay=5000", "",
            "packets::over_elan::exactly_once packets::over_elan::busy_recovers notified_after_data";
        few_credits: "reorder", "GASNET_ELAN_AM_CREDITS=1", "packets notification";
        odd_credits: "", "GASNET_ELAN_AM_CREDITS=3", "packets::over_elan";
        few_buffers: "reorder", "GASNET_ELAN_BUFFERS=8", "over_elan";
        few_puts: "late", "GASNET_NETWORKDEPTH=1 GASNET_NBI_THROTTLE=3", "operations notification send_buffers";
        one_put_in_a_channel: "throttle=1", "GASNET_NETWORKDEPTH=2", "operations notification barriers";
        one_operation: "late", "GASNET_NBI_THROTTLE=1", "operations notification";
        small_puts: "flavour=elan3 small=8 late", "", "operations notification barriers";
        library_for_one_thread: "serial", "", "packets operations notification send_buffers";
        barrier_by_broadcasts: "reorder late delay=50", "GASNET_BARRIER=ELANSLOW", "barriers";
        barrier_without_hardware: "no-hwbcast reorder", "", "barriers";
        rails: "rails=2 reorder", "", "operations";
    }
}
