//! libgasnet-smp-seq, -parsync and -par.

gasnet::conduits!(&[&gasnet_conduit_smp::CONDUIT]);
