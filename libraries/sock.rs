//! libgasnet-sock-seq, -parsync and -par.

gasnet::conduits!(&[&gasnet_conduit_sock::CONDUIT]);
