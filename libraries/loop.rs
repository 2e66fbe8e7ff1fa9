//! libgasnet-loop-seq, -parsync and -par.

gasnet::conduits!(&[&gasnet_conduit_loop::CONDUIT]);
