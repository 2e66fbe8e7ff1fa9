//! Windows that are smaller than a message, as in large jobs over cxi.

mod strict;

use gasnet_conduit::Conduit;
use gasnet_sys::env;

fn conduit() -> Box<dyn Conduit> {
    env::set(c"GASNET_OFI_WINDOW", c"4K");
    strict::over_strict_provider("eagain=10;tcp;ofi_rxm")
}

gasnet_conduit::each_check! { with_a_small_window conduit, every_size largest_both_ways busy_recovers many_threads }
