//! Shared memory between the processes of a neighbourhood: what lies where ([`layout`], [`memory`]), message rings ([`ring`]), payload blocks
//! ([`pool`]), a barrier's words ([`barrier_cells`]), the lanes of collectives ([`coll_buffers`]), and [`Comm`], this process's view of all of it.
//! [`segment`] maps the client's segments; [`kernel_copy`] reaches what is not mapped.
//!
//! Everything here is relocatable: positions are computed from the base of the mapping, never stored. Nothing that lies in shared memory is
//! ever borrowed as a Rust reference, except atomics.

pub mod barrier_cells;
pub mod coll_buffer_pool;
pub mod coll_buffers;
pub mod comm;
pub mod kernel_copy;
pub mod layout;
pub mod memory;
pub mod pool;
pub mod ring;
pub mod segment;

pub use comm::Comm;
