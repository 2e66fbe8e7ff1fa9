//! libgasnet-elan-seq, -parsync and -par.

gasnet::conduits!(&[&gasnet_conduit_elan::CONDUIT]);
