//! The conformance suite on the ofi conduit, over the providers in software that libfabric has
//! everywhere. None of them notices the end of a peer, and only some a bad key.

use gasnet_conduit::faulty::Faulty;
use gasnet_conduit::Conduit;
use gasnet_conduit_ofi::Ofi;

fn tcp() -> Box<dyn Conduit> {
    Box::new(Ofi::with_provider("tcp;ofi_rxm"))
}

fn faulty() -> Box<dyn Conduit> {
    let plan = "seed=5,busy=0.2,delay=0.1,reorder=0.1,split=0.1".parse().unwrap();
    Box::new(Faulty::new(tcp(), &plan, Box::new(|| {})))
}

fn net() -> Box<dyn Conduit> {
    Box::new(Ofi::with_provider("net"))
}

fn sockets() -> Box<dyn Conduit> {
    Box::new(Ofi::with_provider("sockets"))
}

fn shm() -> Box<dyn Conduit> {
    Box::new(Ofi::with_provider("shm"))
}

fn rxd() -> Box<dyn Conduit> {
    Box::new(Ofi::with_provider("udp;ofi_rxd"))
}

macro_rules! over_providers {
    ($family:ident: $tests:ident) => {
        mod $family {
            #[allow(unused_imports)]
            use super::{faulty, net, rxd, shm, sockets, tcp};
            gasnet_conduit::$tests! {
                over_tcp: tcp;
                over_net: net;
                over_sockets: sockets;
                over_shm: shm;
                over_rxd: rxd;
                over_faulty_tcp: faulty;
            }
        }
    };
}

over_providers!(packets: lossless_conformance_tests);
over_providers!(send_buffers: send_buffers_conformance_tests);
over_providers!(operations: rma_conformance_tests);
over_providers!(notification: notify_conformance_tests);
over_providers!(atomics: atomics_conformance_tests);
