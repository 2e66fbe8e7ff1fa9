//! The start of the conduit: what it asks libfabric for, and in which environment. The strict
//! provider passes for libfabric 1.20.

mod strict;

use gasnet_conduit::{Conduit, Device, SegmentMemory};
use gasnet_sys::env;
use std::sync::Once;
use strict::{start_alone, start_beside_another_host};

/// A conduit over a provider of a library that is newer than the one underneath.
fn over_strict_provider(provider: &'static str) -> Box<dyn Conduit> {
    static SET: Once = Once::new();
    SET.call_once(|| {
        env::set(c"STRICT_VERSION", c"20");
        env::set(c"FI_PSM3_UUID", c"the user's");
    });
    strict::over_strict_provider(provider)
}

#[test]
fn jobs_and_matching_are_preset() {
    start_alone(&*over_strict_provider("seed=1;tcp;ofi_rxm")).unwrap();
    let value = |name| env::get(name).map(|value| value.to_str().unwrap());
    assert_eq!(value(c"FI_PSM3_UUID"), Some("the user's"));
    assert_eq!(value(c"FI_PSM2_UUID").map(str::len), Some(36));
    assert_eq!(value(c"FI_OPX_UUID").map(str::len), Some(32));
    assert_eq!(value(c"FI_CXI_RX_MATCH_MODE"), Some("hybrid"));
    for name in [c"HFI_NO_CPUAFFINITY", c"PSM3_NO_CPUAFFINITY"] {
        assert_eq!(value(name), Some("1"), "{name:?}");
    }
}

#[test]
fn ranks_of_this_host_and_of_others_are_asked_for() {
    start_beside_another_host(&*over_strict_provider("seed=2;tcp;ofi_rxm")).unwrap();
}

#[test]
fn unknown_demands_are_refused() {
    let why = start_alone(&*over_strict_provider("demand=unknown;tcp;ofi_rxm"))
        .err()
        .unwrap();
    let demand = "does not support: demand=unknown;tcp;ofi_rxm (mode 0x2000000000000, mr_mode 0x0)";
    assert!(why.contains(demand), "{why}");
}

#[test]
fn operations_shorter_than_a_packet_are_refused() {
    let why = start_alone(&*over_strict_provider("max_msg=4096;tcp;ofi_rxm"))
        .err()
        .unwrap();
    assert!(
        why.contains("sends no message of more than 4096 bytes. Lower GASNET_OFI_MAX_MEDIUM"),
        "{why}"
    );
}

/// efa-direct comes first in the list, under the name of efa. The strict provider ends the process
/// that opens it.
#[test]
fn the_record_with_all_abilities_is_opened() {
    let network = start_alone(&*over_strict_provider("twin=1 no=wait_fd;tcp;ofi_rxm")).unwrap();
    assert!(network.abilities().rma.is_some() && network.abilities().atomics.is_some());
}

#[test]
fn providers_below_the_oldest_interface_are_not_found() {
    let why = start_alone(&*over_strict_provider("interface=16;tcp;ofi_rxm"))
        .err()
        .unwrap();
    assert!(why.contains("libfabric has no provider"), "{why}");
}

#[test]
fn an_address_that_is_refused_is_named() {
    let why = start_alone(&*over_strict_provider("refuse=insert@1;tcp;ofi_rxm"))
        .err()
        .unwrap();
    assert!(
        why.contains("inserting the address of rank 0 failed: Cannot assign requested address"),
        "{why}"
    );
}

/// Vendors deliver providers that are older than the library beside them.
#[test]
fn providers_of_older_interfaces_are_used_with_device_memory() {
    let room = vec![0_u8; 8192];
    let memory = SegmentMemory {
        base: room.as_ptr() as usize,
        bytes: 4096,
        device: Some(Device::Cuda(0)),
    };
    for plan in [
        "demand=mr_hmem;tcp;ofi_rxm",
        "demand=mr_hmem interface=19;tcp;ofi_rxm",
        "demand=mr_hmem interface=17;tcp;ofi_rxm",
    ] {
        let network = start_alone(&*over_strict_provider(plan)).unwrap();
        let segments = network.abilities().segments.unwrap();
        let registered = segments.register_device(&memory, &|| None);
        segments.deregister(registered.unwrap_or_else(|| panic!("{plan}: no device memory")).segment);
    }
}
