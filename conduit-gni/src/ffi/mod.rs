//! uGNI behind safe types: a communication domain with its completion queues, endpoints, registered
//! memory and post descriptors. Only this module calls the library.

mod channel;
mod domain;
mod engine;
mod library;
mod post;

pub use channel::Channel;
pub use domain::{
    register_failed, Arrivals, Completed, Domain, DomainOptions, Endpoint, Failure, QueueGuard, Received, BURST,
};
pub use engine::EngineHandle;
pub use library::{Code, Functions};
pub use post::{Extent, Local, PostDescriptor, Remote, SyncFlag, INLINE};
