//! Parts that several networks are made of: a conduit has only what is its network's own.
//!
//! [`credits`] bound the requests under way to a peer, and [`peer_states`] tell which peers are
//! there. [`pool`] has buffers in registered memory, [`pending_queue`] keeps what found no room,
//! and [`report`] is the end of an operation in parts. [`slot_table`] numbers values,
//! [`aligned_copy`] keeps messages in memory, [`fixed_vec`] holds a few values on the stack,
//! [`mapped`] is mapped memory, [`mod@record`] is for what processes exchange, [`parts`] for
//! packets in parts, and [`mod@probe`] finds out how much memory can be registered.

pub mod account;
pub mod aligned_copy;
pub mod credits;
pub mod fixed_vec;
pub mod mapped;
pub mod parts;
pub mod peer_states;
pub mod pending_queue;
pub mod pool;
pub mod probe;
pub mod record;
pub mod report;
pub mod slot_table;
