//! Shared memory between the processes of a neighbourhood.
//!
//! - [`layout`], [`memory`]: what is where, and typed access to it.
//! - [`ring`], [`pool`]: message rings and payload blocks.
//! - [`barrier_cells`]: the words of a barrier.
//! - [`coll_buffers`], [`coll_buffer_pool`]: collective buffers.
//! - [`Comm`]: this process's view of rings, blocks and sleep words.
//! - [`segment`]: maps the client's segments.
//! - [`kernel_copy`]: reaches memory that is not mapped.
//!
//! Everything is relocatable: addresses are computed from the base of the mapping and never stored.
//! Nothing in shared memory is borrowed as a Rust reference, except atomics.

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
