//! The universal libgasnet: the conduits that it was built with, of which the runtime takes one at start (`gasnet::select`).

use gasnet::conduit::Conduit;

/// Best first: a job takes the first that all its processes can use.
static CONDUITS: &[&dyn Conduit] = &[
    #[cfg(feature = "smp")]
    &gasnet_conduit_smp::CONDUIT,
    #[cfg(feature = "udp")]
    &gasnet_conduit_udp::CONDUIT,
    #[cfg(feature = "sock")]
    &gasnet_conduit_sock::CONDUIT,
];

/// The conduits of this library. The runtime declares it as a foreign function, so that it names no conduit.
#[cfg_attr(any(feature = "smp", feature = "sock", feature = "udp"), no_mangle)]
pub extern "Rust" fn gasneti_conduits() -> &'static [&'static dyn Conduit] {
    CONDUITS
}
