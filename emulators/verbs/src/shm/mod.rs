//! State that the processes of a fabric share: a sparse file in its folder, which all map.

mod objects;
mod ring;

pub use objects::{Cq, Events, Fabric, Mr, Path, Port, Qp, Receives, Srq, DEVICES, PORTS};
