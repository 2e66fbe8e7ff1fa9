//! What several networks are made of. A conduit is its network; what it shares with others is here.
//!
//! [`credits`] bound the requests under way to a peer, [`peer_states`] tell which peers are there,
//! [`pool`] has buffers in registered memory, [`slot_table`] numbers values, [`aligned_copy`] keeps
//! messages in memory, [`fixed_vec`] holds a few values on the stack, [`mapped`] is mapped memory,
//! and [`mod@probe`] finds out how much memory can be registered.

pub mod aligned_copy;
pub mod credits;
pub mod fixed_vec;
pub mod mapped;
pub mod peer_states;
pub mod pool;
pub mod probe;
pub mod slot_table;
