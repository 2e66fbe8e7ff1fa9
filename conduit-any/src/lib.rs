//! The assembly of a library: the runtime, and the conduits whose features are enabled.
//! `libgasnet-smp-par` is this crate with one conduit, `libgasnet` with several, of which the
//! runtime selects one at start (`gasnet::select`).

use gasnet as _;
use gasnet_conduit::Conduit;

/// In order of preference: a job uses the first that all its processes can use.
static CONDUITS: &[&dyn Conduit] = include!(concat!(env!("OUT_DIR"), "/conduits.rs"));

/// The conduits of this library. The runtime declares it as a foreign function, and so depends on
/// no conduit.
#[no_mangle]
pub extern "Rust" fn gasneti_conduits() -> &'static [&'static dyn Conduit] {
    CONDUITS
}
