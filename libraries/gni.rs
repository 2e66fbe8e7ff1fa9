//! libgasnet-gni-seq, -parsync and -par.

gasnet::conduits!(&[&gasnet_conduit_gni::CONDUIT]);
