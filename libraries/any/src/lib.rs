//! The assembly of the universal library and of programs: the runtime, and the conduits whose
//! features are enabled, in the order of Cargo.toml. The runtime selects one of them at start
//! (`gasnet::select`). The libraries of one conduit are in `/libraries`.

gasnet::conduits!(include!(concat!(env!("OUT_DIR"), "/conduits.rs")));
