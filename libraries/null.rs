//! libgasnet-null-seq, -parsync and -par.

gasnet::conduits!(&[&gasnet_conduit_null::CONDUIT]);
