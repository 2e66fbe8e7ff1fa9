//! A software `libibverbs.so.1` for tests, between processes of one host (emulators/README.md). It
//! has no daemon: tables and queues lie in shared memory, and the process that posts an operation
//! executes it, also in the memory of its peer. Reading order:
//!
//! - `config`, `profiles`, `ports`, `text`, `forge`: EMU_VERBS
//! - `shm`, `reclaim`, `stale`, `process`, `faults`: the fabric, the end of its objects, memory
//!   that is no longer mapped, this process's part of it, and the faults that EMU_VERBS asks for
//! - `address`, `path`, `copy`: LIDs and GIDs, paths of QPs, copies between processes
//! - `footprint`, `fork`, `device_memory`, `mr`, `landing`: registered memory
//! - `event`, `cq`, `receive`, `srq`, `wqe`, `single_thread`: queues
//! - `state`, `migration`, `qp`: queue pairs
//! - `damage`, `respond`, `ud`, `send`: operations
//! - `handle`, `raise`: the objects behind handles, and asynchronous events of faults
//! - `memory`, `poll`, `extended`, `verbs`, `connect`, `device`, `tables`, `misc`, `refused`: the C
//!   interface

mod address;
mod config;
mod connect;
mod copy;
mod cq;
mod damage;
mod device;
mod device_memory;
mod event;
mod extended;
mod faults;
mod footprint;
mod forge;
mod fork;
mod handle;
mod landing;
mod memory;
mod migration;
mod misc;
mod mr;
mod path;
mod poll;
mod ports;
mod process;
mod profiles;
mod qp;
mod raise;
mod receive;
mod reclaim;
mod refused;
mod respond;
mod send;
mod shm;
mod single_thread;
mod srq;
mod stale;
mod state;
mod tables;
mod text;
mod ud;
mod verbs;
mod wqe;
