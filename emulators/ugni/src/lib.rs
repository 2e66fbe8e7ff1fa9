//! A software `libugni.so` for tests, between processes of one host (emulators/README.md). It has
//! no daemon: tables and queues lie in shared memory, and the process that posts an operation
//! executes it, also in the memory of its peer. Reading order:
//!
//! - `config`: EMU_UGNI
//! - `shm`, `process`, `reclaim`: the fabric, this process's part of it, and what the dead leave
//! - `refuse`, `object`: how functions refuse, and what handles name
//! - `entry`, `status`, `request`, `queue`: completion queues
//! - `region`, `amo`, `operation`, `later`, `forge`: operations
//! - `reduce`, `ce`: the collective engine
//! - `cdm`, `cq`, `ep`, `memory`, `post`, `chain`, `engine`, `smsg`, `datagram`, `channel`,
//!   `errors`, `info`, `unsupported`: the C interface

mod amo;
mod cdm;
mod ce;
mod chain;
mod channel;
mod config;
mod cq;
mod datagram;
mod engine;
mod entry;
mod ep;
mod errors;
mod forge;
mod info;
mod later;
mod memory;
mod object;
mod operation;
mod post;
mod process;
mod queue;
mod reclaim;
mod reduce;
mod refuse;
mod region;
mod request;
mod shm;
mod smsg;
mod status;
mod unsupported;
