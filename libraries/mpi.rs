//! libgasnet-mpi-seq, -parsync and -par.

gasnet::conduits!(&[&gasnet_conduit_mpi::CONDUIT]);
