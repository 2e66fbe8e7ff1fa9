//! The assembly of a library: the runtime, and the conduits whose features are on. `libgasnet-smp-par` is this crate with one of them,
//! `libgasnet` with all that were built; the runtime takes one at start (`gasnet::select`).

use gasnet as _;
use gasnet_conduit::Conduit;

/// Best first: a job takes the first that all its processes can use.
static CONDUITS: &[&dyn Conduit] = include!(concat!(env!("OUT_DIR"), "/conduits.rs"));

/// The conduits of this library. The runtime declares it as a foreign function, so that it names no conduit.
#[no_mangle]
pub extern "Rust" fn gasneti_conduits() -> &'static [&'static dyn Conduit] {
    CONDUITS
}
