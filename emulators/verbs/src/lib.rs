//! A software `libibverbs.so.1` for tests, between processes of one host (emulators/README.md). It
//! has no daemon: tables and queues lie in shared memory, and the process that posts an operation
//! executes it, also in the memory of its peer. Reading order:
//!
//! - `config`, `ports`, `faults`: EMU_VERBS and the faults it asks for
//! - `shm`, `process`, `reclaim`: the fabric, who uses it, and what the dead leave
//! - `address`, `mr`, `copy`: LIDs and GIDs, keys, copies between processes
//! - `stale`, `device_memory`: what is no longer mapped, and memory of devices
//! - `event`, `cq`, `receive`, `srq`, `footprint`: queues
//! - `state`, `path`, `migration`, `qp`, `send`, `respond`, `ud`, `nic`: queue pairs
//! - `handle`, `device`, `tables`, `memory`, `poll`, `verbs`, `connect`, `extended`, `misc`,
//!   `private`, `text`: the C interface

mod address;
mod config;
mod connect;
mod copy;
mod cq;
mod device;
mod device_memory;
mod event;
mod extended;
mod faults;
mod footprint;
mod forge;
mod handle;
mod landing;
mod memory;
mod migration;
mod misc;
mod mr;
mod nic;
mod path;
mod poll;
mod ports;
mod private;
mod process;
mod qp;
mod raise;
mod receive;
mod reclaim;
mod respond;
mod send;
mod shm;
mod srq;
mod stale;
mod state;
mod tables;
mod text;
mod ud;
mod verbs;
