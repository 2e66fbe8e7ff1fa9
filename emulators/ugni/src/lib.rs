//! A software `libugni.so` for tests, between processes of one host (emulators/README.md). It has
//! no daemon: tables and queues lie in shared memory, and the process that posts an operation
//! executes it, also in the memory of its peer. Reading order:
//!
//! - `config`, `forge`, `status`: options, altered messages, statuses of completions
//! - `shm`, `reclaim`, `process`: the fabric, the end of its objects, this process's part of it
//! - `refuse`, `request`, `object`: refusals, requests, and the objects behind handles
//! - `entry`, `channel`, `queue`: completion queues
//! - `region`, `memory`, `amo`, `operation`: registered memory, and operations
//! - `ce`: the collective engine
//! - `later`, `post`, `chain`: when an operation is executed, and how it is posted
//! - `cdm`, `cq`, `ep`, `engine`, `smsg`, `datagram`, `info`: the rest of the C interface

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
mod refuse;
mod region;
mod request;
mod shm;
mod smsg;
mod status;
