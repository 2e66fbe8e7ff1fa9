//! The library's shared-memory structures, over a double of the memory itself.

pub mod layout;
pub mod memory;

#[path = "../../../../src/shm/barrier_cells.rs"]
pub mod barrier_cells;
#[path = "../../../../src/shm/coll_buffers.rs"]
pub mod coll_buffers;
#[path = "../../../../src/shm/comm.rs"]
pub mod comm;
#[path = "../../../../src/shm/pool.rs"]
pub mod pool;
#[path = "../../../../src/shm/ring.rs"]
pub mod ring;
