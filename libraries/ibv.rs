//! libgasnet-ibv-seq, -parsync and -par.

gasnet::conduits!(&[&gasnet_conduit_ibv::CONDUIT]);
