//! Receive buffers under the rules of single providers and versions.

mod strict;

use gasnet_conduit::conformance::Job;
use gasnet_conduit::{Class, JobRank};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use strict::{over_strict_provider, poll_until, take, Report};

/// Tests of these checks with a plan that gives tcp;ofi_rxm the name of a provider, and its rules.
macro_rules! stand_ins {
    ($($name:ident: $plan:literal $provider:literal, $($check:ident)*;)*) => { $(
        mod $name {
            fn conduit() -> Box<dyn gasnet_conduit::Conduit> {
                crate::strict::over_strict_provider(concat!("as=", $provider, " ", $plan, ";", $provider))
            }
            gasnet_conduit::each_check! { over_tcp conduit, $($check)* }
        }
    )* };
}

stand_ins! {
    opx: "minimum=early end=left header=192 late=50" "opx", every_size many_threads largest_both_ways;
    cxi: "minimum=early end=any late=50" "cxi", every_size many_threads largest_both_ways;
    psm2: "minimum=early end=any" "psm2", every_size largest_both_ways;
    efa_1_18: "version=1.18.0 minimum=early end=any" "efa", every_size largest_both_ways;
    efa_1_22: "version=1.22.0 minimum=late end=bare late=50" "efa", every_size many_threads largest_both_ways;
    efa_2_0: "version=2.0.0 minimum=early end=bare" "efa", every_size largest_both_ways;
    shm_1_16: "version=1.16.1 end=early late=90" "shm", many_threads largest_both_ways;
    shm_1_22: "version=1.22.0 minimum=late end=bare" "shm", every_size largest_both_ways;
    shm_2_6: "version=2.6.0 minimum=early end=bare" "shm", every_size largest_both_ways;
    sm2: "version=2.6.0 minimum=late end=bare" "sm2", every_size largest_both_ways;
    rxm_2_0: "version=2.0.0 minimum=early end=bare late=50" "ofi_rxm", many_threads largest_both_ways;
    rxd: "end=early late=90 no=inject_entries" "ofi_rxd", many_threads largest_both_ways every_put_and_get;
    net: "version=1.17.0 end=early late=90" "net", many_threads largest_both_ways;
    tcp_1_19_0: "version=1.19.0 end=early late=90" "tcp", many_threads largest_both_ways;
    tcp_1_20: "version=1.20.0 end=any late=90" "tcp", many_threads largest_both_ways;
    ends_after_errors: "end=canceled late=50" "tcp", many_threads largest_both_ways;
    flags_of_senders: "version=2.0.0 minimum=early end=bare flag=2 late=50" "ofi_rxm", many_threads largest_both_ways;
    ends_after_long_messages: "end=truncated late=50" "tcp", many_threads largest_both_ways;
}

/// A message that is too long for a buffer of its own is an unauthenticated peer's.
#[test]
fn a_message_without_room_in_its_own_buffer_is_dropped() {
    let job = Job::start(&|| over_strict_provider("no=multi_recv cut=1;tcp;ofi_rxm"), 2);
    let over = AtomicBool::new(false);
    job.run(|rank, network| {
        let mut report = Report::default();
        if rank == JobRank(0) {
            for _ in 0..2 {
                let message = [1; 5000];
                take(network, &mut report, || {
                    network.send(JobRank(1), Class::Request, &[&message]).is_ok()
                });
            }
            poll_until(network, &mut report, |_| over.load(SeqCst));
        } else {
            poll_until(network, &mut report, |report| {
                report.done > 0 || !report.lost.is_empty()
            });
            over.store(true, SeqCst);
        }
        assert!(report.lost.is_empty(), "{:?}", report.lost);
    });
}
