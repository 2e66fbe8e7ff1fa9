//! What the processes of a fabric share: one sparse file in the fabric's directory, mapped by all.

mod heap;
mod lock;
mod objects;
mod ring;
mod table;

pub use lock::{Guard, Lock};
pub use objects::{Cq, Events, Fabric, Mr, Path, Port, Qp, Receives, Srq, DEVICES, PORTS, PROCESSES};
pub use ring::Ring;

/// Bits of the index in a key of a table.
pub const INDEX_BITS: u32 = 16;
