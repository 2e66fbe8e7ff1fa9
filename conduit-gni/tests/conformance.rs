//! The conformance suite on the gni conduit, over the emulator of uGNI; and parts of it over
//! emulators with faults, and with other settings ([`plans`]).

mod emulated;

use gasnet_conduit::conformance::{job_number, with_faults};
use gasnet_conduit::Conduit;
use gasnet_conduit_gni::Gni;
use std::sync::Once;

fn plain() -> Box<dyn Conduit> {
    static EMULATOR: Once = Once::new();
    EMULATOR.call_once(emulated::emulate);
    Box::new(Gni::of_job(job_number()))
}

fn faulty() -> Box<dyn Conduit> {
    with_faults(plain(), "seed=5,busy=0.2,delay=0.1,reorder=0.1,split=0.1")
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
    gasnet_conduit::barrier_conformance_tests! { by_engine: plain; }
}

mod words {
    use super::{faulty, plain};
    gasnet_conduit::words_conformance_tests! {
        over_ugni: plain;
        over_faulty_ugni: faulty;
    }
}

/// Each runs some of the tests above in a process of its own, because a process reads the options
/// of the emulator once.
mod plans {
    #[test]
    fn memory_is_reported() {
        let variables = "GASNET_GNI_AM_MEMORY_REPORT=1 GASNET_NETWORKDEPTH_TOTAL=7";
        let output = super::emulated::run_again("", variables, "barriers --nocapture --skip plans");
        assert!(
            output.contains("7 own requests of") && output.contains("GASNet: gni: rank 1:"),
            "{output}"
        );
    }

    macro_rules! plans {
        ($($name:ident: $options:literal, $variables:literal, $tests:literal;)*) => { $(
            #[test]
            fn $name() {
                super::emulated::EMULATOR.run_plan(stringify!($name), $options, $variables, $tests);
            }
        )* };
    }

    plans! {
        gemini: "flavour=gemini", "", "over_ugni";
        gemini_orders_strictly: "flavour=gemini reorder", "GASNET_GNI_MEM_CONSISTENCY=strict",
            "operations notification";
        reordered: "reorder delay=50", "", "over_ugni";
        reordered_by_milliseconds: "reorder late delay=5000", "",
            "packets::over_ugni::exactly_once packets::over_ugni::busy_recovers notified_after_data";
        early_events: "early-event reorder delay=500", "", "packets::over_ugni notification";
        early_events_on_gemini: "flavour=gemini early-event reorder delay=500", "",
            "packets::over_ugni operations::over_ugni notification send_buffers";
        early_events_of_pieces: "flavour=gemini early-event delay=500",
            "GASNET_GNI_PACKEDLONG_CUTOVER=0 GASNET_GNI_MEMREG=0 GASNET_GNI_PUT_FMA_RDMA_CUTOVER=16K", "notification";
        late: "late delay=50", "", "over_ugni";
        late_on_gemini: "flavour=gemini late reorder delay=50", "", "over_ugni";
        requests_are_always_fetched: "", "GASNET_GNI_AM_RVOUS_CUTOVER=1",
            "packets notification send_buffers operations::over_ugni::before";
        requests_are_fetched_late: "late reorder delay=50", "GASNET_GNI_AM_RVOUS_CUTOVER=1", "packets notification";
        few_rendezvous_buffers: "reorder", "GASNET_GNI_AM_RVOUS_CUTOVER=1 GASNET_GNI_AM_RVOUS_BUFFERS=1",
            "packets notification";
        space_for_one_message: "reorder", "GASNET_NETWORKDEPTH_SPACE=1", "packets::over_ugni";
        space_for_one_peer: "reorder", "GASNET_GNI_AM_EAGER_PEERS=1", "packets notification";
        space_for_nobody: "", "GASNET_GNI_AM_EAGER_PEERS=0", "packets notification";
        few_of_everything: "reorder",
            "GASNET_NETWORKDEPTH=2 GASNET_NETWORKDEPTH_TOTAL=3 GASNET_GNI_NUM_PD=32 GASNET_GNI_BOUNCE_SIZE=4K \
             GASNET_NETWORKDEPTH_SPACE=1 GASNET_LONG_DEPTH=1", "over_ugni";
        few_posts: "reorder", "GASNET_GNI_NUM_PD=32 GASNET_GNI_PACKEDLONG_CUTOVER=0", "notification";
        one_of_everything: "",
            "GASNET_NETWORKDEPTH=1 GASNET_NETWORKDEPTH_TOTAL=1 GASNET_GNI_AM_RVOUS_BUFFERS=1 GASNET_GNI_BOUNCE_SIZE=1",
            "packets notification operations::over_ugni";
        more_slots_than_bits: "reorder", "GASNET_NETWORKDEPTH_TOTAL=200 GASNET_NETWORKDEPTH=200",
            "packets notification";
        small_mediums: "", "GASNET_GNI_MAX_MEDIUM=960", "packets notification send_buffers";
        large_mediums: "late", "GASNET_GNI_MAX_MEDIUM=65408 GASNET_GNI_AM_RVOUS_CUTOVER=1",
            "packets notification send_buffers";
        small_bursts: "reorder", "GASNET_GNI_AMPOLL_BURST=1", "packets notification";
        // One job at a time: the limit is that of the process.
        memory_is_probed: "reg-bytes=400000000", "GASNET_PHYSMEM_PROBE=1 GASNET_PHYSMEM_MAX=1G",
            "barriers --test-threads=1";
        nothing_is_packed: "reorder", "GASNET_GNI_PACKEDLONG_CUTOVER=0", "notification";
        all_by_engine: "late reorder delay=50", "GASNET_GNI_GET_FMA_RDMA_CUTOVER=0 GASNET_GNI_PUT_FMA_RDMA_CUTOVER=0",
            "operations notification";
        all_by_fma: "late", "GASNET_GNI_GET_FMA_RDMA_CUTOVER=16K GASNET_GNI_PUT_FMA_RDMA_CUTOVER=16K",
            "operations notification";
        much_is_copied: "late",
            "GASNET_GNI_GET_BOUNCE_REGISTER_CUTOVER=32K GASNET_GNI_PUT_BOUNCE_REGISTER_CUTOVER=32K", "operations";
        nothing_is_registered: "late reorder delay=20", "GASNET_GNI_MEMREG=0", "operations notification";
        registrations_are_few: "reorder", "GASNET_GNI_MEMREG=1", "operations notification";
        registrations_are_not_shared: "", "GASNET_USE_UDREG=0", "operations::over_ugni";
        posts_find_no_room: "busy=30 reorder", "", "over_ugni";
        registrations_find_no_room: "reg-busy=50", "", "operations::over_ugni::every operations::over_ugni::many";
        domains: "reorder", "GASNET_DOMAIN_COUNT=3 GASNET_AM_DOMAIN_POLL_MASK=3", "over_ugni";
        domains_of_several_threads: "", "GASNET_DOMAIN_COUNT=2 GASNET_GNI_PTHREADS_PER_DOMAIN=2", "over_ugni";
        threads_do_not_sleep: "", "GASNET_WAITMODE=SPIN", "over_ugni";
        parts_of_puts_in_any_order: "relaxed reorder delay=100", "CONFORMANCE_WORDS=1",
            "packets::over_ugni words::over_ugni";
        threads_stay_in_calls: "stay=300", "",
            "operations::over_ugni::many_at_once packets::over_ugni::many_threads";
        words_overtake: "reorder late delay=50", "CONFORMANCE_WORDS=1", "words::";
        words_are_late: "reorder late delay=2000", "CONFORMANCE_WORDS=1", "words::over_ugni";
        words_on_gemini: "flavour=gemini early-event reorder delay=500", "CONFORMANCE_WORDS=1", "words::";
        words_find_no_room: "busy=30 reorder", "CONFORMANCE_WORDS=1 GASNET_GNI_NUM_PD=32", "words::";
        words_wake_nobody: "late", "CONFORMANCE_WORDS=1 GASNET_WAITMODE=SPIN", "words::";
        words_of_domains: "reorder",
            "CONFORMANCE_WORDS=1 GASNET_DOMAIN_COUNT=3 GASNET_AM_DOMAIN_POLL_MASK=3", "words::";
        barrier_in_a_chain: "reorder", "GASNET_GNI_CE_RADIX=1 CONFORMANCE_HOSTS=3", "barriers";
        barrier_of_hosts: "reorder late", "CONFORMANCE_HOSTS=2", "barriers";
        barrier_of_single_processes: "reorder", "GASNET_USE_CE_PSHM=0 CONFORMANCE_HOSTS=2", "barriers";
        no_engines: "ce=0", "CONFORMANCE_HOSTS=2", "words::";
        shared_resources: "", "GASNET_GNI_FMA_SHARING=1 GASNET_GNI_MDD_SHARING=0 GASNET_GNI_BTE_MULTI_CHANNEL=0",
            "packets::over_ugni operations::over_ugni";
        strict: "reorder early-event", "GASNET_GNI_MEM_CONSISTENCY=strict GASNET_GNI_ROUTING_MODE=in_order",
            "operations notification";
        no_consistency: "reorder", "GASNET_GNI_MEM_CONSISTENCY=none GASNET_GNI_ROUTING_MODE=ADAPTIVE_3", "notification";
    }
}
