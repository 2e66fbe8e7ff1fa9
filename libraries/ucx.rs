//! libgasnet-ucx-seq, -parsync and -par.

gasnet::conduits!(&[&gasnet_conduit_ucx::CONDUIT]);
