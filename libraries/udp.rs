//! libgasnet-udp-seq, -parsync and -par.

gasnet::conduits!(&[&gasnet_conduit_udp::CONDUIT]);
