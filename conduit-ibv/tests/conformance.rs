//! The conformance suite on the ibv conduit, over the emulator of verbs; and parts of it over
//! emulators with faults, and with other settings ([`plans`]).

mod emulated;

use gasnet_conduit::conformance::with_faults;
use gasnet_conduit::Conduit;
use gasnet_conduit_ibv::Ibv;
use std::sync::Once;

fn plain() -> Box<dyn Conduit> {
    static EMULATOR: Once = Once::new();
    EMULATOR.call_once(emulated::emulate);
    Box::new(Ibv)
}

fn faulty() -> Box<dyn Conduit> {
    with_faults(plain(), "seed=5,busy=0.2,delay=0.1,reorder=0.1,split=0.1")
}

mod packets {
    use super::{faulty, plain};
    gasnet_conduit::lossless_conformance_tests! {
        over_verbs: plain;
        over_faulty_verbs: faulty;
    }
}

mod send_buffers {
    use super::plain;
    gasnet_conduit::send_buffers_conformance_tests! { over_verbs: plain; }
}

mod gathered {
    use super::plain;
    gasnet_conduit::gather_conformance_tests! { over_verbs: plain; }
}

mod operations {
    use super::{faulty, plain};
    gasnet_conduit::rma_conformance_tests! {
        over_verbs: plain;
        over_faulty_verbs: faulty;
    }
}

mod small {
    use super::{faulty, plain};
    gasnet_conduit::small_put_conformance_tests! {
        over_verbs: plain;
        over_faulty_verbs: faulty;
    }
}

mod notification {
    use super::plain;
    gasnet_conduit::notify_conformance_tests! { over_verbs: plain; }
}

mod words {
    use super::{faulty, plain};
    gasnet_conduit::words_conformance_tests! {
        over_verbs: plain;
        over_faulty_verbs: faulty;
    }
}

mod atomics {
    use super::plain;
    gasnet_conduit::atomics_conformance_tests! { over_verbs: plain; }
}

/// A peer that computes is connected all the same, by the thread of its conduit.
mod attention {
    use gasnet_conduit::conformance::{expose, put, Completed, Job};
    use gasnet_conduit::{Busy, Cookie, JobRank, PollScope, SegmentMemory, SourceUse};
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
    use std::time::{Duration, Instant};

    #[test]
    fn over_verbs_a_put_reaches_a_peer_that_never_polls() {
        let job = Job::start(&super::plain, 2);
        let word = AtomicU64::new(0);
        let segment = SegmentMemory::host(word.as_ptr() as usize, 8);
        let (_, targets) = expose((JobRank(1), job.of(1)), &segment, &[job.of(0)]);
        let (network, mut done, begun) = (job.of(0), Completed::default(), Instant::now());
        let bytes = 7_u64.to_ne_bytes();
        while put(network, targets[0], &bytes, SourceUse::Now, Cookie::new(1)) == Err(Busy) {
            network.poll(PollScope::All, &mut done);
            assert!(begun.elapsed() < Duration::from_secs(30), "the peer was not connected");
        }
        while !done.0 {
            network.poll(PollScope::All, &mut done);
            assert!(begun.elapsed() < Duration::from_secs(30), "the put did not complete");
        }
        assert_eq!(word.load(SeqCst), 7);
        job.stop();
    }
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
        connected_at_first_contact: "", "GASNET_CONNECT_STATIC=0", "over_verbs";
        datagrams_are_lost_doubled_and_late: "ud-loss=40 ud-dup=30 ud-reorder=30", "GASNET_CONNECT_STATIC=0",
            "first_contact";
        few_datagrams: "", "GASNET_CONNECT_STATIC=0 GASNET_CONNECT_SNDS=1 GASNET_CONNECT_RCVS=1", "first_contact";
        receives_are_shared: "", "GASNET_USE_SRQ=1 GASNET_USE_XRC=0", "over_verbs";
        xrc: "", "GASNET_USE_SRQ=1 GASNET_USE_XRC=1", "over_verbs";
        xrc_on_two_hosts: "", "GASNET_USE_SRQ=1 GASNET_USE_XRC=1 CONFORMANCE_HOSTS=2", "over_verbs";
        xrc_at_first_contact: "ud-loss=40 ud-dup=30 ud-reorder=30",
            "GASNET_USE_SRQ=1 GASNET_USE_XRC=1 CONFORMANCE_HOSTS=2 GASNET_CONNECT_STATIC=0",
            "packets::over_verbs atomics";
        xrc_late: "late delay=50", "GASNET_USE_SRQ=1 GASNET_USE_XRC=1 CONFORMANCE_HOSTS=2", "over_verbs";
        xrc_of_two_hcas: "hcas=2 ports=2 early-completion delay=50",
            "GASNET_USE_SRQ=1 GASNET_USE_XRC=1 CONFORMANCE_HOSTS=2 GASNET_IBV_PORTS=emu0:1,2+emu1:1,2", "over_verbs";
        xrc_of_groups: "hcas=2 late-visible delay=50", "GASNET_USE_SRQ=1 GASNET_USE_XRC=1 GASNET_CONNECT_STATIC=0",
            "over_verbs";
        xrc_without_rings: "rnr=10 late-visible delay=20", "GASNET_USE_SRQ=1 GASNET_USE_XRC=1 GASNET_WAITMODE=SPIN",
            "packets notification";
        xrc_with_few_of_everything: "max-qp-wr=8 max-inline=0",
            "GASNET_USE_SRQ=1 GASNET_USE_XRC=1 GASNET_AM_CREDITS_PP=2 GASNET_RBUF_COUNT=4 GASNET_BBUF_COUNT=2 \
             GASNET_NETWORKDEPTH_TOTAL=4", "over_verbs";
        hcas_without_xrc: "no-xrc",
            "GASNET_USE_SRQ=1 GASNET_USE_XRC=1", "packets::over_verbs operations::over_verbs::every";
        receives_are_not_shared: "no-srq", "", "over_verbs";
        packets_are_fetched: "no-srq late-visible delay=20", "GASNET_RBUF_COUNT=40", "over_verbs";
        packets_are_fetched_with_one_of_everything: "no-srq max-inline=0",
            "GASNET_RBUF_COUNT=1 GASNET_NETWORKDEPTH_PP=1 GASNET_BBUF_COUNT=1 GASNET_NETWORKDEPTH_TOTAL=1",
            "packets::over_verbs notification operations::over_verbs";
        completion_queues_are_short: "no-srq max-cqe=20", "", "packets::over_verbs notification operations::over_verbs";
        completion_queues_are_short_and_polled: "no-srq max-cqe=60 hcas=2 rnr=10 late delay=20",
            "GASNET_WAITMODE=SPIN GASNET_IBV_MAX_HCAS=2 GASNET_CONNECT_STATIC=0", "packets notification";
        packets_are_fetched_over_two_hcas: "no-srq hcas=2 ports=2 early-completion delay=50",
            "GASNET_IBV_PORTS=emu0:1,2+emu1:1,2 GASNET_RBUF_COUNT=64", "over_verbs";
        receives_of_two_ports_are_not_shared: "no-srq ports=2", "GASNET_IBV_PORTS=emu0:1,2 GASNET_NUM_QPS=3",
            "packets::over_verbs notification";
        receives_are_not_shared_by_choice: "", "GASNET_USE_SRQ=9 GASNET_AM_CREDITS_PP=3 GASNET_CONNECT_STATIC=0",
            "packets::over_verbs notification";
        roce: "link=roce", "", "over_verbs";
        rings: "", "GASNET_WAITMODE=SPIN", "packets notification send_buffers";
        rings_are_written_late: "late-visible delay=50", "GASNET_WAITMODE=SPIN", "over_verbs";
        words_are_written: "", "GASNET_WAITMODE=SPIN CONFORMANCE_WORDS=1", "words::";
        words_are_written_late: "late-visible late delay=50", "GASNET_WAITMODE=SPIN CONFORMANCE_WORDS=1", "words::";
        words_without_rings: "", "GASNET_WAITMODE=SPIN CONFORMANCE_WORDS=1 GASNET_AMRDMA_MAX_PEERS=0", "words::";
        words_without_inline_data: "max-inline=0 no-srq", "GASNET_WAITMODE=SPIN", "words::";
        words_of_two_hcas: "hcas=2 ports=2 late delay=50",
            "GASNET_WAITMODE=SPIN GASNET_IBV_PORTS=emu0:1,2+emu1:1,2 CONFORMANCE_WORDS=1", "words::";
        words_on_a_bus_that_keeps_no_order: "relaxed delay=50", "GASNET_WAITMODE=SPIN", "words::";
        rings_without_inline_data: "max-inline=0 no-srq", "GASNET_WAITMODE=SPIN GASNET_AMRDMA_MAX_PEERS=1", "packets";
        rings_of_two_hcas: "hcas=2 ports=2 late delay=50",
            "GASNET_WAITMODE=SPIN GASNET_IBV_PORTS=emu0:1,2+emu1:1,2 GASNET_AM_CREDITS_PP=300", "packets notification";
        late: "late delay=50", "", "over_verbs";
        late_visible: "late-visible delay=50", "", "over_verbs";
        receivers_are_not_ready: "rnr=20", "", "packets::over_verbs notification";
        few_of_everything: "",
            "GASNET_NETWORKDEPTH_PP=4 GASNET_AM_CREDITS_PP=2 GASNET_RBUF_COUNT=4 GASNET_BBUF_COUNT=2 \
             GASNET_NETWORKDEPTH_TOTAL=4", "over_verbs";
        one_of_everything: "",
            "GASNET_NETWORKDEPTH_PP=1 GASNET_AM_CREDITS_PP=1 GASNET_AM_CREDITS_TOTAL=1 GASNET_RBUF_COUNT=1 \
             GASNET_BBUF_COUNT=1 GASNET_NETWORKDEPTH_TOTAL=1",
            "packets::over_verbs notification operations::over_verbs";
        depths_that_are_no_powers_of_two: "",
            "GASNET_NETWORKDEPTH_PP=7 GASNET_NETWORKDEPTH_TOTAL=0 GASNET_BBUF_COUNT=0", "over_verbs";
        queues_of_units_of_64_bytes: "wqe-units max-qp-wr=64", "GASNET_INLINESEND_LIMIT=-1", "over_verbs";
        few_credits_for_all_peers: "", "GASNET_AM_CREDITS_TOTAL=5 GASNET_AM_CREDITS_SLACK=9", "packets notification";
        one_buffer_of_each_size: "no-odp", "GASNET_BBUF_COUNT=1 GASNET_INLINESEND_LIMIT=0", "over_verbs";
        nothing_is_inline: "max-inline=0", "", "over_verbs";
        inline_data_is_clamped: "clamp-inline=48", "", "packets::over_verbs notification operations::over_verbs";
        nothing_is_inline_by_choice: "", "GASNET_INLINESEND_LIMIT=0 GASNET_PACKEDLONG_LIMIT=0", "over_verbs";
        all_that_can_be_is_inline: "", "GASNET_INLINESEND_LIMIT=-1", "over_verbs";
        nothing_is_copied: "", "GASNET_NONBULKPUT_BOUNCE_LIMIT=0", "operations notification";
        nothing_is_copied_or_paged: "late", "GASNET_NONBULKPUT_BOUNCE_LIMIT=0 GASNET_USE_ODP=0",
            "operations notification";
        registrations_are_few: "no-odp late delay=20", "GASNET_PINNED_REGIONS_MAX=16", "operations notification";
        nothing_is_registered: "no-odp late delay=20",
            "GASNET_USE_FIREHOSE=0 GASNET_NONBULKPUT_BOUNCE_LIMIT=4096 GASNET_BBUF_COUNT=2", "operations notification";
        nothing_is_registered_and_puts_are_fenced: "no-odp hcas=2 early-completion delay=50 max-mr=4194304",
            "GASNET_PINNED_REGIONS_MAX=0 GASNET_NONBULKPUT_BOUNCE_LIMIT=5000", "operations::over_verbs notification";
        stripes: "hcas=2 ports=2 late delay=50",
            "GASNET_IBV_PORTS=emu0:1,2+emu1:1,2 GASNET_PUT_STRIPE_SZ=1 GASNET_GET_STRIPE_SZ=9000B",
            "operations notification";
        stripes_of_memory_that_is_registered: "no-odp ports=2 max-mr=4194304",
            "GASNET_IBV_PORTS=emu0:1,2 GASNET_NUM_QPS=3 GASNET_PUT_STRIPE_SZ=64 GASNET_GET_STRIPE_SZ=0.1M",
            "operations::over_verbs notification";
        everything_is_gathered: "late delay=50", "GASNET_AM_GATHER_MIN=0", "gathered packets::over_verbs";
        nothing_is_gathered_in_place: "no-odp", "GASNET_AM_GATHER_MIN=1", "gathered";
        gathered_with_few_of_everything: "hcas=2",
            "GASNET_AM_CREDITS_PP=1 GASNET_NETWORKDEPTH_PP=1 GASNET_BBUF_COUNT=1", "gathered";
        what_cannot_be_registered_is_copied: "no-odp no-read-only late delay=20", "", "constants_are_put notification";
        small_regions: "max-mr=4194304 no-odp", "", "operations::over_verbs notification";
        short_messages_of_the_hca: "max-msg=100000 late delay=50", "", "operations notification";
        short_messages_of_several_ports: "max-msg=100000 hcas=2 ports=2 late delay=50",
            "GASNET_IBV_PORTS=emu0:1,2+emu1:1,2", "operations::over_verbs notification";
        the_largest_message_is_not_reported: "max-msg=0 ports=2", "GASNET_IBV_PORTS=emu0:1,2",
            "operations::over_verbs notification";
        datagrams_are_not_offered: "no-ud", "", "over_verbs";
        short_queues: "max-qp-wr=8", "", "over_verbs";
        short_receive_queues: "no-srq max-recv-wr=8", "", "packets::over_verbs notification";
        shared_receive_queues_alone: "max-recv-wr=0", "GASNET_USE_SRQ=1", "packets::over_verbs notification";
        puts_are_fenced: "early-completion delay=50", "GASNET_USE_FENCED_PUTS=1", "over_verbs";
        rings_of_which_data_come_late: "early-completion delay=50", "GASNET_WAITMODE=SPIN GASNET_USE_FENCED_PUTS=1",
            "packets notification";
        rings_on_a_bus_that_keeps_order: "early-completion delay=50", "GASNET_WAITMODE=SPIN",
            "packets before_packets notification";
        no_rings_on_a_bus_that_keeps_no_order: "relaxed delay=50", "GASNET_WAITMODE=SPIN",
            "packets before_packets notification";
        bytes_land_in_any_order: "relaxed=1 delay=50", "GASNET_WAITMODE=SPIN GASNET_USE_FENCED_PUTS=1",
            "packets::over_verbs operations::over_verbs notification";
        puts_of_several_hcas_are_fenced: "hcas=2 early-completion delay=50", "", "over_verbs";
        puts_of_hcas_without_guids_are_fenced: "hcas=2 early-completion delay=50 no-guid", "", "attention notification";
        ports_of_virtual_functions: "hcas=2 grh=0:1 no-lid=0:1 no-guid mtu=1:1024 pkeys=0:1:0x7fff,0xffff lmc=2 late \
                                     delay=20", "", "over_verbs";
        hcas_and_ports: "hcas=2 ports=2", "GASNET_IBV_PORTS=emu0:1,2+emu1:1,2", "over_verbs";
        two_of_three_hcas: "hcas=3", "GASNET_IBV_MAX_HCAS=2 GASNET_CONNECT_STATIC=0",
            "packets::over_verbs::exactly operations::over_verbs::every";
        a_filter: "hcas=2 ports=2", "GASNET_IBV_PORTS=emu1:2+emu9",
            "packets::over_verbs::exactly operations::over_verbs::every";
        three_queue_pairs_on_two_ports: "ports=2", "GASNET_IBV_PORTS=emu0:1,2 GASNET_NUM_QPS=3", "over_verbs";
        roce_hcas_by_gid_index: "hcas=2 ports=2 link=roce",
            "GASNET_IBV_GID_INDEX=1 GASNET_IBV_MAX_HCAS=2 GASNET_IBV_TRAFFIC_CLASS=104 GASNET_IBV_SERVICE_LEVEL=3",
            "packets::over_verbs::exactly operations::over_verbs::every notification";
        infiniband_by_gid: "", "GASNET_IBV_GID_INDEX=0 GASNET_IBV_PKEY=0x7fff GASNET_MAX_MTU=256 GASNET_QP_RD_ATOM=1",
            "packets::over_verbs::exactly operations::over_verbs::every";
        hcas_like_mlx4: "device=mlx4 ports=2", "GASNET_IBV_PORTS=mlx4_0:1,2 GASNET_USE_SRQ=1", "over_verbs";
        hcas_like_mlx5: "device=mlx5 hcas=2 late delay=20",
            "GASNET_WAITMODE=SPIN GASNET_IBV_MAX_HCAS=2 GASNET_INLINESEND_LIMIT=-1", "over_verbs";
        hcas_like_mlx5_with_xrc: "device=mlx5", "GASNET_USE_SRQ=1 GASNET_USE_XRC=1", "over_verbs";
        hcas_like_bnxt_re: "device=bnxt_re late-visible delay=20", "GASNET_WAITMODE=SPIN GASNET_USE_SRQ=1",
            "over_verbs";
        hcas_like_irdma: "device=irdma late delay=20", "GASNET_CONNECT_STATIC=0",
            "over_verbs --skip atomics";
        hcas_like_hns: "device=hns hcas=2", "GASNET_IBV_PORTS=hns_0+hns_1 GASNET_USE_SRQ=1", "over_verbs";
        hcas_like_rxe: "device=rxe", "GASNET_NETWORKDEPTH_PP=16384 GASNET_CONNECT_STATIC=0", "over_verbs";
        hcas_like_mana: "device=mana", "GASNET_NETWORKDEPTH_PP=16384", "over_verbs --skip atomics";
        hcas_like_qedr: "device=qedr early-completion delay=20", "GASNET_USE_FENCED_PUTS=1 GASNET_INLINESEND_LIMIT=-1",
            "over_verbs --skip atomics";
        hcas_like_hfi1: "device=hfi1 ports=2", "GASNET_INLINESEND_LIMIT=-1 GASNET_USE_SRQ=1", "over_verbs";
        hcas_of_different_abilities: "hcas=2 lacks=1:atomic,xrc,srq,odp late delay=20",
            "GASNET_USE_SRQ=1 GASNET_USE_XRC=1 CONFORMANCE_HOSTS=2", "over_verbs --skip atomics";
        old_libraries: "old-library late delay=20", "GASNET_WAITMODE=SPIN", "over_verbs";
        old_libraries_on_roce: "old-library link=roce gid=0:1:0:none", "", "over_verbs";
        calls_fail_for_a_while: "no-odp late delay=20 fail=create_qp:1:3:ENOMEM fail=create_qp:9:2:EINVAL",
            "GASNET_NONBULKPUT_BOUNCE_LIMIT=4096", "operations::over_verbs notification";
        registrations_fail_for_a_while: "no-odp late delay=20 fail=reg_mr:1:5:EAGAIN fail=reg_mr:12:2:EAGAIN \
                                         fail=reg_mr:60:9:EAGAIN", "GASNET_NONBULKPUT_BOUNCE_LIMIT=4096",
            "operations::over_verbs notification";
        registered_memory_is_not_stale: "stale late delay=20 no-odp", "", "operations::over_verbs notification";
    }
}
