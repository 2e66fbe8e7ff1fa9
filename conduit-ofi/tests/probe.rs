//! The start after a probe, as in the universal library.

mod strict;

use gasnet_sys::env;
use strict::{over_strict_provider, start_alone};

/// The strict provider ends the process if libfabric has read its variables before they were set.
#[test]
fn a_probe_leaves_variables_that_libfabric_has_read() {
    env::set(c"GASNET_CONDUIT", c"ofi");
    let conduit = over_strict_provider("seed=5;tcp;ofi_rxm");
    conduit.probe(5).unwrap();
    start_alone(&*conduit).unwrap();
    assert_eq!(env::get(c"FI_UNIVERSE_SIZE"), Some(c"5"));
}
