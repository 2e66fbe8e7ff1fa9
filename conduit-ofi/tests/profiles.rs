//! The conduit over the profiles of the strict provider (`strict/src/profiles.rs`), some of them as
//! older versions of libfabric had them.

mod strict;

use strict::{over_strict_provider, start_alone};

/// Tests of these checks with this plan, which gives tcp;ofi_rxm the name of this provider.
macro_rules! profiles {
    ($($name:ident: $plan:literal $provider:literal, $($check:ident)*;)*) => { $(
        mod $name {
            fn conduit() -> Box<dyn gasnet_conduit::Conduit> {
                crate::strict::over_strict_provider(concat!("profile=", $plan, ";", $provider))
            }
            gasnet_conduit::each_check! { over_tcp conduit, $($check)* }
        }
    )* };
}

/// The same with the checks of a conduit with puts beside these.
macro_rules! putting_profiles {
    ($($name:ident: $plan:literal $provider:literal, $($check:ident)*;)*) => { profiles! { $($name: $plan $provider,
        every_size many_threads largest_both_ways every_put_and_get many_at_once notified_after_data
        notified_many_at_once $($check)*;
    )* } };
}

putting_profiles! {
    cxi: "cxi" "cxi", atomics_lose_nothing;
    efa: "efa" "efa", first_contact atomics_lose_nothing;
    opx: "opx" "opx", atomics_lose_nothing;
    opx_1_17: "opx version=1.17.0 demand=mr_scalable,av_map,context2,async_iov" "opx", atomics_lose_nothing;
    psm2: "psm2" "psm2", atomics_lose_nothing;
    psm3: "psm3" "psm3", atomics_lose_nothing;
    verbs_rxm: "verbs-rxm" "verbs;ofi_rxm", atomics_lose_nothing;
    tcp: "tcp" "tcp",;
    tcp_rxm: "tcp-rxm" "tcp;ofi_rxm", atomics_lose_nothing;
    udp_rxd: "udp-rxd" "udp;ofi_rxd",;
    shm: "shm" "shm", atomics_lose_nothing;
}

profiles! {
    ucx: "ucx" "ucx", every_size many_threads largest_both_ways;
    sm2: "sm2" "sm2", every_size many_threads largest_both_ways;
    efa_1_18: "efa version=1.18.0 end=any" "efa", every_size largest_both_ways;
    efa_1_22: "efa version=1.22.0 minimum=late" "efa", every_size many_threads largest_both_ways;
    shm_1_16: "shm version=1.16.1 end=early late=90" "shm", many_threads largest_both_ways;
    shm_1_22: "shm version=1.22.0 minimum=late" "shm", every_size largest_both_ways;
    net: "tcp as=net version=1.17.0 end=early late=90" "net", many_threads largest_both_ways;
    tcp_1_19_0: "tcp version=1.19.0 end=early late=90" "tcp", many_threads largest_both_ways;
    ends_after_errors: "tcp end=canceled" "tcp", many_threads largest_both_ways;
    ends_after_long_messages: "tcp end=truncated" "tcp", many_threads largest_both_ways;
    flags_of_senders: "tcp-rxm flag=2" "tcp;ofi_rxm", many_threads largest_both_ways;
}

/// lnx has tagged messages only.
#[test]
fn lnx_is_not_used() {
    let why = start_alone(&*over_strict_provider("profile=lnx;lnx"))
        .err()
        .expect("no start");
    assert!(
        why.contains("libfabric has no provider") && why.contains("with reliable messages"),
        "{why}"
    );
}
