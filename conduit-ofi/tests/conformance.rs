//! The conformance suite on the ofi conduit, over the providers in software that libfabric has
//! everywhere. None of them notices the end of a peer. A start over tcp;ofi_rxm takes a tenth of a
//! second, so the check that starts most jobs runs over net, and shm reports no bad keys.
//!
//! With `GASNET_OFI_LIBRARY` that libfabric takes the place of the installed one. From 1.18 on, tcp
//! has replaced net: `OFI_TEST_NET=tcp`.

use gasnet_conduit::config::{self, Config};
use gasnet_conduit::conformance::with_faults;
use gasnet_conduit::Conduit;
use gasnet_conduit_ofi::Ofi;
use std::sync::{Once, OnceLock};

/// The conduit over a provider, with the variables of this process.
fn over(provider: &'static str) -> Box<dyn Conduit> {
    static VARIABLES: Once = Once::new();
    VARIABLES.call_once(|| config::install(Config::load(&[Ofi::new().variables()]).unwrap()));
    Box::new(Ofi::with_provider(provider))
}

fn tcp() -> Box<dyn Conduit> {
    over("tcp;ofi_rxm")
}

fn faulty() -> Box<dyn Conduit> {
    with_faults(tcp(), "seed=5,busy=0.2,delay=0.1,reorder=0.1,split=0.1")
}

fn net() -> Box<dyn Conduit> {
    static NAME: OnceLock<String> = OnceLock::new();
    over(NAME.get_or_init(|| std::env::var("OFI_TEST_NET").unwrap_or("net".into())))
}

fn sockets() -> Box<dyn Conduit> {
    over("sockets")
}

fn shm() -> Box<dyn Conduit> {
    over("shm")
}

mod packets {
    use super::{faulty, net, shm, sockets, tcp};

    macro_rules! packets {
        ($($name:ident: $make:expr;)*) => { $(gasnet_conduit::each_check! { $name $make,
            every_size exactly_once largest_both_ways replies_only busy_recovers many_threads stop_with_traffic
        })* };
    }
    packets! {
        over_tcp: tcp;
        over_sockets: sockets;
        over_shm: shm;
        over_faulty_tcp: faulty;
    }
    gasnet_conduit::lossless_conformance_tests! { over_net: net; }
}

mod send_buffers {
    use super::{net, tcp};
    gasnet_conduit::send_buffers_conformance_tests! {
        over_tcp: tcp;
        over_net: net;
    }
}

mod operations {
    use super::{faulty, net, shm, sockets, tcp};
    gasnet_conduit::rma_conformance_tests! {
        over_tcp: tcp;
        over_net: net;
        over_sockets: sockets;
        over_faulty_tcp: faulty;
    }
    gasnet_conduit::each_check! { over_shm shm, every_put_and_get source_is_free before_packets many_at_once }
}

mod notification {
    use super::{net, shm, sockets, tcp};
    gasnet_conduit::notify_conformance_tests! {
        over_tcp: tcp;
        over_net: net;
        over_shm: shm;
        // Announced by messages.
        over_sockets: sockets;
    }
}

mod atomics {
    use super::{shm, sockets, tcp};
    gasnet_conduit::atomics_conformance_tests! {
        over_tcp: tcp;
        over_sockets: sockets;
        over_shm: shm;
    }
}
