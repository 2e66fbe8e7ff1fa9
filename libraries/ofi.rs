//! libgasnet-ofi-seq, -parsync and -par.

gasnet::conduits!(&[&gasnet_conduit_ofi::CONDUIT]);
